package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

const (
	joinSoon  = 5 * time.Second  // in which a member is in a cluster if nothing is wrong
	sayOther  = 10 * time.Second // between two reasons why it is not
	sayAgain  = time.Minute      // until the same one is said again
	maxListed = 8                // addresses in one line
)

// waiting is a member's time without a cluster. It decides when the log says why.
type waiting struct {
	since time.Time
	said  time.Time // zero: never
	why   string    // what was said last
}

// due reports whether a reason is to be said now, and takes note of it. One that may pass by itself is to be said after some time only.
func (w *waiting) due(why string, after time.Duration, now time.Time) bool {
	quiet := now.Sub(w.said)
	switch {
	case now.Sub(w.since) < after:
		return false
	case !w.said.IsZero() && (quiet < sayOther || quiet < sayAgain && why == w.why):
		return false
	}
	w.said, w.why = now, why
	return true
}

// complain says why this member is not in a cluster, if that is due.
func (c *Cluster) complain(w *waiting, level slog.Level, after time.Duration, why string) {
	if w.due(why, after, time.Now()) {
		c.log.Log(context.Background(), level, "not in a cluster yet", "because", why)
	}
}

// whyWait says what a member waits for that neither joins nor forms a cluster.
func whyWait(o outlook) string {
	here := make([]string, 0, len(o.others))
	lower := ""
	for _, m := range o.others {
		here = append(here, m.Address)
		if m.Address < o.self.Address && (lower == "" || m.Address < lower) {
			lower = m.Address
		}
	}
	if len(here) > maxListed {
		here = append(here[:maxListed], "...")
	}
	who := strings.Join(here, ", ")
	switch {
	case 1+len(o.others) < o.self.Expect:
		return fmt.Sprintf("%d members are expected, and besides this one there are: %s", o.self.Expect, orNobody(who))
	case len(o.others) == 0:
		return "nobody whom it was told to join answers; only a member whose own address is the first of those to join forms a cluster"
	case o.self.Expect == 1 && !o.mayLead:
		return "who answers is in no cluster either: " + who + "; only a member whose own address is the first of those to join forms one"
	case lower != "":
		return lower + " comes first, and has not formed a cluster"
	}
	return "another one is about to form a cluster: " + who
}

func orNobody(who string) string {
	if who == "" {
		return "nobody"
	}
	return who
}
