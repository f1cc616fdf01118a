package transform

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"gridnode/engine/plugin"
)

// Replace changes the text of one string field: what pattern finds becomes replacement, everywhere or, with replace_first, once. The pattern
// is plain text, or with is_regex a regular expression (RE2) and the replacement then as Java has it: $1 and ${name} stand for groups, and
// \ takes the meaning from the next character. Null stays null. A text that grows beyond 16 MiB fails the job.
type Replace struct {
	where, field string
	replace      func(string) (string, error)
}

// maxGrown is how long a text may become, in bytes; one that has been longer before may stay so. A few rows fill the memory of a member otherwise.
const maxGrown = 16 << 20

func (t *Replace) tooLong(before int) error {
	return plugin.Permanentf("%s: option \"replacement\" makes a text of %d bytes of the field %q longer than %d bytes", t.where, before, t.field, maxGrown)
}

// NewReplace returns the transform Replace.
func NewReplace(o plugin.Options) (plugin.Transform, error) {
	r := start(o)
	t := &Replace{where: o.Where, field: r.Required("replace_field")}
	r.Need("pattern")
	r.Need("replacement")
	pattern, replacement := r.Text("pattern", ""), r.Text("replacement", "")
	isRegex, first := r.Bool("is_regex", false), r.Bool("replace_first", false)
	if r.Has("pattern") && pattern == "" {
		r.Fail("pattern", "is empty")
	}
	if !isRegex {
		count := -1
		if first {
			count = 1
		}
		t.replace = func(s string) (string, error) {
			n := strings.Count(s, pattern)
			if first {
				n = min(n, 1)
			}
			if len(s)+n*(len(replacement)-len(pattern)) > max(maxGrown, len(s)) {
				return "", t.tooLong(len(s))
			}
			return strings.Replace(s, pattern, replacement, count), nil
		}
		return t, r.Done()
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		r.Fail("pattern", "is %q: %s", pattern, err)
		return t, r.Done()
	}
	parts, err := javaTemplate(replacement, re)
	if err != nil {
		r.Fail("replacement", "is %q: %s", replacement, err)
	}
	t.replace = func(s string) (string, error) {
		out, ok := replaceGroups(re, s, parts, first)
		if !ok {
			return "", t.tooLong(len(s))
		}
		return out, nil
	}
	return t, r.Done()
}

// Bind implements [plugin.Transform].
func (t *Replace) Bind(in plugin.Schema) (plugin.Schema, plugin.Mapper, error) {
	i, err := position(t.where, "replace_field", in, t.field)
	if err != nil {
		return plugin.Schema{}, nil, err
	}
	if in.Fields[i].Type != plugin.String {
		return plugin.Schema{}, nil, bindError(t.where, "replace_field", "names the field %q of type %s; only strings can be changed", t.field, in.Fields[i].Decl)
	}
	return in, &replacer{index: i, replace: t.replace}, nil
}

type replacer struct {
	index   int
	replace func(string) (string, error)
}

// Map implements [plugin.Mapper].
func (m *replacer) Map(in plugin.Row) (plugin.Row, bool, error) {
	s, ok := in[m.index].(string)
	if !ok {
		return in, true, nil
	}
	replaced, err := m.replace(s)
	if err != nil {
		return nil, false, err
	}
	out := append(plugin.Row(nil), in...)
	out[m.index] = replaced
	return out, true, nil
}

// part is a piece of a replacement: text, or the group with that number.
type part struct {
	text  string
	group int // -1 for text
}

// javaTemplate reads a replacement as Java's Matcher does.
func javaTemplate(s string, re *regexp.Regexp) ([]part, error) {
	var parts []part
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
			if i == len(s) {
				return nil, fmt.Errorf("there is nothing behind the last \\")
			}
			parts = append(parts, part{text: s[i : i+1], group: -1})
		case '$':
			group, n, err := javaGroup(s[i+1:], re)
			if err != nil {
				return nil, err
			}
			parts = append(parts, part{group: group})
			i += n
		default:
			parts = append(parts, part{text: s[i : i+1], group: -1})
		}
	}
	return parts, nil
}

// javaGroup reads what stands behind a $ and how long it is. Of several digits it takes as many as still name a group.
func javaGroup(s string, re *regexp.Regexp) (group, length int, err error) {
	if strings.HasPrefix(s, "{") {
		name, _, closed := strings.Cut(s[1:], "}")
		group = re.SubexpIndex(name)
		if !closed || group < 0 {
			return 0, 0, fmt.Errorf("the pattern has no group %q", name)
		}
		return group, len(name) + 2, nil
	}
	for length < len(s) && s[length] >= '0' && s[length] <= '9' {
		n, err := strconv.Atoi(s[:length+1])
		if err != nil || length > 0 && n > re.NumSubexp() {
			break
		}
		group = n
		length++
	}
	switch {
	case length == 0:
		return 0, 0, fmt.Errorf("a $ must be followed by a group; write \\$ for the character")
	case group > re.NumSubexp():
		return 0, 0, fmt.Errorf("the pattern has no group %d", group)
	}
	return group, length, nil
}

// replaceGroups returns false for a text that grows too long.
func replaceGroups(re *regexp.Regexp, s string, parts []part, first bool) (string, bool) {
	count := -1
	if first {
		count = 1
	}
	var b strings.Builder
	end := 0
	for _, m := range re.FindAllStringSubmatchIndex(s, count) {
		b.WriteString(s[end:m[0]])
		for _, p := range parts {
			switch {
			case p.group < 0:
				b.WriteString(p.text)
			case m[2*p.group] >= 0:
				b.WriteString(s[m[2*p.group]:m[2*p.group+1]])
			}
			if b.Len() > max(maxGrown, len(s)) {
				return "", false
			}
		}
		end = m[1]
	}
	b.WriteString(s[end:])
	return b.String(), b.Len() <= max(maxGrown, len(s))
}
