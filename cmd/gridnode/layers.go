package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"gridnode/node"
)

const (
	envPrefix   = "GRIDNODE_"
	envConfig   = "GRIDNODE_CONFIG"
	maxFileSize = 1 << 20
)

// given is a value that somebody gave a key.
type given struct {
	key   string
	value string
	where string // how errors name the place, for example "--set backup-count" or "grid.yaml:3:1"
}

// loadSettings puts the layers on top of each other: flags over --set over the environment over the file over the defaults. Every value
// must be right, also one that another layer covers.
func loadSettings(flags []given, sets, environ []string, file string) (*settings, error) {
	s := defaultSettings()
	env, envFile, envErr := fromEnviron(environ)
	if file == "" {
		file = envFile
	}
	fromFile, fileErr := readFile(file)
	set, setErr := fromSets(sets)
	if err := errors.Join(fileErr, envErr, setErr); err != nil {
		return nil, err
	}
	byKey := map[string]setting{}
	for _, known := range allSettings() {
		byKey[known.key] = known
	}
	var bad []error
	for _, g := range slices.Concat(fromFile, env, set, flags) {
		if err := byKey[g.key].set(s, g.value); err != nil {
			bad = append(bad, fmt.Errorf("%s: %w", g.where, err))
		}
	}
	s.Discover = s.Discover && node.Loopback(s.Bind)
	if err := errors.Join(bad...); err != nil {
		return nil, err
	}
	return s, s.Validate()
}

func keys() (all []string) {
	for _, s := range allSettings() {
		all = append(all, s.key)
	}
	return all
}

// fromSets reads key=value pairs.
func fromSets(pairs []string) (out []given, err error) {
	known := keys()
	var bad []error
	for _, pair := range pairs {
		switch key, value, ok := strings.Cut(pair, "="); {
		case !ok:
			bad = append(bad, fmt.Errorf("--set %s: is not of the form key=value", pair))
		case !slices.Contains(known, key):
			bad = append(bad, fmt.Errorf("--set %s: %w", pair, unknownKey(key, known)))
		default:
			out = append(out, given{key, value, "--set " + key})
		}
	}
	return out, errors.Join(bad...)
}

// fromEnviron reads the variables with our prefix. An unknown one is an error, unless Kubernetes put it there for a service that is called
// like us.
func fromEnviron(environ []string) (out []given, file string, err error) {
	byName, names := map[string]string{}, []string{envConfig}
	for _, s := range allSettings() {
		byName[s.envName()] = s.key
		names = append(names, s.envName())
	}
	service := regexp.MustCompile(`_SERVICE_(HOST|PORT(_\w+)?)$|_PORT_\d+_(TCP|UDP)(_(PROTO|PORT|ADDR))?$`)
	var bad []error
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		key, known := byName[name]
		switch {
		case !strings.HasPrefix(name, envPrefix):
		case name == envConfig:
			file = value
		case known:
			out = append(out, given{key, value, name})
		case service.MatchString(name) || strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://"):
		default:
			bad = append(bad, fmt.Errorf("environment: %w", unknownKey(name, names)))
		}
	}
	return out, file, errors.Join(bad...)
}

// readFile reads a config file; no name, no values.
func readFile(name string) ([]given, error) {
	if name == "" {
		return nil, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	if info.IsDir() || info.Size() > maxFileSize {
		return nil, fmt.Errorf("--config %s: is not a file of at most %d bytes", name, maxFileSize)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	return fromYAML(name, data, keys())
}
