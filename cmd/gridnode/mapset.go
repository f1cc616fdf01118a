package main

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"gridnode/node"
)

// mapsKey is the setting under which maps are configured.
const mapsKey = "maps"

// mapOption sets one option of a map's config.
type mapOption struct {
	name string
	set  func(*node.MapConfig, string) error
}

var mapOptions = []mapOption{
	{"ttl", mapSpan(func(c *node.MapConfig) *time.Duration { return &c.TTL })},
	{"max-idle", mapSpan(func(c *node.MapConfig) *time.Duration { return &c.MaxIdle })},
	{"eviction", func(c *node.MapConfig, v string) error { c.Eviction = node.Eviction(strings.ToUpper(v)); return nil }},
	{"max-size", func(c *node.MapConfig, v string) (err error) {
		if c.MaxSize, err = strconv.Atoi(v); err != nil {
			return fmt.Errorf("%q is not a whole number", v)
		}
		return nil
	}},
	{"max-size-policy", func(c *node.MapConfig, v string) error {
		c.MaxSizePolicy = node.SizePolicy(strings.ToUpper(v))
		return nil
	}},
	{indexesOption, func(c *node.MapConfig, v string) (err error) { c.Indexes, err = parseIndexes(v); return err }},
	{"backup-count", func(*node.MapConfig, string) error {
		return fmt.Errorf("all maps have as many backups: set backup-count for the cluster, beside maps")
	}},
	{"async-backup-count", func(_ *node.MapConfig, v string) error {
		if v != "0" {
			return fmt.Errorf("%q: a write is answered when all backups have it, so there are no asynchronous ones", v)
		}
		return nil
	}},
}

func mapSpan(field func(*node.MapConfig) *time.Duration) func(*node.MapConfig, string) error {
	return func(c *node.MapConfig, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil {
			return fmt.Errorf("%q is not a duration such as 500ms or 30s", v)
		}
		*field(c) = d
		return nil
	}
}

// setMaps reads configs of maps. One that was given before, by another layer too, is replaced as a whole.
func setMaps(s *settings, v string) error {
	all := maps.Clone(s.Maps)
	if all == nil {
		all = map[string]node.MapConfig{}
	}
	seen := map[string]bool{}
	for _, item := range split(v) {
		name, options, ok := strings.Cut(item, ":")
		if !ok || name == "" {
			return fmt.Errorf("%q is not of the form name:option=value;option=value", item)
		}
		if seen[name] {
			return fmt.Errorf("%s is given twice", name)
		}
		seen[name] = true
		cfg, err := mapConfig(options)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all[name] = cfg
	}
	s.Maps = all
	return nil
}

func mapConfig(options string) (cfg node.MapConfig, err error) {
	given := map[string]bool{}
	for item := range strings.SplitSeq(options, ";") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, value, ok := strings.Cut(item, "=")
		if !ok {
			return cfg, fmt.Errorf("%q is not of the form option=value", item)
		}
		if given[name] {
			return cfg, fmt.Errorf("%s: is given twice", name)
		}
		given[name] = true
		if err := setMapOption(&cfg, name, value); err != nil {
			return cfg, err
		}
	}
	return cfg, nil
}

func setMapOption(cfg *node.MapConfig, name, value string) error {
	var known []string
	for _, o := range mapOptions {
		if o.name == name {
			if err := o.set(cfg, value); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		}
		known = append(known, o.name)
	}
	return fmt.Errorf("option: %w", unknownKey(name, known))
}
