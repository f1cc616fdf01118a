package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// signalError is the cause of a context that a signal ended.
type signalError struct{ signal syscall.Signal }

func (e *signalError) Error() string { return fmt.Sprintf("received %v", e.signal) }

// exitCode is what shells expect of a process that a signal ended.
func (e *signalError) exitCode() int { return 128 + int(e.signal) }

// withSignals returns a context that the first SIGINT, SIGTERM or SIGHUP ends; the last one, which comes when a terminal is closed, only if the
// process was not started to outlive that (nohup). The second calls exit at once. stop waits until signals are no longer listened for.
func withSignals(ctx context.Context, exit func(code int)) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2) // both, also when they come before anybody looks
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { handleSignals(signals, done, cancel, exit) })
	return ctx, sync.OnceFunc(func() {
		signal.Stop(signals)
		close(done)
		wg.Wait()
		cancel(context.Canceled)
	})
}

func handleSignals(signals <-chan os.Signal, done <-chan struct{}, cancel context.CancelCauseFunc, exit func(code int)) {
	for first := true; ; first = false {
		select {
		case s := <-signals:
			err := &signalError{s.(syscall.Signal)} // signals of os/signal are
			if !first {
				exit(err.exitCode())
				return
			}
			cancel(err)
		case <-done:
			return
		}
	}
}
