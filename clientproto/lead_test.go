package clientproto

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"gridnode/grid"
	"gridnode/imap"
)

// gated makes writes of keys with "slow" in them wait until the gate is opened.
type gated struct {
	*local
	gate chan struct{}
}

func (g gated) Write(ctx context.Context, p grid.PartitionID, op grid.Op, wait time.Duration) ([]byte, error) {
	if bytes.Contains(op.Encoded(), []byte("slow")) {
		select {
		case <-g.gate:
		case <-ctx.Done():
			return nil, grid.ErrNotReady
		}
	}
	return g.local.Write(ctx, p, op, wait)
}

// What waits, be it many requests of one connection, holds up none that come behind it; all are answered, with their own answers.
func TestLead_WhatWaitsHoldsUpNothing(t *testing.T) {
	const slow, quick = 50, 500
	s := newTestServer(3)
	g := gated{newLocal(3), make(chan struct{})}
	s.cfg.Maps = imap.NewAt(g, selfID)
	p := newPeer(t, s)
	set := func(key string, n int) {
		raw := requestOf(specs[0x010f00], uint64(n), func(f field) any {
			switch f.name {
			case "key":
				return data{Data: imap.String(key)}
			case "value":
				return data{Data: imap.String(fmt.Sprint(n))}
			}
			return aValue(specs[0x010f00], f)
		})
		if _, err := p.conn.Write(raw); err != nil {
			t.Error(err)
		}
	}
	answers := make(chan uint64)
	go func() { // ends with the connection
		defer close(answers)
		for {
			m, err := readAnswer(p.conn)
			if err != nil {
				return
			}
			if m.kind() != 0x010f01 {
				t.Errorf("an answer of type %#x", m.kind())
			}
			answers <- m.correlation()
		}
	}()
	go func() {
		for n := range slow {
			set("slow", 1000+n)
		}
		for n := range quick {
			set("other", 10_000+n)
		}
	}()
	got := map[uint64]bool{}
	take := func(n int, from uint64) {
		for range n {
			if id := <-answers; id < from || got[id] {
				t.Errorf("the answer to %d, twice or before its time", id)
			} else {
				got[id] = true
			}
		}
	}
	take(quick, 10_000)
	close(g.gate)
	take(slow, 1000)
	_ = p.conn.Close()
	for range answers {
	}
}

// The lead is given away once, and only from within a request that the leader runs.
func TestLead_IsGivenAwayOnce(t *testing.T) {
	c := newConn(newTestServer(1), nil)
	c.next = make(chan *call, 3)
	l := &lead{Context: t.Context(), c: c}
	_ = l.Done()
	if len(c.next) != 0 {
		t.Error("it is given away although no request runs")
	}
	l.state.Store(leadCalls)
	_, _ = l.Done(), l.Done()
	if len(c.next) != 1 || <-c.next != nil {
		t.Error("it is not given away exactly once")
	}
	if l.state.CompareAndSwap(leadCalls, leadReads) {
		t.Error("whoever gave it away still leads")
	}
}
