package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build is what the program knows about its own making.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"` // of the revision
	Modified bool   `json:"modified"`       // built from a tree with changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func readBuild() build {
	b := build{Version: "dev", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (b build) line() string { return fmt.Sprintf("gridnode %s  (%s %s)", b.Version, b.Go, b.Platform) }

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			a.running = true
			b := readBuild()
			if asJSON {
				return json.NewEncoder(a.stdout).Encode(b)
			}
			_, err := fmt.Fprintln(a.stdout, b.line())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print all that is known about the build, as JSON")
	return cmd
}
