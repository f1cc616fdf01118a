package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// fromYAML reads a config file. Nested mappings and dotted keys mean the same; errors name file, line and column.
func fromYAML(name string, data []byte, known []string) ([]given, error) {
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		if syntax, ok := errors.AsType[yaml.Error](err); ok && syntax.GetToken() != nil {
			return nil, at(name, syntax.GetToken(), "%s", syntax.GetMessage())
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	r := yamlReader{name: name, known: known, seen: map[string]bool{}}
	for i, doc := range file.Docs {
		switch {
		case doc.Body == nil || doc.Body.Type() == ast.NullType:
		case i > 0:
			r.fail(doc.Body.GetToken(), "there must be one document only")
		default:
			r.mapping("", doc.Body)
		}
	}
	return r.out, errors.Join(r.bad...)
}

func at(name string, tok *token.Token, format string, args ...any) error {
	return fmt.Errorf("%s:%d:%d: %s", name, tok.Position.Line, tok.Position.Column, fmt.Sprintf(format, args...))
}

type yamlReader struct {
	name  string
	known []string
	seen  map[string]bool
	out   []given
	bad   []error
}

func (r *yamlReader) fail(tok *token.Token, format string, args ...any) {
	r.bad = append(r.bad, at(r.name, tok, format, args...))
}

// mapping reads the keys below prefix, which is empty or ends with a dot.
func (r *yamlReader) mapping(prefix string, n ast.Node) {
	m, ok := n.(ast.MapNode)
	if !ok {
		r.fail(n.GetToken(), "there must be a mapping of settings here")
		return
	}
	for entries := m.MapRange(); entries.Next(); {
		keyNode, value := entries.Key(), entries.Value()
		if keyNode.Type() != ast.StringType {
			r.fail(keyNode.GetToken(), "%s is not the name of a setting", keyNode)
			continue
		}
		tok := keyNode.GetToken()
		key := prefix + tok.Value
		switch nested, isMap := value.(ast.MapNode); {
		case key == mapsKey && isMap:
			r.maps(nested)
		case slices.Contains(r.known, key):
			r.setting(key, tok, value)
		case slices.ContainsFunc(r.known, func(k string) bool { return strings.HasPrefix(k, key+".") }):
			r.mapping(key+".", value)
		default:
			r.fail(tok, "%v", unknownKey(key, r.known))
		}
	}
}

// maps reads the configs of maps, each of which becomes a value of its own.
func (r *yamlReader) maps(n ast.MapNode) {
	for entries := n.MapRange(); entries.Next(); {
		tok := entries.Key().GetToken()
		options, ok := entries.Value().(ast.MapNode)
		if !ok {
			r.fail(tok, "%s: %s: there must be a mapping of options here", mapsKey, tok.Value)
			continue
		}
		text, err := mapText(tok.Value, options)
		switch where := mapsKey + "." + tok.Value; {
		case err != nil:
			r.fail(tok, "%s: %v", where, err)
		case r.seen[where]:
			r.fail(tok, "%s: is given twice", where)
		default:
			r.seen[where] = true
			r.out = append(r.out, given{mapsKey, text, fmt.Sprintf("%s:%d:%d: %s", r.name, tok.Position.Line, tok.Position.Column, mapsKey)})
		}
	}
}

// mapText writes the config of a map as a flag would give it.
func mapText(name string, options ast.MapNode) (string, error) {
	var items []string
	for entries := options.MapRange(); entries.Next(); {
		option := entries.Key().GetToken().Value
		toText := yamlText
		if list, ok := entries.Value().(*ast.SequenceNode); ok && option == indexesOption {
			toText = func(ast.Node, bool) (string, error) { return indexesText(list) }
		}
		text, err := toText(entries.Value(), true)
		if err == nil && strings.ContainsAny(text, ",;") {
			err = fmt.Errorf("%q holds a comma or semicolon", text)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", option, err)
		}
		items = append(items, option+"="+text)
	}
	if strings.ContainsAny(name, ":;,=") {
		return "", fmt.Errorf("%q: the name of a map that is configured must not hold any of : ; , =", name)
	}
	return name + ":" + strings.Join(items, ";"), nil
}

func (r *yamlReader) setting(key string, tok *token.Token, value ast.Node) {
	text, err := yamlText(value, true)
	if err == nil && r.seen[key] {
		err = errors.New("is given twice")
	}
	if err != nil {
		r.fail(tok, "%s: %v", key, err)
		return
	}
	r.seen[key] = true
	r.out = append(r.out, given{key, text, fmt.Sprintf("%s:%d:%d: %s", r.name, tok.Position.Line, tok.Position.Column, key)})
}

// yamlText writes a value as a flag would give it: lists and mappings joined by commas.
func yamlText(n ast.Node, top bool) (string, error) {
	var items []string
	add := func(prefix string, item ast.Node) error {
		text, err := yamlText(item, false)
		if err == nil && strings.Contains(text, ",") {
			err = fmt.Errorf("%q holds a comma", text)
		}
		items = append(items, prefix+text)
		return err
	}
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return strings.TrimSuffix(n.Value.Value, "\n"), nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	case *ast.NullNode:
		return "", errors.New("there is no value")
	case *ast.SequenceNode:
		for _, item := range n.Values {
			if err := add("", item); err != nil || !top {
				return "", errors.Join(err, nestedIf(!top))
			}
		}
		return strings.Join(items, ","), nil
	case ast.MapNode:
		for entries := n.MapRange(); entries.Next(); {
			if err := add(entries.Key().GetToken().Value+"=", entries.Value()); err != nil || !top {
				return "", errors.Join(err, nestedIf(!top))
			}
		}
		return strings.Join(items, ","), nil
	}
	return "", errors.New("must be a value, a list or a mapping")
}

func nestedIf(nested bool) error {
	if nested {
		return errors.New("must not be nested")
	}
	return nil
}
