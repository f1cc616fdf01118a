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

// byToken decides who may connect with a token; nil says that tokens let nobody in, unless passwords do not either. Every token is looked at,
// whichever fits.
func byToken(tokens map[string]Password) func(token []byte) bool {
	if tokens == nil {
		return nil
	}
	sums := make([][sha256.Size]byte, 0, len(tokens))
	for _, want := range tokens {
		sums = append(sums, sha256.Sum256([]byte(want)))
	}
	return func(token []byte) bool {
		found, sum := 0, sha256.Sum256(token)
		for i := range sums {
			found |= subtle.ConstantTimeCompare(sums[i][:], sum[:])
		}
		return found == 1
	}
}

func (c Config) users() (bad []error) {
	check := func(key, what, secret string, all map[string]Password) {
		if all != nil && len(all) == 0 {
			bad = append(bad, wrong(key, "it has no %ss: no client could connect", what))
		}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if p := all[name]; name == "" || len(name) > maxCredential || p == "" || len(p) > maxCredential {
				bad = append(bad, wrong(key, "%s %q: name and %s have 1 to %d bytes each", what, name, secret, maxCredential))
			}
		}
	}
	check("client-users-file", "user", "password", c.ClientUsers)
	check("client-tokens-file", "token", "token", c.ClientTokens)
	return bad
}
