package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"gridnode/node"
)

const maxUsersFile = 1 << 20

// setClientUsers reads the file that names who may connect as a client: a line USER:PASSWORD for each.
func setClientUsers(s *settings, path string) (err error) {
	s.ClientUsers, err = readSecrets(path, "user", "USER:PASSWORD")
	return err
}

// setClientTokens reads the file with the tokens with which clients may connect: a line NAME:TOKEN for each.
func setClientTokens(s *settings, path string) (err error) {
	s.ClientTokens, err = readSecrets(path, "token", "NAME:TOKEN")
	return err
}

// readSecrets reads a file of lines NAME:SECRET; empty lines and those that begin with # are passed over. Only its owner may be able to read it.
// Its errors show no secret.
func readSecrets(path, what, form string) (map[string]node.Password, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode(); !mode.IsRegular() || mode.Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s must be a file that only its owner can read (chmod 600), its mode is %v", path, mode)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxUsersFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxUsersFile {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxUsersFile)
	}
	secrets := map[string]node.Password{}
	for i, line := range strings.Split(string(b), "\n") {
		if line = strings.TrimSuffix(line, "\r"); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, secret, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("%s, line %d: not %s", path, i+1, form)
		}
		if _, twice := secrets[name]; twice {
			return nil, fmt.Errorf("%s, line %d: %s %q comes twice", path, i+1, what, name)
		}
		secrets[name] = node.Password(secret)
	}
	return secrets, nil
}
