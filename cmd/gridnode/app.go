package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gridnode/node"
)

// Exit codes. Those of job wait are beside it.
const (
	exitOK     = 0
	exitFailed = 1 // at run time
	exitUsage  = 2 // usage or configuration
)

// app is what commands share: the process as they see it.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string

	newMember func(node.Config) (member, error)
	patience  time.Duration // how long clients ask again when no member can answer
	poll      time.Duration // how often job wait asks

	running bool // the command line was understood: set first thing by each RunE
}

// member is a member of the grid in this process.
type member interface {
	Run(ctx context.Context) error
	Ready() <-chan struct{}
	Info() node.Info
}

func newApp() *app {
	return &app{
		newMember: func(cfg node.Config) (member, error) { return node.New(cfg) },
		patience:  15 * time.Second,
		poll:      250 * time.Millisecond,
	}
}

// commands lists every command. Each noun has a file.
func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.startCommand(),
		a.membersCommand(),
		a.jobCommand(),
		a.mapCommand(),
		a.recoverCommand(),
		a.demoCommand(),
		a.versionCommand(),
	}
}

func (a *app) root() *cobra.Command {
	root := a.startCommand() // gridnode alone starts a member
	root.Use = "gridnode"
	root.Short = "An in-memory data grid with a job engine"
	root.Long = "gridnode runs a member of an in-memory data grid with a job engine, and talks to one.\n" +
		"Without a command it starts a member, like gridnode start."
	root.Args = nil // cobra then answers unknown commands, with suggestions
	root.Version = readBuild().line()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SilenceErrors, root.SilenceUsage = true, true
	root.AddCommand(a.commands()...)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	return root
}

func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	code := exitFailed
	if e, ok := errors.AsType[*exitError](err); ok {
		code = e.code
	} else if e, ok := errors.AsType[*signalError](context.Cause(ctx)); ok {
		code = e.exitCode()
	} else if !a.running {
		code = exitUsage
	}
	if text := err.Error(); text != "" {
		for line := range strings.Lines(text) {
			fmt.Fprintf(a.stderr, "gridnode: %s\n", plain(strings.TrimSuffix(line, "\n")))
		}
	}
	if !a.running {
		fmt.Fprintf(a.stderr, "see: %s --help\n", cmd.CommandPath())
	}
	return code
}

// exitError ends the program with a code other than 1. Its text may be empty.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}
func (e *exitError) Unwrap() error { return e.err }

// usage marks an error of the caller's.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{exitUsage, err}
}
