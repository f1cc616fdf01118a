package main

import (
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	ms := func(ns ...int) (out []time.Duration) {
		for _, n := range ns {
			out = append(out, time.Duration(n)*time.Millisecond)
		}
		return out
	}
	for _, test := range []struct {
		samples []time.Duration
		q       float64
		want    time.Duration
	}{
		{nil, 0.5, 0},
		{ms(7), 0.5, 7 * time.Millisecond},
		{ms(7), 0, 7 * time.Millisecond},
		{ms(3, 1, 2), 0.5, 2 * time.Millisecond},
		{ms(4, 3, 1, 2), 0.5, 2 * time.Millisecond},
		{ms(4, 3, 1, 2), 0.99, 4 * time.Millisecond},
		{ms(4, 3, 1, 2), 1, 4 * time.Millisecond},
	} {
		if got := quantile(test.samples, test.q); got != test.want {
			t.Errorf("quantile %v of %v is %v, want %v", test.q, test.samples, got, test.want)
		}
	}
	if got := worst(ms(1, 3, 2)); got != 3*time.Millisecond {
		t.Errorf("worst is %v", got)
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		710 * time.Millisecond: "0.71s", 12345 * time.Millisecond: "12.35s", 2300 * time.Microsecond: "2.3ms", 0: "0.0ms",
	} {
		if got := seconds(d); got != want {
			t.Errorf("%v is printed as %s, want %s", d, got, want)
		}
	}
}

// Each duration lies in a bucket whose edge is not below it and not far above it, and buckets are in order.
func TestHistogram_Buckets(t *testing.T) {
	last := -1
	for us := int64(0); us < 1<<40; us += 1 + us/37 {
		d := time.Duration(us) * time.Microsecond
		b := bucketOf(d)
		if b < last || b > last+1 && us > 0 {
			t.Fatalf("%v is in bucket %d, the one before was %d", d, b, last)
		}
		if edge := edgeOf(b); edge < d || edge > d+d/subBuckets {
			t.Fatalf("%v is in a bucket up to %v", d, edge)
		}
		last = b
	}
}

func TestHistogram_Summary(t *testing.T) {
	var h histogram
	if n, at, longest := h.summary(0.99); n != 0 || at != 0 || longest != 0 {
		t.Errorf("empty: %d, %v, %v", n, at, longest)
	}
	for i := 1; i <= 1000; i++ {
		h.add(time.Duration(i) * time.Millisecond)
	}
	n, at, longest := h.summary(0.99)
	if n != 1000 || longest != time.Second || at < 990*time.Millisecond || at > time.Second {
		t.Errorf("%d samples, p99 %v, longest %v", n, at, longest)
	}
	if _, at, _ := h.summary(0.5); at < 500*time.Millisecond || at > 535*time.Millisecond {
		t.Errorf("p50 is %v", at)
	}
}
