package imap

import (
	"fmt"
	"testing"
	"time"
)

// What one operation costs at the primary, beside replication.
func BenchmarkStore(b *testing.B) {
	keys := make([][]byte, 1000)
	for i := range keys {
		keys[i] = String(fmt.Sprint("key", i))
	}
	value := Bytes(make([]byte, 100))
	for name, o := range map[string]op{
		"Set": {Kind: opWrite, Map: "m", Write: &write{Value: value}},
		"Get": {Kind: opGet, Map: "m"},
	} {
		b.Run(name, func(b *testing.B) {
			s := NewStore(func(v uint64) uint64 { return v })
			ops := make([][]byte, len(keys))
			version := uint64(0)
			for i, k := range keys {
				set := op{Kind: opWrite, Map: "m", Key: k, Write: &write{Value: value}}
				version++
				if _, err := s.Apply(s.Execute(encode(set), version, time.Now()).Effect, version, time.Now()); err != nil {
					b.Fatal(err)
				}
				o.Key = k
				ops[i] = encode(o)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				now := time.Now()
				d := s.Execute(ops[i%len(ops)], version+1, now)
				if d.Effect != nil {
					version++
					if _, err := s.Apply(d.Effect, version, now); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
