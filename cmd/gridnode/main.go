// Command gridnode is one member of an in-memory data grid with a job engine, and the client to talk to one.
package main

import (
	"context"
	"io"
	"os"
)

func main() {
	addProcessor()
	ctx, stop := withSignals(context.Background(), os.Exit)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program, apart from the process: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := newApp()
	a.stdin, a.stdout, a.stderr, a.environ = os.Stdin, stdout, stderr, os.Environ()
	return a.run(ctx, args)
}
