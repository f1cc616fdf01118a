package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	bulkMap    = "/api/v1/maps/bulk"
	bulkValue  = 100 // bytes
	bulkReads  = 100_000
	manyAtOnce = 32
)

// bulk is entries that are written once, to have something to copy.
type bulk struct {
	client *client
	n      int
}

func (b *bulk) key(i int) string   { return fmt.Sprintf("e%07d", i) }
func (b *bulk) value(i int) string { return b.key(i) + strings.Repeat(".", bulkValue-8) }

// fill writes the entries. It is not what is measured, so what is refused is sent again.
func (r *run) fill(ctx context.Context) error {
	r.bulk = &bulk{client: newClient(manyAtOnce), n: r.entries}
	start := time.Now()
	all := r.fleet.members
	err := each(ctx, r.entries, func(i int) error {
		return poll(ctx, 30*time.Second, "a write of "+r.bulk.key(i), func() bool {
			a, err := r.bulk.client.do(ctx, http.MethodPut, all[i%len(all)].http+bulkMap+"/entries/"+r.bulk.key(i), r.bulk.value(i))
			return err == nil && a.status < 300
		})
	})
	if err == nil {
		_, err = r.awaitSafe(ctx, time.Now(), safeLimit)
	}
	if took := time.Since(start); err == nil {
		r.say("%d entries of %d bytes written in %s, %.0f a second", r.entries, bulkValue, seconds(took), float64(r.entries)/took.Seconds())
	}
	return err
}

// each calls do for 0 to n-1, some at once, and returns the first error.
func each(ctx context.Context, n int, do func(i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range manyAtOnce {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// missing counts entries that are not there as they were written: by the size of the map, and by reading all of them or many.
func (b *bulk) missing(ctx context.Context, members []*member) int {
	defer b.client.http.CloseIdleConnections()
	var size struct{ Size int }
	if err := b.client.get(ctx, members[0], bulkMap+"/size", &size); err != nil {
		return b.n
	}
	var wrong atomic.Int64
	step := (b.n + bulkReads - 1) / bulkReads
	err := each(ctx, b.n/step, func(i int) error {
		a, err := b.client.do(ctx, http.MethodGet, members[i%len(members)].http+bulkMap+"/entries/"+b.key(i*step), "")
		if err != nil || a.status != http.StatusOK || a.body != b.value(i*step) {
			wrong.Add(1)
		}
		return nil
	})
	if err != nil {
		return b.n
	}
	return max(b.n-size.Size, int(wrong.Load()))
}
