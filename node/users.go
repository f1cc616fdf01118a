package node

import (
	"crypto/sha256"
	"crypto/subtle"
	"maps"
	"slices"
)

// Password is a secret: what prints a config does not show it.
type Password string

// String and GoString hide it.
func (Password) String() string { return "(hidden)" }

// GoString is String.
func (Password) GoString() string { return "(hidden)" }

const maxCredential = 255 // bytes of a user's name, and of a password

// login decides who may connect as a client; nil lets in whoever knows the cluster's name. How long it takes does not tell how much of a
// password was right.
func login(users map[string]Password) func(user, password string) bool {
	if users == nil {
		return nil
	}
	return func(user, password string) bool {
		want, known := users[user]
		a, b := sha256.Sum256([]byte(want)), sha256.Sum256([]byte(password))
		return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && known
	}
}

func (c Config) users() (bad []error) {
	if c.ClientUsers != nil && len(c.ClientUsers) == 0 {
		bad = append(bad, wrong("client-users-file", "it has no users: no client could connect"))
	}
	for _, name := range slices.Sorted(maps.Keys(c.ClientUsers)) {
		if p := c.ClientUsers[name]; name == "" || len(name) > maxCredential || p == "" || len(p) > maxCredential {
			bad = append(bad, wrong("client-users-file", "user %q: name and password have 1 to %d bytes each", name, maxCredential))
		}
	}
	return bad
}
