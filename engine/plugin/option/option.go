// Package option reads the options of a plugin: typed, within their ranges, and with none left over that nobody knows.
package option

import (
	"fmt"
	"strings"

	"gridnode/engine/plugin"
)

// Reader reads options. The first thing that is wrong is kept and returned by [Reader.Done]; until then getters answer with usable values,
// so that a constructor reads all its options in a row. An option whose value is null counts as not given.
type Reader struct {
	shared  *shared
	prefix  string
	values  map[string]any
	written map[string]string // by name: the old name that the config used for it
	known   []string
}

// shared is what the readers of one plugin have in common.
type shared struct {
	where   string
	err     error
	missing string // the option that err finds missing
	readers []*Reader
}

// New returns a reader of a plugin's options.
func New(o plugin.Options) *Reader {
	r := &Reader{shared: &shared{where: o.Where}, values: map[string]any{}, written: map[string]string{}}
	for k, v := range o.Values {
		if v != nil {
			r.values[k] = v
		}
	}
	r.shared.readers = []*Reader{r}
	return r
}

// Sub returns a reader of an object within these options. Errors name its options as prefix.option, and Done of any reader covers it too.
func (r *Reader) Sub(prefix string, o plugin.Object) *Reader {
	s := &Reader{shared: r.shared, prefix: r.prefix + prefix + ".", values: map[string]any{}, written: map[string]string{}}
	for _, m := range o {
		if m.Value != nil {
			s.values[m.Key] = m.Value
		}
	}
	r.shared.readers = append(r.shared.readers, s)
	return s
}

// Alias lets the config use an old name for an option. It comes before the option is read. Both at once must say the same.
func (r *Reader) Alias(name, old string) {
	r.know(old)
	v, found := r.values[old]
	if !found {
		return
	}
	if have, both := r.values[name]; both {
		if fmt.Sprint(have) != fmt.Sprint(v) {
			r.Fail(old, "says something else than %q, which it is the old name of", name)
		}
		return
	}
	r.values[name] = v
	r.written[name] = old
}

// Has says whether an option is given.
func (r *Reader) Has(name string) bool {
	r.know(name)
	_, found := r.values[name]
	return found
}

// Fail notes that an option is wrong, if nothing was wrong before.
func (r *Reader) Fail(name, format string, args ...any) {
	if r.shared.err == nil {
		r.shared.err = r.errorf(name, format, args...)
	}
}

// Need notes an error if an option is not given.
func (r *Reader) Need(name string) {
	if !r.Has(name) && r.shared.err == nil {
		r.Fail(name, "is missing")
		r.shared.missing = r.prefix + name
	}
}

// Refuse notes an error for each of these options that is given: they exist elsewhere and have no effect here.
func (r *Reader) Refuse(names ...string) {
	for _, n := range names {
		if r.Has(n) {
			r.Fail(n, "is not supported (its value is %s)", show(r.values[n]))
		}
	}
}

// Done returns the first error: an option that nobody read, which also explains most missing ones, or else what the getters noted.
// Either is a [plugin.OptionError].
func (r *Reader) Done() error {
	if err := r.shared.err; err != nil && r.shared.missing == "" {
		return err
	}
	for _, s := range r.shared.readers {
		if err := s.unknown(); err != nil {
			return err
		}
	}
	return r.shared.err
}

func (r *Reader) unknown() error {
	first := ""
	for k := range r.values {
		if !r.isKnown(k) && (first == "" || k < first) {
			first = k
		}
	}
	if first == "" {
		return nil
	}
	if near := Nearest(first, r.known); near != "" {
		return r.errorf(first, "is unknown; did you mean %q?", near)
	}
	return r.errorf(first, "is unknown")
}

func (r *Reader) isKnown(name string) bool {
	for _, k := range r.known {
		if k == name {
			return true
		}
	}
	return false
}

func (r *Reader) know(name string) {
	if !r.isKnown(name) {
		r.known = append(r.known, name)
	}
}

func (r *Reader) errorf(name, format string, args ...any) error {
	if old := r.written[name]; old != "" {
		name = old
	}
	return &plugin.OptionError{Where: r.shared.where, Option: r.prefix + name, Reason: fmt.Sprintf(format, args...)}
}

// Nearest returns the name that is most like a misspelt one, or "" if none is much like it.
func Nearest(name string, names []string) string {
	best, bestDistance := "", 1+max(2, len(name)/3)
	for _, n := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(n)); d < bestDistance || d == bestDistance && best != "" && n < best {
			best, bestDistance = n, d
		}
	}
	return best
}

// distance is the number of bytes to insert, delete or replace to get from a to b. Both are short: longer ones are nobody's typing error.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return len(a) + len(b)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(row[j+1]+1, row[j]+1, diagonal+cost)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
