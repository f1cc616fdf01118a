package pack

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmihailenco/msgpack/v5"
)

type sample struct {
	Name  string
	Data  []byte
	Parts []part
	Table map[string]int64
	Big   uint64
	Ratio float64
	Yes   bool
	Inner *part
}

type part struct{ A, B int }

func TestRoundTrip(t *testing.T) {
	want := sample{
		Name: "n", Data: bytes.Repeat([]byte{7}, 70_000), Parts: make([]part, 300), Table: map[string]int64{"a": -1, "b": 1 << 40},
		Big: 1 << 63, Ratio: 0.1, Yes: true, Inner: &part{1, -200},
	}
	b, err := Marshal(&want)
	if err != nil {
		t.Fatal(err)
	}
	var got sample
	if err := Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	asMap, err := msgpack.Marshal(&want)
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(asMap); err != nil {
		t.Errorf("structs as maps: %v", err)
	}
	for n := range len(b) - 1 {
		if n > 200 && n < len(b)-200 {
			continue
		}
		if err := Check(b[:n]); !errors.Is(err, ErrMalformed) {
			t.Fatalf("the first %d bytes: %v", n, err)
		}
	}
}

func TestCheck_Refuses(t *testing.T) {
	for name, b := range map[string][]byte{
		"nothing":                  nil,
		"an array of four billion": {0xdd, 0xff, 0xff, 0xff, 0xff, 0},
		"a map of four billion":    {0xdf, 0xff, 0xff, 0xff, 0xff, 0},
		"bytes of four billion":    {0xc6, 0xff, 0xff, 0xff, 0xff, 0},
		"too deep":                 bytes.Repeat([]byte{0x91}, MaxDepth+2),
		"two values":               {1, 2},
		"an unused byte":           {0xc1},
	} {
		if err := Check(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	b, err := Marshal(&sample{Name: "n", Parts: make([]part, 3), Table: map[string]int64{"a": 1}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var v any
		if err := Unmarshal(b, &v); err != nil && Check(b) == nil {
			t.Skip("well-formed, but not for this library: an extension, or a map with such keys")
		}
		var s sample
		_ = Unmarshal(b, &s)
	})
}
