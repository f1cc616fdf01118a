package clientproto

import "context"

// maxIdle is how many goroutines of a server, over all connections, wait for requests.
const maxIdle = 1024

// begin runs a request on a goroutine of the connection that waits for one, or on a new one: that would have to grow its stack first.
func (c *conn) begin(ctx context.Context, q *call) {
	select {
	case c.next <- q:
	default:
		c.running.Go(func() { c.work(ctx, q) })
	}
}

// work runs requests until ctx ends, or enough others wait for them.
func (c *conn) work(ctx context.Context, q *call) {
	for {
		q.run(ctx)
		<-c.inFlight
		select {
		case c.s.idle <- struct{}{}:
		default:
			return
		}
		select {
		case q = <-c.next:
			<-c.s.idle
		case <-ctx.Done():
			<-c.s.idle
			return
		}
	}
}
