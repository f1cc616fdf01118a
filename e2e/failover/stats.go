package main

import (
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"time"
)

// quantile returns the value below or at which the share q (0 to 1) of the samples is, by the nearest rank; 0 if there are none.
func quantile(samples []time.Duration, q float64) time.Duration {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[rank(len(sorted), q)-1]
}

// rank is the nearest rank of q among n samples, from 1 to n.
func rank(n int, q float64) int {
	r := int(q * float64(n))
	if float64(r) < q*float64(n) {
		r++
	}
	return min(max(r, 1), n)
}

// worst returns the longest sample.
func worst(samples []time.Duration) time.Duration {
	var w time.Duration
	for _, d := range samples {
		w = max(w, d)
	}
	return w
}

// seconds prints a duration as 0.71s; what is shorter than a tenth of a second as 2.3ms.
func seconds(d time.Duration) string {
	if d < 100*time.Millisecond {
		return fmt.Sprintf("%.1fms", float64(d.Microseconds())/1000)
	}
	return fmt.Sprintf("%.2fs", d.Seconds())
}

// subBuckets divide each power of two, so that a quantile is at most 1/16 too high.
const subBuckets = 16

// histogram counts durations in buckets of growing width. Its size is fixed. It may be used at once by many.
type histogram struct {
	mu      sync.Mutex // guards what follows
	buckets [64 * subBuckets]int
	count   int
	max     time.Duration
}

func (h *histogram) add(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buckets[bucketOf(d)]++
	h.count++
	h.max = max(h.max, d)
}

// summary returns how many there are, the upper edge of the bucket that the quantile is in, and the longest.
func (h *histogram) summary(q float64) (count int, at, longest time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count == 0 {
		return 0, 0, 0
	}
	left := rank(h.count, q)
	for i, n := range h.buckets {
		if left -= n; left <= 0 {
			return h.count, min(edgeOf(i), h.max), h.max
		}
	}
	return h.count, h.max, h.max
}

// bucketOf is the bucket of a duration: below subBuckets each microsecond has its own, above that each power of two has subBuckets.
func bucketOf(d time.Duration) int {
	us := uint64(max(d.Microseconds(), 0))
	if us < subBuckets {
		return int(us)
	}
	shift := bits.Len64(us) - bits.Len64(subBuckets)
	return (shift+1)*subBuckets + int(us>>shift) - subBuckets
}

// edgeOf is the longest duration of a bucket.
func edgeOf(i int) time.Duration {
	if i < subBuckets {
		return time.Duration(i) * time.Microsecond
	}
	shift := i/subBuckets - 1
	return time.Duration((uint64(i%subBuckets)+subBuckets+1)<<shift-1) * time.Microsecond
}
