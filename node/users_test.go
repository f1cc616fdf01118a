package node

import (
	"fmt"
	"strings"
	"testing"
)

func TestLogin(t *testing.T) {
	if login(nil) != nil {
		t.Error("without users there is a login")
	}
	in := login(map[string]Password{"ann": "secret", "bob": "s"})
	for _, c := range []struct {
		user, password string
		want           bool
	}{
		{"ann", "secret", true}, {"bob", "s", true},
		{"ann", "s", false}, {"ann", "", false}, {"ann", "secret ", false}, {"", "", false}, {"eve", "", false}, {"Ann", "secret", false},
	} {
		if got := in(c.user, c.password); got != c.want {
			t.Errorf("%q with %q: %v", c.user, c.password, got)
		}
	}
}

func TestByToken(t *testing.T) {
	if byToken(nil) != nil {
		t.Error("without tokens there is a check")
	}
	in := byToken(map[string]Password{"app": "one", "job": "two", "also": "two"})
	for token, want := range map[string]bool{"one": true, "two": true, "": false, "on": false, "app": false, "onetwo": false} {
		if got := in([]byte(token)); got != want {
			t.Errorf("%q: %v", token, got)
		}
	}
}

func TestConfig_UsersAreCheckedAndHidden(t *testing.T) {
	c := DefaultConfig()
	for want, users := range map[string]map[string]Password{
		"no users": {}, `user ""`: {"": "x"}, `user "ann"`: {"ann": ""}, "255 bytes": {"bob": Password(strings.Repeat("x", 256))},
	} {
		c.ClientUsers = users
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "client-users-file") {
			t.Errorf("%v: %v", users, err)
		}
	}
	c.ClientUsers, c.ClientTokens = nil, map[string]Password{"app": ""}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), `client-tokens-file`) || !strings.Contains(err.Error(), `token "app"`) {
		t.Errorf("an empty token: %v", err)
	}
	c.ClientUsers, c.ClientTokens = map[string]Password{"ann": "secret"}, map[string]Password{"app": "secret"}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if text := fmt.Sprintf(format, c); strings.Contains(text, "secret") {
			t.Errorf("%s shows a password: %s", format, text)
		}
	}
}
