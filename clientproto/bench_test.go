package clientproto

import (
	"bytes"
	"testing"

	"gridnode/imap"
)

// What a request costs at the member that holds the entry, beside replication and the connection.
func BenchmarkRequest(b *testing.B) {
	key, val := imap.String("k000000000000001"), imap.Bytes(make([]byte, 100))
	args := func(f field) any {
		switch f.name {
		case "name":
			return "m"
		case "key":
			return data{Data: key}
		case "value":
			return data{Data: val}
		case "ttl":
			return int64(-1)
		}
		return aValue(specs[0x010200], f)
	}
	for _, r := range []struct {
		name string
		id   uint32
	}{{"Set", 0x010f00}, {"Get", 0x010200}} {
		b.Run(r.name, func(b *testing.B) {
			c := newConn(newTestServer(1), nil)
			if set, err := newCall(c, mustRead(b, requestOf(specs[0x010f00], 1, args))); err != nil {
				b.Fatal(err)
			} else {
				set.run(b.Context())
			}
			raw := requestOf(specs[r.id], 1, args)
			in := bytes.NewReader(raw)
			b.ReportAllocs()
			for b.Loop() {
				in.Reset(raw)
				m, err := readOne(in, maxMessage)
				if err != nil {
					b.Fatal(err)
				}
				q, err := newCall(c, m)
				if err != nil {
					b.Fatal(err)
				}
				c.out = c.out[:0]
				q.run(b.Context())
			}
			if answer, err := readAnswer(bytes.NewReader(c.out)); err != nil || answer.kind() != r.id+1 {
				b.Fatalf("%v, %v", answer, err)
			}
		})
	}
}

func mustRead(tb testing.TB, raw []byte) message {
	tb.Helper()
	m, err := readOne(bytes.NewReader(raw), maxMessage)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}
