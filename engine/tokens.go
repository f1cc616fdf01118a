package engine

import (
	"context"
	"sync"
	"time"
)

// tokenPatience is how long a piece of work keeps its token. Work that takes longer is taken to be waiting for I/O, and others go on.
const tokenPatience = 20 * time.Millisecond

// tokens bounds how many batches of rows are worked on at once, so that tasks never starve the rest of the process.
type tokens chan struct{}

// do runs work while it holds a token.
func (t tokens) do(ctx context.Context, work func() error) error {
	select {
	case t <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	var once sync.Once
	release := func() { once.Do(func() { <-t }) }
	defer release()
	defer time.AfterFunc(tokenPatience, release).Stop()
	return work()
}
