package main

import (
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"gridnode/imap"
)

// dirStore keeps entries as files, which all members share: a file for each key, in a directory for each map.
type dirStore string

var _ imap.MapStore = dirStore("")

func (d dirStore) file(mapName string, key imap.Data) string {
	return filepath.Join(string(d), mapName, hex.EncodeToString(key))
}

func (d dirStore) Load(_ context.Context, mapName string, key imap.Data) (imap.Data, error) {
	b, err := os.ReadFile(d.file(mapName, key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

func (d dirStore) Keys(_ context.Context, mapName string, each func(key imap.Data) error) error {
	files, err := os.ReadDir(filepath.Join(string(d), mapName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range files {
		key, err := hex.DecodeString(f.Name())
		if err != nil {
			continue // one that is being written
		}
		if err := each(key); err != nil {
			return err
		}
	}
	return nil
}

func (d dirStore) Store(_ context.Context, mapName string, key, value imap.Data) error {
	name := d.file(mapName, key)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(name+".new", value, 0o644); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

func (d dirStore) Delete(_ context.Context, mapName string, key imap.Data) error {
	err := os.Remove(d.file(mapName, key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
