package clientproto

import (
	"context"
	"syscall"
)

const keepSpare = 1 << 20 // bytes of a buffer that is kept for later messages

// write sends what has come up since the last write in one go, until ctx ends or the connection does. It is the only one that waits for the client to
// take what is sent.
func (c *conn) write(ctx context.Context) {
	for {
		select {
		case <-c.wake:
		case <-ctx.Done():
			return
		}
		b := c.takeOut()
		if b == nil {
			continue
		}
		if _, err := c.raw.Write(b); err != nil {
			return
		}
		c.wrote(b, nil)
	}
}

// takeOut returns what is to be written; nil if there is nothing, or somebody else writes, who will see to the rest. Whoever gets something calls wrote.
func (c *conn) takeOut() (b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writing || len(c.out) == 0 {
		return nil
	}
	b, c.out, c.spare, c.writing = c.out, c.spare[:0], nil, true
	return b
}

// wrote ends a write of b, of which rest is still to be written.
func (c *conn) wrote(b, rest []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing = false
	if len(rest) > 0 {
		c.out = append(rest, c.out...)
	} else if cap(b) <= keepSpare {
		c.spare = b
	}
	if len(c.out) > 0 {
		c.wakeWriter()
	}
}

// flush sends what the leader has gathered, as far as that needs no waiting: it is about to wait for the next request, and to wake another goroutine for
// the answers costs more than to send them.
func (c *conn) flush(raw syscall.RawConn) {
	b := c.takeOut()
	if b == nil {
		return
	}
	c.wrote(b, b[writeNow(raw, b):])
}
