package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gridnode/node"
)

func (a *app) startCommand() *cobra.Command {
	var file string
	var sets []string
	cmd := &cobra.Command{
		Use: "start", Short: "Start a member", Args: cobra.NoArgs,
		Long: "Start a member and run it until SIGINT, SIGTERM or SIGHUP; it then hands over what it holds and leaves. A second signal ends it at once.\n" +
			"A flag wins over --set, that over the environment (GRIDNODE_BACKUP_COUNT=2), that over the file, that over the default.",
		Example: "  gridnode start\n  gridnode start --name n2 --set engine.state-cleanup-delay-ms=5000",
	}
	flags := cmd.Flags()
	values := map[string]*flagValue{}
	for _, s := range allSettings() {
		if s.flag() {
			values[s.key] = &flagValue{many: s.many}
			f := flags.VarPF(values[s.key], s.key, "", s.usage)
			if s.isSet {
				f.NoOptDefVal = "true"
			}
		}
	}
	flags.StringVar(&file, "config", "", "YAML file with settings")
	flags.StringArrayVar(&sets, "set", nil, "any setting, as key=value; may be repeated (see --help for the keys)")
	cmd.Long += "\n\nKeys that are no flags, for --set, the environment and the file:\n" + otherKeys()
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a.running = true
		var fromFlags []given
		flags.Visit(func(f *pflag.Flag) {
			if v, ok := values[f.Name]; ok {
				fromFlags = append(fromFlags, given{f.Name, v.text, "--" + f.Name})
			}
		})
		s, err := loadSettings(fromFlags, sets, a.environ, file)
		if err != nil {
			return usage(err)
		}
		return a.start(cmd.Context(), s)
	}
	return cmd
}

func otherKeys() string {
	var lines strings.Builder
	for _, s := range allSettings() {
		if !s.flag() {
			fmt.Fprintf(&lines, "  %-36s %s\n", s.key, s.usage)
		}
	}
	return strings.TrimSuffix(lines.String(), "\n")
}

// flagValue keeps what was written, to be read like any other layer.
type flagValue struct {
	text string
	many bool
	seen bool
}

// String implements [pflag.Value].
func (v *flagValue) String() string { return v.text }

// Set implements [pflag.Value].
func (v *flagValue) Set(text string) error {
	if v.many && v.seen {
		text = v.text + "," + text
	}
	v.text, v.seen = text, true
	return nil
}

// Type implements [pflag.Value].
func (v *flagValue) Type() string { return "value" }

// start runs a member until the context ends. A signal is how a member is meant to end, so it is no error.
func (a *app) start(ctx context.Context, s *settings) error {
	signal.Ignore(syscall.SIGPIPE) // whoever reads the log may end; the member goes on
	log := newLogWriter(a.stderr, func(lost int) []byte {
		var line bytes.Buffer
		logger(s, &line).Warn("lines of the log were left out: nobody read them", "lines", lost)
		return line.Bytes()
	})
	defer log.close()
	s.Logger = logger(s, log)
	m, err := a.newMember(s.Config)
	if err != nil {
		if _, ok := errors.AsType[*node.ConfigError](err); ok {
			return usage(err)
		}
		return err
	}
	paced, stop := context.WithCancel(ctx)
	var pace sync.WaitGroup
	pace.Go(func() { paceGC(paced) })
	defer pace.Wait()
	defer stop()
	ended := make(chan error, 1) // one result
	go func() { ended <- m.Run(ctx) }()
	select {
	case <-m.Ready():
		screen := newLogWriter(a.stdout, nil)
		banner(screen, m.Info())
		screen.close()
	case err := <-ended:
		return ending(ctx, err)
	}
	return ending(ctx, <-ended)
}

func ending(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	if err != nil {
		return &exitError{exitFailed, err}
	}
	return nil
}

func logger(s *settings, to io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: s.logLevel}
	if s.logJSON {
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options))
}

// banner says what runs where, and what to do next.
func banner(to io.Writer, info node.Info) {
	at := ""
	if !slices.Contains(defaultEndpoints(), info.HTTPAddr) {
		at = " --http " + info.HTTPAddr
	}
	fmt.Fprintf(to, "%s\n", readBuild().line())
	fmt.Fprintf(to, "  cluster    %-25s member   %s\n", info.ClusterName, info.Name)
	fmt.Fprintf(to, "  members    %-25s for members\n", info.GridAddr)
	fmt.Fprintf(to, "  http       %-25s REST, /metrics, /readyz\n", info.HTTPAddr)
	fmt.Fprintf(to, "  data       memory only               a member that stops forgets; backups do not\n")
	fmt.Fprintf(to, "  next       gridnode map put%s hello world 1\n", at)
}

// defaultEndpoints are where clients look when they are not told.
func defaultEndpoints() (all []string) {
	for port := node.DefaultHTTPPort; port < node.DefaultHTTPPort+9; port++ {
		all = append(all, (&url.URL{Scheme: "http", Host: "127.0.0.1:" + strconv.Itoa(port)}).String())
	}
	return all
}
