package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gridnode/node"
)

// A layer above replaces the config of a map as a whole, and leaves those of others.
func TestMaps_LayersAndNesting(t *testing.T) {
	file := writeFile(t, `
maps:
  orders: {ttl: 30s, max-idle: 5s}
  "cache*":
    eviction: LFU
    max-size: 1000
    max-size-policy: USED_HEAP_SIZE
    async-backup-count: 0
    indexes:
      - {type: sorted, attributes: [age, address.city]}
      - {type: HASH, attributes: ["tags[any]"]}
  plain: {}
`)
	s, err := loadSettings([]given{{"maps", "a:ttl=1s,b:ttl=2s;indexes=HASH this | SORTED n m", "--maps"}}, []string{"maps=orders:ttl=1m"}, nil, file)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]node.MapConfig{
		"orders": {TTL: time.Minute}, "cache*": {Eviction: "LFU", MaxSize: 1000, MaxSizePolicy: "USED_HEAP_SIZE", Indexes: []node.IndexConfig{
			{Type: "SORTED", Attributes: []string{"age", "address.city"}}, {Type: "HASH", Attributes: []string{"tags[any]"}},
		}}, "plain": {}, "a": {TTL: time.Second}, "b": {TTL: 2 * time.Second, Indexes: []node.IndexConfig{
			{Type: "HASH", Attributes: []string{"this"}}, {Type: "SORTED", Attributes: []string{"n", "m"}},
		}},
	}
	if diff := cmp.Diff(want, map[string]node.MapConfig(s.Maps)); diff != "" {
		t.Error(diff)
	}
}

func TestMaps_ErrorsNameMapAndOption(t *testing.T) {
	for yaml, want := range map[string]string{
		"maps:\n  m: {tll: 1s}":                                    `grid.yaml:2:3: maps: m: option: there is no setting "tll"; did you mean "ttl"?`,
		"maps:\n  m: {ttl: 10}":                                    `m: ttl: "10" is not a duration`,
		"maps:\n  m: {ttl: -1s}":                                   `maps: m: ttl: -1s is negative`,
		"maps:\n  m: {backup-count: 2}":                            `m: backup-count: all maps have as many backups`,
		"maps:\n  m: {async-backup-count: 1}":                      `m: async-backup-count: "1"`,
		"maps:\n  m: {eviction: FIFO, max-size: 1}":                `m: eviction: "FIFO" is not one of`,
		"maps:\n  m: {eviction: LRU}":                              `m: eviction: LRU needs a max-size`,
		"maps:\n  m: {max-size: x}":                                `m: max-size: "x" is not a whole number`,
		"maps:\n  m: {max-size-policy: FREE_HEAP_PERCENTAGE}":      `max-size-policy: "FREE_HEAP_PERCENTAGE" is not one of`,
		"maps:\n  m: 3":                                            `maps: m: there must be a mapping of options here`,
		"maps:\n  m: {ttl: 1s}\n  m: {ttl: 2s}":                    `grid.yaml:3:3`,
		"maps:\n  'a:b': {ttl: 1s}":                                `must not hold any of`,
		"maps:\n  'a*b*': {ttl: 1s}":                               `a pattern has one * only`,
		"maps:\n  engine_jobs: {ttl: 1s}":                          `hold the state of the job engine`,
		"maps:\n  m: {ttl: [1s, 2s]}":                              `m: ttl: "1s,2s" holds a comma`,
		"maps:\n  m: {ttl: {a: {b: c}}}":                           `must not be nested`,
		"maps:\n  m: {ttl: }":                                      `m: ttl: there is no value`,
		"maps: orders":                                             `"orders" is not of the form name:option=value`,
		"maps: 'm:ttl'":                                            `m: "ttl" is not of the form option=value`,
		"maps: 'm:ttl=1s;ttl=2s'":                                  `m: ttl: is given twice`,
		"maps: 'm:ttl=1s,m:ttl=2s'":                                `m is given twice`,
		"maps:\n  m: {indexes: [{type: TREE, attributes: [a]}]}":   `m: indexes: bad request: index type "TREE" is neither SORTED nor HASH`,
		"maps:\n  m: {indexes: [{type: HASH}]}":                    `m: indexes: an index has a type and attributes`,
		"maps:\n  m: {indexes: [{typ: HASH}]}":                     `m: indexes: there is no setting "typ"; did you mean "type"?`,
		"maps:\n  m: {indexes: [HASH]}":                            `m: indexes: an index is a mapping of type and attributes`,
		"maps:\n  m: {indexes: [{type: HASH, attributes: [a b]}]}": `m: indexes: "a b" holds a blank, comma, semicolon or bar`,
		"maps:\n  m: {indexes: HASH}":                              `m: indexes: "HASH" is not of the form TYPE attribute attribute`,
		"maps:\n  m: {indexes: HASH a | hash a}":                   `m: indexes: HASH(a) is given twice`,
		"map-memory-limit-mb: -1":                                  `map-memory-limit-mb: -1 is not from 0`,
	} {
		_, err := loadSettings(nil, nil, nil, writeFile(t, yaml))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v\nwant %s", yaml, err, want)
		}
	}
}
