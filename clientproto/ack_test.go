package clientproto

import (
	"context"
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
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { // ends with the connection
		defer close(ended)
		defer func() { _ = ln.Close() }()
		if there, err := ln.Accept(); err == nil {
			newConn(newTestServer(3), there).serve(context.Background())
		}
	}()
	here, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = here.Close()
		<-ended
	}()
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
