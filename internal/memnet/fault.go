package memnet

import "time"

// Fault is what is wrong with one direction between two hosts. The zero value is a sound link.
//
// A cut is a line that is broken: segments of streams are sent again until it is mended, so streams stall; dials wait; packets are lost. Hold
// is a line that is stuck: it loses nothing, packets arrive late and in order, too.
type Fault struct {
	Cut    bool
	Hold   bool
	Delay  time.Duration // added to the latency
	Jitter time.Duration // up to this much is added besides, drawn for each send; streams stay in order, packets may overtake
	Loss   float64       // share of packets that is lost, 0 to 1
	// Only limits the fault to streams whose dialling side began with this text, in both their directions; packets and dials pass.
	Only string
}

// covers reports whether the fault is about streams that began with head.
func (f Fault) covers(head string) bool {
	return f.Only == "" || f.Only == head[:min(len(f.Only), len(head))]
}

// general is the part of the fault that is about everything on the link, not only about some streams.
func (f Fault) general() Fault {
	if f.Only != "" {
		return Fault{}
	}
	return f
}

// SetFault makes f what is wrong with the direction from one host to another, in place of what was wrong before.
func (n *Net) SetFault(from, to string, f Fault) {
	n.change(func() {
		if f == (Fault{}) {
			delete(n.faults, link{from, to})
			return
		}
		n.faults[link{from, to}] = f
	})
}

// FaultOf returns what is wrong with a direction.
func (n *Net) FaultOf(from, to string) Fault {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.faults[link{from, to}]
}

// Cut cuts the link between two hosts in both directions.
func (n *Net) Cut(a, b string) {
	n.change(func() { n.cutLocked(a, b); n.cutLocked(b, a) })
}

// CutOneWay cuts the link in one direction.
func (n *Net) CutOneWay(from, to string) { n.change(func() { n.cutLocked(from, to) }) }

// cutLocked cuts one direction and leaves its other faults as they are.
func (n *Net) cutLocked(from, to string) {
	f := n.faults[link{from, to}].general()
	f.Cut = true
	n.faults[link{from, to}] = f
}

// Isolate cuts a host off from all others that exist.
func (n *Net) Isolate(name string) {
	n.change(func() {
		for other := range n.hosts {
			if other != name {
				n.cutLocked(name, other)
				n.cutLocked(other, name)
			}
		}
	})
}

// Split cuts the network into sides: two of the hosts named see each other if they are on one side together. A host on several sides is a
// bridge between them. Links to hosts that are not named stay as they are.
func (n *Net) Split(sides ...[]string) {
	together, named := map[link]bool{}, map[string]bool{}
	for _, side := range sides {
		for _, a := range side {
			named[a] = true
			for _, b := range side {
				together[link{a, b}] = true
			}
		}
	}
	n.change(func() {
		for a := range named {
			for b := range named {
				if a != b && !together[link{a, b}] {
					n.cutLocked(a, b)
				}
			}
		}
	})
}

// Heal mends the link between two hosts.
func (n *Net) Heal(a, b string) {
	n.change(func() { delete(n.faults, link{a, b}); delete(n.faults, link{b, a}) })
}

// HealAll mends all links. Paused hosts stay so.
func (n *Net) HealAll() { n.change(func() { clear(n.faults) }) }

// Pause makes a host look from outside as a stopped process does: whatever it sends and whatever is sent to it is held, not lost, until
// [Net.Resume]; dials to it succeed, as long as its backlog has room, and then nobody answers. What runs on the host runs on.
func (n *Net) Pause(name string) { n.change(func() { n.paused[name] = true }) }

// Resume lets a paused host go on.
func (n *Net) Resume(name string) { n.change(func() { delete(n.paused, name) }) }

// change edits the links, wakes all that waits for one, and lets held packets go whose link holds no more.
func (n *Net) change(edit func()) {
	n.mu.Lock()
	edit()
	old := n.changed
	n.changed = make(chan struct{})
	free := n.releasedLocked()
	n.mu.Unlock()
	close(old)
	for _, p := range free {
		n.deliver(p)
	}
}

// releasedLocked takes the held packets that may go.
func (n *Net) releasedLocked() (free []heldPacket) {
	kept, arrival := n.held[:0], map[link]time.Time{}
	for _, p := range n.held {
		switch {
		case n.holdsLocked(p.link):
			kept = append(kept, p)
		case !n.faults[p.link].general().Cut:
			if arrival[p.link].IsZero() {
				arrival[p.link] = time.Now().Add(n.delayLocked(p.link, ""))
			}
			p.at = arrival[p.link]
			free = append(free, p)
		}
	}
	clear(n.held[len(kept):])
	n.held = kept
	return free
}

// holdsLocked reports whether packets on the link are kept back.
func (n *Net) holdsLocked(l link) bool {
	return n.paused[l.from] || n.paused[l.to] || n.faults[l].general().Hold
}

// delayLocked is how long something travels that is sent now, in a stream that began with head, or as a packet.
func (n *Net) delayLocked(l link, head string) time.Duration {
	d := DefaultLatency
	if len(n.latency) > 0 {
		if own, ok := n.latency[l]; ok {
			d = own
		}
	}
	d += time.Duration(n.rng.Int64N(int64(d)/2 + 1))
	if len(n.faults) == 0 {
		return d
	}
	if f := n.faults[l]; f.covers(head) {
		d += f.Delay + time.Duration(n.rng.Int64N(int64(f.Jitter)+1))
	}
	return d
}

// delay is [Net.delayLocked] for whoever does not hold the lock.
func (n *Net) delay(l link, head string) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.delayLocked(l, head)
}

// blocked reports whether nothing arrives over a link, in a stream that began with head. If so, it returns a channel that is closed when that may
// have changed; nil if not.
func (n *Net) blocked(l link, head string) (bool, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.faults) == 0 && len(n.paused) == 0 {
		return false, nil
	}
	f := n.faults[l]
	if stuck := (f.Cut || f.Hold) && f.covers(head); stuck || n.paused[l.from] || n.paused[l.to] {
		return true, n.changed
	}
	return false, nil
}

// blockedDial reports the same for the segments that open a stream: the system of a paused host takes them.
func (n *Net) blockedDial(dialler string, l link) (bool, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := n.faults[l].general()
	return f.Cut || f.Hold || n.paused[dialler], n.changed
}
