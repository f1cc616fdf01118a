package node

import (
	"context"
	"errors"
	"mime"
	"slices"
	"strings"

	"gridnode/engine"
	"gridnode/imap"
	"gridnode/imap/query"
	"gridnode/rest"
)

// restMaps is the maps as HTTP sees them: keys are strings, values bodies with a content type.
type restMaps struct{ grid *imap.Grid }

var _ rest.Maps = restMaps{}

// lockPatience is how long a request waits for a key that somebody has locked. It is less than a request may take, so that its caller hears that
// it did not run.
const lockPatience = rest.DefaultGridTimeout * 4 / 5

func restKey(key string) imap.Key { return imap.Key{Data: imap.String(key)} }

// bodyData keeps text and JSON in the types that every Hazelcast client reads, and all else with its content type.
func bodyData(v rest.Value) imap.Data {
	typ, params, err := mime.ParseMediaType(v.ContentType)
	charset := strings.ToLower(params["charset"])
	plain := err == nil && (len(params) == 0 || len(params) == 1 && charset == "utf-8")
	switch {
	case plain && typ == "text/plain":
		return imap.String(string(v.Body))
	case plain && typ == "application/json":
		return imap.JSON(v.Body)
	case typ == "application/octet-stream" && len(params) == 0:
		return imap.Bytes(v.Body)
	}
	return imap.Media(v.ContentType, v.Body)
}

// restValue shows what clients of the grid wrote as well: numbers and truth values as JSON, what only they can read with its type id.
func restValue(e imap.Entry) (rest.Value, error) {
	v := rest.Value{Version: e.Version, TTL: e.TTL}
	if text, ok := e.Value.Literal(); ok {
		v.Body, v.ContentType = text, "application/json"
		return v, nil
	}
	if e.Value.Foreign() {
		v.Type = e.Value.Type()
	}
	var err error
	v.Body, v.ContentType, err = e.Value.Text()
	return v, err
}

func (m restMaps) Get(ctx context.Context, mapName, key string) (rest.Value, error) {
	e, err := m.grid.Map(mapName).Get(ctx, restKey(key))
	if err != nil {
		return rest.Value{}, err
	}
	if !e.Found() {
		return rest.Value{}, rest.ErrAbsent
	}
	return restValue(e)
}

func (m restMaps) Put(ctx context.Context, mapName, key string, v rest.Value, opts rest.PutOptions) (rest.PutResult, error) {
	im, k, data := m.grid.Map(mapName).Waiting(lockPatience), restKey(key), bodyData(v)
	var res imap.WriteResult
	var err error
	switch {
	case opts.IfAbsent:
		res, err = im.PutIfAbsent(ctx, k, data, v.TTL)
	case opts.IfPresent:
		res, err = im.Replace(ctx, k, data, v.TTL)
	case opts.IfVersion > 0:
		res, err = im.ReplaceVersion(ctx, k, opts.IfVersion, data, v.TTL)
	default:
		res, err = im.Put(ctx, k, data, v.TTL)
	}
	if err != nil {
		return rest.PutResult{}, err
	}
	p, _ := m.grid.Partition(k)
	out := rest.PutResult{Applied: res.Applied, Version: res.Version, Partition: p}
	if !res.Applied {
		out.Version = res.Old.Version
	}
	out.Created = res.Applied && !res.Old.Found() && opts.IfVersion == 0
	return out, nil
}

func (m restMaps) Delete(ctx context.Context, mapName, key string, ifVersion uint64) (rest.DeleteResult, error) {
	im := m.grid.Map(mapName).Waiting(lockPatience)
	var res imap.WriteResult
	var err error
	if ifVersion > 0 {
		res, err = im.RemoveVersion(ctx, restKey(key), ifVersion)
	} else {
		res, err = im.Remove(ctx, restKey(key))
	}
	if err != nil {
		return rest.DeleteResult{}, err
	}
	out := rest.DeleteResult{Deleted: res.Applied}
	if !res.Applied {
		out.Version = res.Old.Version
	}
	return out, nil
}

func (m restMaps) Size(ctx context.Context, mapName string) (int, error) {
	return m.grid.Map(mapName).Size(ctx)
}

// List returns every map that has entries, and the engine's maps always.
func (m restMaps) List(ctx context.Context) ([]rest.MapInfo, error) {
	stats, err := m.grid.Stats(ctx)
	if err != nil {
		return nil, err
	}
	var out []rest.MapInfo
	seen := map[string]bool{}
	for _, s := range stats {
		seen[s.Name] = true
		out = append(out, rest.MapInfo{Name: s.Name, Size: s.Entries, Bytes: s.Bytes, Locks: s.Locks, MapCounts: rest.MapCounts{
			Gets: s.Gets, Hits: s.Hits, Misses: s.Misses, Puts: s.Puts, Removes: s.Removes, Evictions: s.Evictions, Expirations: s.Expirations,
		}})
	}
	for _, name := range engine.MapNames() {
		if !seen[name] {
			out = append(out, rest.MapInfo{Name: name})
		}
	}
	slices.SortFunc(out, func(a, b rest.MapInfo) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func (m restMaps) Find(ctx context.Context, mapName string, f rest.Find) (list []rest.Entry, next string, err error) {
	where := query.True()
	if f.Where != "" {
		if where, err = query.Parse(f.Where); err != nil {
			return nil, "", err
		}
	}
	after, err := imap.ParseCursor(f.After)
	if err != nil {
		return nil, "", err
	}
	entries, c, err := m.grid.Map(mapName).EntriesWhere(ctx, where, imap.Page{Limit: f.Limit, Bytes: f.Bytes, After: after})
	if err != nil {
		return nil, "", err
	}
	for _, e := range entries {
		v, err := restValue(e)
		if err != nil {
			return nil, "", err
		}
		list = append(list, rest.Entry{Key: e.Key.Show(), Value: v})
	}
	return list, c.String(), nil
}

var errEnough = errors.New("enough")

func (m restMaps) Entries(ctx context.Context, mapName string, limit int) ([]rest.Entry, error) {
	var out []rest.Entry
	if limit <= 0 {
		return out, nil
	}
	err := m.grid.Map(mapName).Scan(ctx, func(e imap.Entry) error {
		v, err := restValue(e)
		if err != nil {
			return err
		}
		out = append(out, rest.Entry{Key: e.Key.Show(), Value: v})
		if len(out) >= limit {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return out, err
}
