package imap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gridnode/grid"
)

// one is a grid of some partitions on one member, without backups.
type one struct {
	mu      sync.Mutex // guards all below
	stores  []*Store
	version uint64
}

func newOne(cfg HomeConfig) *Grid {
	home := NewHome(cfg)
	o := &one{}
	for range 5 {
		o.stores = append(o.stores, home.NewStore(func(v uint64) uint64 { return v }))
	}
	return NewAt(o, "self")
}

func (o *one) Read(_ context.Context, p grid.PartitionID, op grid.Op) ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	d := o.stores[p].Do(op, o.version+1, time.Now())
	if d.Err == nil && d.Effect != nil {
		o.version++
		if _, err := o.stores[p].Apply(d.Effect, o.version, time.Now()); err != nil {
			return nil, err
		}
	}
	if d.Wait != "" {
		return nil, grid.ErrBusy
	}
	return d.Reply, d.Err
}

func (o *one) Write(ctx context.Context, p grid.PartitionID, op grid.Op, _ time.Duration) ([]byte, error) {
	return o.Read(ctx, p, op)
}

func (o *one) InvokeAll(ctx context.Context, op []byte, each func(grid.PartitionID, []byte) error) error {
	for p := range o.stores {
		b, err := o.Read(ctx, grid.PartitionID(p), grid.RawOp(op))
		if err == nil {
			err = each(grid.PartitionID(p), b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *one) Partitions() int { return len(o.stores) }

type order struct {
	ID    int64
	Items []string
	Tags  map[string]bool `msgpack:"tags"`
	Note  *string
}

// Bytes as the table of Hazelcast's serializers has them.
func TestEncodeValue_Hazelcast(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{
		{"k", "fffffff5000000016b"}, {"", "fffffff500000000"}, {[]byte{1, 2}, "fffffff4000000020102"},
		{json.RawMessage(`{}`), "ffffff7e000000027b7d"}, {true, "fffffffc01"}, {false, "fffffffc00"}, {int8(-1), "fffffffdff"},
		{uint8(7), "fffffffd07"}, {int16(-2), "fffffffafffe"}, {int32(1), "fffffff900000001"}, {int64(-1), "fffffff8ffffffffffffffff"},
		{1, "fffffff80000000000000001"}, {float32(1.5), "fffffff73fc00000"}, {1.5, "fffffff63ff8000000000000"}, {Raw([]byte{9}), "6772643209"},
	} {
		d, err := EncodeValue(c.v)
		if got := fmt.Sprintf("%x", []byte(d)); err != nil || got != c.want {
			t.Errorf("%T %v: %s, want %s: %v", c.v, c.v, got, c.want, err)
		}
	}
	for _, bad := range []any{json.RawMessage(`{`), make(chan int), func() {}} {
		if _, err := EncodeValue(bad); !errors.Is(err, grid.ErrBadRequest) {
			t.Errorf("%T: %v", bad, err)
		}
	}
}

func back[T any](t *testing.T, v T) {
	t.Helper()
	d, err := EncodeValue(v)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeValue[T](d)
	if err != nil || !reflect.DeepEqual(got, v) {
		t.Errorf("%T: %v came back as %v: %v", v, v, got, err)
	}
	if reflect.TypeFor[T]() == reflect.TypeFor[Data]() {
		return // it reads as what it is
	}
	for n := range d {
		if _, err := DecodeValue[T](d[:n]); err == nil && n < headLen {
			t.Errorf("%T: %d bytes of %d are read", v, n, len(d))
		}
	}
	if _, err := DecodeValue[T](Media("x/y", []byte("z"))); err == nil {
		t.Errorf("%T: read from data of another type", v)
	}
}

func TestDecodeValue_ReadsWhatWasWritten(t *testing.T) {
	note := "n"
	back(t, "text")
	back(t, []byte{1, 2, 3})
	back(t, json.RawMessage(`{"a":1}`))
	back(t, true)
	back(t, int8(-100))
	back(t, uint8(200))
	back(t, int16(-30000))
	back(t, int32(math.MinInt32))
	back(t, int64(math.MaxInt64))
	back(t, math.MinInt)
	back(t, float32(-0.1))
	back(t, math.Inf(1))
	back(t, Data(String("x")))
	back(t, order{ID: 1, Items: []string{"a"}, Tags: map[string]bool{"x": true}, Note: &note})
	back(t, map[string]int64{"a": 1})
	back(t, []order{{ID: 2}})
	if v, err := DecodeValue[int64](must(EncodeValue(int32(1)))); err == nil {
		t.Errorf("an int32 was read as the int64 %d", v)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestTyped(t *testing.T) {
	ctx, g := context.Background(), newOne(HomeConfig{})
	m := NewTyped[int32, order](g.Map("orders"))
	if _, had, err := m.Put(ctx, 1, order{ID: 1, Items: []string{"a", "b"}}); had || err != nil {
		t.Fatal(had, err)
	}
	if there, put, err := m.PutIfAbsent(ctx, 1, order{ID: 9}); put || err != nil || there.ID != 1 {
		t.Errorf("%+v, %v, %v", there, put, err)
	}
	for range 5 {
		if _, err := m.Update(ctx, 2, func(o order, _ bool) (order, bool) { o.ID++; return o, true }); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.PutAll(ctx, map[int32]order{3: {ID: 3}, 4: {ID: 4}}, Life{TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	got, err := m.GetAll(ctx, []int32{1, 2, 3, 4, 5})
	want := map[int32]order{1: {ID: 1, Items: []string{"a", "b"}}, 2: {ID: 5}, 3: {ID: 3}, 4: {ID: 4}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	seen := map[int32]order{}
	if err := m.Scan(ctx, func(k int32, v order) error { seen[k] = v; return nil }); err != nil || !cmp.Equal(want, seen) {
		t.Error(cmp.Diff(want, seen), err)
	}
	if old, had, err := m.Remove(ctx, 2); old.ID != 5 || !had || err != nil {
		t.Error(old, had, err)
	}
	if _, err := m.Update(ctx, 1, func(order, bool) (order, bool) { return order{}, false }); err != nil {
		t.Error(err)
	}
	if _, found, err := m.Get(ctx, 1); found || err != nil {
		t.Error("a removed entry is there", err)
	}
	wrong := NewTyped[int32, string](g.Map("orders"))
	if _, _, err := wrong.Get(ctx, 3); err == nil || !strings.Contains(err.Error(), "orders") {
		t.Errorf("read as another type: %v", err)
	}
	if _, err := m.Lock(ctx, 3, 0); err != nil {
		t.Error(err)
	}
	if err := m.Unlock(ctx, 3); err != nil {
		t.Error(err)
	}
}

func TestExecuteOnKey(t *testing.T) {
	add := func(p Processing) (Processed, error) {
		by, err := DecodeValue[int64](p.Arg)
		if err != nil {
			return Processed{}, err
		}
		var n int64
		if p.Found() {
			n, _ = DecodeValue[int64](p.Value)
		}
		d, _ := EncodeValue(n + by)
		return Processed{Put: d, Reply: d}, nil
	}
	g := newOne(HomeConfig{Processors: map[string]Processor{
		"add":   add,
		"drop":  func(p Processing) (Processed, error) { return Processed{Remove: true, Reply: p.Value}, nil },
		"look":  func(p Processing) (Processed, error) { return Processed{Reply: p.Value}, nil },
		"panic": func(Processing) (Processed, error) { panic("oh") },
		"fresh": func(p Processing) (Processed, error) {
			return Processed{Put: p.Value, Life: &Life{TTL: time.Hour}}, nil
		},
	}})
	ctx, m := context.Background(), g.Map("m")
	k, arg := Key{Data: String("k")}, must(EncodeValue(int64(2)))
	must(m.Set(ctx, k, must(EncodeValue(int64(40))), time.Minute))
	before := must(m.View(ctx, k))
	reply := must(m.ExecuteOnKey(ctx, k, "add", arg))
	after := must(m.View(ctx, k))
	if n := must(DecodeValue[int64](reply)); n != 42 || after.Version <= before.Version || after.SetTTL != time.Minute || after.Expires != before.Expires ||
		after.Created != before.Created {
		t.Errorf("%d, %+v, %+v", n, before, after)
	}
	must(m.ExecuteOnKey(ctx, k, "fresh", nil))
	if v := must(m.View(ctx, k)); v.SetTTL != time.Hour {
		t.Errorf("%+v", v)
	}
	fresh := must(m.View(ctx, k))
	if got := must(m.ExecuteOnKey(ctx, k, "look", nil)); must(DecodeValue[int64](got)) != 42 || must(m.Get(ctx, k)).Version != fresh.Version {
		t.Error("a processor that only looks changed something")
	}
	keys := []Key{k, {Data: String("a")}, {Data: String("b")}, {Data: String("c")}}
	sum := map[string]int64{}
	for _, e := range must(m.ExecuteOnKeys(ctx, keys, "add", arg)) {
		sum[e.Key.Show()] = must(DecodeValue[int64](e.Value))
	}
	if diff := cmp.Diff(map[string]int64{"k": 44, "a": 2, "b": 2, "c": 2}, sum); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]error{"panic": grid.ErrInternal, "none": grid.ErrRefused, "add": grid.ErrRefused} {
		version := must(m.Get(ctx, k)).Version
		if _, err := m.ExecuteOnKey(ctx, k, name, nil); !errors.Is(err, want) || !strings.Contains(err.Error(), name) || must(m.Get(ctx, k)).Version != version {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := must(m.ExecuteOnKey(ctx, k, "drop", nil)); must(DecodeValue[int64](got)) != 44 || must(m.ContainsKey(ctx, k)) {
		t.Error("not removed")
	}
	must(m.As(Owner{Thread: 1}).Lock(ctx, k, 0))
	if _, err := m.ExecuteOnKey(ctx, k, "add", arg); !errors.Is(err, grid.ErrBusy) {
		t.Errorf("on a locked key: %v", err)
	}
}

func FuzzDecodeValue(f *testing.F) {
	f.Add([]byte(must(EncodeValue(order{ID: 1, Items: []string{"a"}}))))
	f.Add([]byte(must(EncodeValue(int64(1)))))
	f.Add([]byte(String("s")))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if v, err := DecodeValue[order](raw); err == nil {
			if again, err := DecodeValue[order](must(EncodeValue(v))); err != nil || !reflect.DeepEqual(again, v) && fmt.Sprint(again) != fmt.Sprint(v) {
				t.Errorf("%+v came back as %+v: %v", v, again, err)
			}
		}
		_, _ = DecodeValue[int64](raw)
		_, _ = DecodeValue[string](raw)
		_, _ = DecodeValue[json.RawMessage](raw)
	})
}
