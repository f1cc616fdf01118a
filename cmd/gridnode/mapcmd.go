package main

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

const maxValue = 4 << 20

func (a *app) mapCommand() *cobra.Command {
	cmd := noun("map", "Read and write maps")
	flags := addClientFlags(cmd)
	cmd.AddCommand(a.mapGet(flags), a.mapPut(flags), a.mapRemove(flags), a.mapSize(flags))
	return cmd
}

func entryPath(mapName, key string) string {
	return "/api/v1/maps/" + url.PathEscape(mapName) + "/entries/" + url.PathEscape(key)
}

func (a *app) mapGet(flags *clientFlags) *cobra.Command {
	var raw bool
	cmd := &cobra.Command{Use: "get MAP KEY", Short: "Print a value; exit code 1 if there is none", Args: cobra.ExactArgs(2)}
	cmd.Flags().BoolVar(&raw, "raw", false, "print exactly the bytes of the value, without a line end")
	cmd.RunE = a.withClient(flags, func(cmd *cobra.Command, c *client, args []string) error {
		rep, err := c.do(cmd.Context(), request{method: http.MethodGet, path: entryPath(args[0], args[1])})
		if err != nil {
			return err
		}
		if flags.json() {
			return printJSON(a.stdout, entryOf(args[0], args[1], rep))
		}
		if _, err := a.stdout.Write(rep.body); err != nil || raw || strings.HasSuffix(string(rep.body), "\n") {
			return err
		}
		_, err = fmt.Fprintln(a.stdout)
		return err
	})
	return cmd
}

// mapEntry is an entry for -o json. The value stands in the field that it fits.
type mapEntry struct {
	Map         string          `json:"map"`
	Key         string          `json:"key"`
	JSON        json.RawMessage `json:"json,omitempty"`
	Text        *string         `json:"text,omitempty"`
	Base64      []byte          `json:"base64,omitempty"`
	ContentType string          `json:"contentType"`
	Version     string          `json:"version"`
}

func entryOf(mapName, key string, rep reply) mapEntry {
	e := mapEntry{Map: mapName, Key: key, ContentType: rep.header.Get("Content-Type"), Version: strings.Trim(rep.header.Get("Etag"), `"`)}
	media, _, _ := mime.ParseMediaType(e.ContentType) // an odd type is not JSON
	switch {
	case rep.header.Get("Gridnode-Type") != "":
		e.Base64 = rep.body
	case (media == "application/json" || strings.HasSuffix(media, "+json")) && json.Valid(rep.body):
		e.JSON = rep.body
	case utf8.Valid(rep.body):
		e.Text = new(string(rep.body))
	default:
		e.Base64 = rep.body
	}
	return e
}

func (a *app) mapPut(flags *clientFlags) *cobra.Command {
	var ttl time.Duration
	var ifAbsent, asJSON bool
	var ifVersion uint64
	var contentType string
	cmd := &cobra.Command{
		Use: "put MAP KEY VALUE|-", Short: "Put a value; - reads it from standard input", Args: cobra.ExactArgs(3),
		Example: "  gridnode map put hello world 1\n  gridnode map put --json users 7 '{\"name\":\"Ann\"}' --ttl 10m",
	}
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "time to live (default: the map's)")
	cmd.Flags().BoolVar(&ifAbsent, "if-absent", false, "only if there is no such entry; exit code 1 if there is")
	cmd.Flags().Uint64Var(&ifVersion, "if-version", 0, "only if the entry has this version; exit code 1 if not")
	cmd.Flags().BoolVar(&asJSON, "json", false, "the value is JSON")
	cmd.Flags().StringVar(&contentType, "content-type", "", "type of the value (default text)")
	cmd.MarkFlagsMutuallyExclusive("json", "content-type")
	cmd.MarkFlagsMutuallyExclusive("if-absent", "if-version")
	cmd.RunE = a.withClient(flags, func(cmd *cobra.Command, c *client, args []string) error {
		req := request{method: http.MethodPut, path: entryPath(args[0], args[1]), header: map[string]string{"Content-Type": contentType}}
		if cmd.Flags().Changed("ttl") {
			req.path += "?ttl=" + url.QueryEscape(ttl.String())
		}
		if asJSON {
			req.header["Content-Type"] = "application/json"
		}
		if ifAbsent {
			req.header["If-None-Match"] = "*"
		}
		if ifVersion > 0 {
			req.header["If-Match"] = strconv.Quote(strconv.FormatUint(ifVersion, 10))
		}
		var err error
		if req.body, err = a.value(args[2]); err != nil {
			return usage(err)
		}
		rep, err := c.do(cmd.Context(), req)
		if err != nil {
			return err
		}
		return a.showPut(rep, flags)
	})
	return cmd
}

// value returns the argument, or what comes in.
func (a *app) value(arg string) ([]byte, error) {
	if arg != "-" {
		return []byte(arg), nil
	}
	data, err := io.ReadAll(io.LimitReader(a.stdin, maxValue+1))
	if err == nil && len(data) > maxValue {
		err = fmt.Errorf("the value is larger than %d bytes", maxValue)
	}
	return data, err
}

func (a *app) showPut(rep reply, flags *clientFlags) error {
	if flags.json() {
		return printRaw(a.stdout, rep.body)
	}
	var put struct {
		Created   bool
		Version   string
		Partition int
		Primary   string
	}
	if err := json.Unmarshal(rep.body, &put); err != nil {
		return fmt.Errorf("the answer to the put cannot be read: %w", err)
	}
	what := "replaced"
	if put.Created {
		what = "new key"
	}
	text := fmt.Sprintf("ok (%s, partition %d", what, put.Partition)
	if put.Primary != "" {
		text += ", primary " + put.Primary
	}
	_, err := fmt.Fprintf(a.stdout, "%s, version %s)\n", text, put.Version)
	return err
}

func (a *app) mapRemove(flags *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use: "rm MAP KEY", Short: "Remove an entry; exit code 1 if there is none", Args: cobra.ExactArgs(2),
		RunE: a.withClient(flags, func(cmd *cobra.Command, c *client, args []string) error {
			if _, err := c.do(cmd.Context(), request{method: http.MethodDelete, path: entryPath(args[0], args[1])}); err != nil {
				return err
			}
			if flags.json() {
				return printJSON(a.stdout, map[string]any{"map": args[0], "key": args[1], "removed": true})
			}
			_, err := fmt.Fprintln(a.stdout, "ok")
			return err
		}),
	}
}

func (a *app) mapSize(flags *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use: "size MAP", Short: "Print the number of entries", Args: cobra.ExactArgs(1),
		RunE: a.withClient(flags, func(cmd *cobra.Command, c *client, args []string) error {
			var size struct{ Size int }
			raw, err := c.get(cmd.Context(), "/api/v1/maps/"+url.PathEscape(args[0])+"/size", &size)
			if err != nil {
				return err
			}
			if flags.json() {
				return printRaw(a.stdout, raw)
			}
			_, err = fmt.Fprintln(a.stdout, size.Size)
			return err
		}),
	}
}
