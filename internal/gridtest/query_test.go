package gridtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gridnode/grid"
	"gridnode/imap"
	"gridnode/imap/query"
)

func where(t testing.TB, text string) query.Predicate {
	t.Helper()
	p, err := query.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func fillMap(t testing.TB, m *imap.Map, n int) {
	t.Helper()
	for i := range n {
		v := imap.JSON(fmt.Appendf(nil, `{"n":%d,"g":"g%d","even":%v}`, i, i%7, i%2 == 0))
		if _, err := m.Set(context.Background(), key(fmt.Sprint("k", i)), v, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// pages reads all keys in pages that go through the text of the cursor.
func pages(t testing.TB, m *imap.Map, p query.Predicate, limit int) (keys []string) {
	t.Helper()
	page := imap.Page{Limit: limit}
	for !page.After.End() {
		list, next, err := m.KeysWhere(context.Background(), p, page)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) > limit || len(list) < limit && !next.End() {
			t.Errorf("a page of %d keys, the limit is %d", len(list), limit)
		}
		for _, k := range list {
			keys = append(keys, k.Show())
		}
		if page.After = next; !next.End() {
			if page.After, err = imap.ParseCursor(next.String()); err != nil {
				t.Fatal(err)
			}
		}
	}
	return keys
}

func TestQuery_EveryMemberAnswersTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few)
		defer c.Stop()
		ctx := context.Background()
		const n = 700
		fillMap(t, c.Live()[0].Map("m"), n)
		p := where(t, "n >= 100 AND g IN ('g1', 'g2') AND NOT even")
		var want []string
		for i := range n {
			if i >= 100 && (i%7 == 1 || i%7 == 2) && i%2 == 1 {
				want = append(want, fmt.Sprint("k", i))
			}
		}
		slices.Sort(want)
		check := func(what string, m *Member) {
			t.Helper()
			im := m.Map("m")
			list, next, err := im.EntriesWhere(ctx, p, imap.Page{})
			if err != nil || !next.End() {
				t.Fatal(err)
			}
			var got []string
			for _, e := range list {
				got = append(got, e.Key.Show())
			}
			paged := pages(t, im, p, 13)
			slices.Sort(got)
			slices.Sort(paged)
			if !slices.Equal(got, want) || !slices.Equal(paged, want) {
				t.Errorf("%s: %d entries, %d in pages, want %d", what, len(got), len(paged), len(want))
			}
			values, _, err := im.ValuesWhere(ctx, where(t, "n = 5"), imap.Page{})
			if err != nil || len(values) != 1 || !strings.Contains(values[0].Show(), `"n":5`) {
				t.Errorf("values: %v, %v", values, err)
			}
			rows, _, err := im.Project(ctx, where(t, "n = 5"), imap.Page{}, "n", "g", "__key", "none")
			if err != nil || fmt.Sprint(rows) != "[[5 'g5' 'k5' NULL]]" {
				t.Errorf("rows: %v, %v", rows, err)
			}
			for agg, want := range map[query.Aggregation]string{
				{Op: query.Count}: "700", {Op: query.SumInteger, Attribute: "n"}: "244650", {Op: query.AverageNumber, Attribute: "n"}: "349.5",
				{Op: query.Max, Attribute: "n"}: "699", {Op: query.Min, Attribute: "g"}: "'g0'",
			} {
				if res, err := im.Aggregate(ctx, query.True(), agg); err != nil || res.Value.String() != want {
					t.Errorf("%+v: %v, %v; want %s", agg, res.Value, err, want)
				}
			}
			res, err := im.Aggregate(ctx, p, query.Aggregation{Op: query.Distinct, Attribute: "g"})
			if err != nil || fmt.Sprint(res.Values) != "['g1' 'g2']" {
				t.Errorf("distinct: %v, %v", res.Values, err)
			}
		}
		for _, m := range c.Live() {
			check("without index", m)
		}
		for _, cfg := range []imap.IndexConfig{{Type: query.Sorted, Attributes: []string{"n"}}, {Type: query.Hash, Attributes: []string{"g"}}} {
			if err := c.Live()[1].Node.Maps().AddIndex(ctx, "m", cfg); err != nil {
				t.Fatal(err)
			}
		}
		c.Add()
		c.AwaitSafe(4, time.Minute)
		for _, m := range c.Live() {
			c.Await(time.Minute, "that every member knows both indexes", func() bool { return len(m.Node.Maps().Indexes("m")) == 2 })
			check("with index", m)
		}
		c.Crash(c.Live()[2])
		check("after a crash", c.Live()[0])
		removed, err := c.Live()[0].Map("m").RemoveWhere(ctx, p)
		if err != nil || removed != len(want) {
			t.Errorf("%d removed, want %d, %v", removed, len(want), err)
		}
		if size, err := c.Live()[1].Map("m").Size(ctx); err != nil || size != n-len(want) {
			t.Errorf("size %d, %v", size, err)
		}
	})
}

// TestQuery_PagesUnderWrites: keys that are there throughout come exactly once, whatever happens to others.
func TestQuery_PagesUnderWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few)
		defer c.Stop()
		m := c.Live()[0].Map("m")
		fillMap(t, m, 300)
		ctx, cancel := context.WithCancel(context.Background())
		w := &writes{acked: map[uint64]string{}}
		wg := w.run(ctx, c.Live(), 3) // keys k0-0, k0-1 and so on, of no attributes
		seen := map[string]int{}
		for _, k := range pages(t, m, where(t, "n IS NOT NULL OR this > ''"), 7) {
			seen[k]++
		}
		cancel()
		wg.Wait()
		for i := range 300 {
			if k := fmt.Sprint("k", i); seen[k] != 1 {
				t.Errorf("%s came %d times", k, seen[k])
			}
		}
		for k, n := range seen {
			if n > 1 {
				t.Errorf("%s came %d times", k, n)
			}
		}
	})
}

func TestQuery_Refusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 3, few)
		defer c.Stop()
		ctx := context.Background()
		g := c.Live()[0].Node.Maps()
		m := g.Map("m")
		_, _, badOp := m.EntriesWhere(ctx, query.Predicate{Op: 99, Attribute: "a"}, imap.Page{})
		_, _, badLimit := m.EntriesWhere(ctx, query.True(), imap.Page{Limit: -1})
		_, _, badPath := m.Project(ctx, query.True(), imap.Page{}, "a[")
		_, noPath := m.Aggregate(ctx, query.True(), query.Aggregation{Op: query.Min, Attribute: "a..b"})
		_, noName := g.Map("").RemoveWhere(ctx, query.True())
		badIndex := g.AddIndex(ctx, "m", imap.IndexConfig{Type: "TREE", Attributes: []string{"a"}})
		for i, err := range []error{badOp, badLimit, badPath, noPath, noName, badIndex} {
			if !errors.Is(err, grid.ErrBadRequest) {
				t.Errorf("refusal %d: %v", i, err)
			}
		}
	})
}

// TestQuery_OverHTTP asks by a where text, and by one that is wrong.
func TestQuery_OverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Start(t, 2, few)
		defer c.Stop()
		fillMap(t, c.Live()[0].Map("m"), 50)
		transport := &http.Transport{DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return c.Net.Host("client").Dial(ctx, addr)
		}}
		defer transport.CloseIdleConnections()
		get := func(params string) (int, string) {
			res, err := (&http.Client{Transport: transport}).Get("http://m2:8080/api/v1/maps/m/entries?" + params)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			return res.StatusCode, string(body)
		}
		keys := map[string]int{}
		for after, pages := "", 0; ; pages++ {
			status, body := get("limit=4&where=" + url.QueryEscape("n >= 40 AND NOT n = 45") + "&after=" + url.QueryEscape(after))
			var got struct {
				Entries []struct{ Key string }
				Next    string
			}
			if err := json.Unmarshal([]byte(body), &got); err != nil || status != 200 || pages > 10 {
				t.Fatalf("%d %s %v", status, body, err)
			}
			for _, e := range got.Entries {
				keys[e.Key]++
			}
			if after = got.Next; after == "" {
				break
			}
		}
		if len(keys) != 9 || keys["k45"] != 0 || keys["k49"] != 1 {
			t.Errorf("keys %v", keys)
		}
		if status, body := get("where=" + url.QueryEscape("n >= ")); status != 400 || !strings.Contains(body, "where, position 6") {
			t.Errorf("a bad where text: %d %s", status, body)
		}
		if status, body := get("after=x"); status != 400 || !strings.Contains(body, "cursor") {
			t.Errorf("a bad cursor: %d %s", status, body)
		}
	})
}
