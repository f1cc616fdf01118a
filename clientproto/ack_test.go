package clientproto

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"gridnode/imap"
)

// A client that has small segments held back, as the Go client has, and writes a request in pieces waits for no acknowledgement that its system
// would delay.
func TestConn_RequestsInPiecesAreNotDelayed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can be told")
	}
	here := dialTCP(t, newTestServer(3))
	if err := here.(*net.TCPConn).SetNoDelay(false); err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, conn: here, last: 100}
	_ = here.SetDeadline(time.Now().Add(20 * time.Second))
	p.send(unhex(t, authRequest))
	spec := specs[0x010f00] // Map.set
	request := requestOf(spec, 7, func(f field) any {
		if f.name == "value" {
			return data{Data: imap.Bytes(make([]byte, 5000))}
		}
		return aValue(spec, f)
	})
	var took []time.Duration
	for range 25 {
		began := time.Now()
		for part := range slices.Chunk(request, 2000) {
			if _, err := here.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		p.receive()
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	if median := took[len(took)/2]; median > 25*time.Millisecond {
		t.Errorf("half of the requests took more than %v: %v", median, took)
	}
}

// dialTCP connects to a server through the system. What it serves ends with the test.
func dialTCP(t *testing.T, s *Server) net.Conn {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { // ends with the connection
		defer close(ended)
		defer func() { _ = ln.Close() }()
		if there, err := ln.Accept(); err == nil {
			newConn(s, there).serve(context.Background())
		}
	}()
	here, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = here.Close()
		<-ended
	})
	return here
}

// A client that asks for more than its system takes in, and reads only then, gets every answer whole and once.
func TestConn_AnswersThatWaitForTheClient(t *testing.T) {
	const entries, size = 300, 100_000
	p := &peer{t: t, conn: dialTCP(t, newTestServer(3)), last: 100}
	_ = p.conn.SetDeadline(time.Now().Add(30 * time.Second))
	p.send(unhex(t, authRequest))
	call := func(id uint32, n int) []byte {
		return requestOf(specs[id], uint64(1000+n), func(f field) any {
			switch f.name {
			case "key":
				return data{Data: imap.String(fmt.Sprint(n % 7))}
			case "value":
				return data{Data: imap.Bytes(bytes.Repeat([]byte{byte(n)}, size))}
			case "ttl":
				return int64(-1)
			case "name":
				return "m"
			}
			return aValue(specs[id], f)
		})
	}
	for n := range 7 {
		p.send(call(0x010f00, n))
	}
	for n := range entries {
		if _, err := p.conn.Write(call(0x010200, n)); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[uint64]bool{}
	for range entries {
		m := p.receive()
		n := m.correlation() - 1000
		body := m[1].body
		if seen[n] || n >= entries || len(body) < size || !bytes.Equal(body[len(body)-size:], bytes.Repeat([]byte{byte(n % 7)}, size)) {
			t.Fatalf("the answer to %d: twice, or not the value: %d bytes of type %#x", n, len(body), m.kind())
		}
		seen[n] = true
	}
}
