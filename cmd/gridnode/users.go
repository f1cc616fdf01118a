package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"gridnode/node"
)

const maxUsersFile = 1 << 20

// setClientUsers reads the file that names who may connect as a client: a line USER:PASSWORD for each; empty lines and those that begin with #
// are passed over. Only its owner may be able to read it.
func setClientUsers(s *settings, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if mode := info.Mode(); !mode.IsRegular() || mode.Perm()&0o077 != 0 {
		return fmt.Errorf("%s must be a file that only its owner can read (chmod 600), its mode is %v", path, mode)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxUsersFile+1))
	if err != nil {
		return err
	}
	if len(b) > maxUsersFile {
		return fmt.Errorf("%s has more than %d bytes", path, maxUsersFile)
	}
	users := map[string]node.Password{}
	for i, line := range strings.Split(string(b), "\n") {
		if line = strings.TrimSuffix(line, "\r"); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		user, password, ok := strings.Cut(line, ":")
		if !ok {
			return fmt.Errorf("%s, line %d: not USER:PASSWORD", path, i+1)
		}
		if _, twice := users[user]; twice {
			return fmt.Errorf("%s, line %d: user %q comes twice", path, i+1, user)
		}
		users[user] = node.Password(password)
	}
	s.ClientUsers = users
	return nil
}
