package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"
)

// clientFlags are those of every command that asks a member.
type clientFlags struct {
	http   []string
	output string
}

// addClientFlags adds the flags to the command and those below it.
func addClientFlags(cmd *cobra.Command) *clientFlags {
	f := &clientFlags{}
	cmd.PersistentFlags().StringArrayVar(&f.http, "http", nil,
		"URL of a member; may be repeated (default: GRIDNODE_HTTP, else http://127.0.0.1:8080 to 8088)")
	cmd.PersistentFlags().StringVarP(&f.output, "output", "o", "table", "table or json")
	return f
}

func (f *clientFlags) json() bool { return f.output == "json" }

// withClient returns the RunE of a command that asks a member.
func (a *app) withClient(f *clientFlags, do func(cmd *cobra.Command, c *client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.running = true
		if f.output != "table" && f.output != "json" {
			return usage(fmt.Errorf("--output: %q is neither table nor json", f.output))
		}
		c, err := newClient(f.http, a.environ, a.patience)
		if err != nil {
			return usage(err)
		}
		defer c.close()
		return do(cmd, c, args)
	}
}

// noun returns a command that only holds others.
func noun(name, short string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}

// printRaw prints JSON as the member sent it, with a line end.
func printRaw(w io.Writer, raw []byte) error {
	_, err := fmt.Fprintf(w, "%s\n", strings.TrimSpace(string(raw)))
	return err
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// table prints rows in columns; the first is the heading.
func table(w io.Writer, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if cell == "" {
				cell = "-"
			}
			row[i] = plain(cell)
		}
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	return tw.Flush()
}

// plain is a text of somebody else's as it may stand in a line on a terminal: what would move the cursor or change colours is spelt out.
func plain(text string) string {
	if strings.IndexFunc(text, unicode.IsControl) < 0 {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		switch {
		case r == '\t', r == '\n', r == '\r':
			out.WriteByte(' ')
		case unicode.IsControl(r):
			out.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// seconds rounds what people wait for.
func seconds(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }
