package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gridnode/node"
)

func TestClientUsers(t *testing.T) {
	private := func(text string) string {
		file := writeFile(t, text)
		if err := os.Chmod(file, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	s := defaultSettings()
	if err := setClientUsers(s, private("# who\nann:a:b \r\n\nbob:x")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]node.Password{"ann": "a:b ", "bob": "x"}, s.ClientUsers); diff != "" {
		t.Error(diff)
	}
	if err := setClientTokens(s, private("app:t:k")); err != nil || s.ClientTokens["app"] != "t:k" {
		t.Errorf("tokens: %v, %v", s.ClientTokens["app"], err)
	}
	if err := setClientTokens(s, private("secret")); err == nil || !strings.Contains(err.Error(), "line 1: not NAME:TOKEN") || strings.Contains(err.Error(), "secret") {
		t.Errorf("a line without a name: %v", err)
	}
	open := private("ann:x")
	if err := os.Chmod(open, 0o640); err != nil {
		t.Fatal(err)
	}
	for file, says := range map[string]string{
		open: "chmod 600", private("ann"): "line 1: not USER:PASSWORD", private("ann:secret\nann:y"): `line 2: user "ann" comes twice`,
		"/no/such/file": "no such file", t.TempDir(): "only its owner",
	} {
		if err := setClientUsers(defaultSettings(), file); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", file, err, says)
		}
	}
}
