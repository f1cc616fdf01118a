package plugin

import (
	"context"
	"time"
)

type sleepKey struct{}

// WithSleep makes [Sleep] use sleep under ctx. Whoever runs a plugin gives back what the plugin's work occupies while it only waits.
func WithSleep(ctx context.Context, sleep func(ctx context.Context, d time.Duration) error) context.Context {
	return context.WithValue(ctx, sleepKey{}, sleep)
}

// Sleep waits for d, and returns the cause of ctx's end if that comes first. Plugins wait with it and with nothing else.
func Sleep(ctx context.Context, d time.Duration) error {
	if f, ok := ctx.Value(sleepKey{}).(func(context.Context, time.Duration) error); ok {
		return f(ctx, d)
	}
	if d <= 0 || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
