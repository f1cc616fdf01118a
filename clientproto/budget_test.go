package clientproto

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A request's context ends as one of package context would, whether somebody waits for that from the start or asks later.
func TestBudget(t *testing.T) {
	type nameOf struct{}
	type ending struct {
		name string
		end  func(cancelParent, cancel context.CancelFunc)
		want error
	}
	for _, c := range []ending{
		{"deadline", func(_, _ context.CancelFunc) { time.Sleep(requestBudget) }, context.DeadlineExceeded},
		{"parent", func(parent, _ context.CancelFunc) { parent() }, context.Canceled},
		{"cancel", func(_, cancel context.CancelFunc) { cancel() }, context.Canceled},
	} {
		for _, waited := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				parent, cancelParent := context.WithCancel(context.WithValue(t.Context(), nameOf{}, c.name))
				defer cancelParent()
				ctx, cancel := budget(parent)
				defer cancel()
				child := ctx
				if waited {
					var cancelChild context.CancelFunc
					child, cancelChild = context.WithCancel(ctx)
					defer cancelChild()
				}
				if at, ok := ctx.Deadline(); !ok || time.Until(at) != requestBudget || ctx.Err() != nil || child.Err() != nil || ctx.Value(nameOf{}) != c.name {
					t.Fatalf("%s: deadline %v %v, error %v", c.name, at, ok, ctx.Err())
				}
				c.end(cancelParent, cancel)
				synctest.Wait()
				if !errors.Is(ctx.Err(), c.want) || !errors.Is(child.Err(), c.want) {
					t.Errorf("%s, waited for %v: %v, its child %v; want %v", c.name, waited, ctx.Err(), child.Err(), c.want)
				}
				select {
				case <-ctx.Done():
				default:
					t.Errorf("%s, waited for %v: it is not done", c.name, waited)
				}
			})
		}
	}
}
