package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"gridnode/node"
)

// indexesOption is the option of a map that lists its indexes. As a text they are divided by bars, type and attributes by blanks:
// SORTED age | HASH city name.
const indexesOption = "indexes"

func parseIndexes(text string) (list []node.IndexConfig, err error) {
	for item := range strings.SplitSeq(text, "|") {
		words := strings.Fields(item)
		if len(words) < 2 {
			return nil, fmt.Errorf("%q is not of the form TYPE attribute attribute", strings.TrimSpace(item))
		}
		list = append(list, node.IndexConfig{Type: node.IndexType(strings.ToUpper(words[0])), Attributes: words[1:]})
	}
	return list, nil
}

// indexesText writes a list of mappings as a flag would give it.
func indexesText(list *ast.SequenceNode) (string, error) {
	var out []string
	for _, n := range list.Values {
		m, ok := n.(ast.MapNode)
		if !ok {
			return "", errors.New("an index is a mapping of type and attributes")
		}
		words, err := indexWords(m)
		if err != nil {
			return "", err
		}
		out = append(out, strings.Join(words, " "))
	}
	return strings.Join(out, " | "), nil
}

// indexWords returns the type of an index, then its attributes.
func indexWords(m ast.MapNode) ([]string, error) {
	typ, attributes := "", []string(nil)
	for entries := m.MapRange(); entries.Next(); {
		var err error
		switch key := entries.Key().GetToken().Value; key {
		case "type":
			typ, err = indexWord(entries.Value())
		case "attributes":
			attributes, err = indexAttributes(entries.Value())
		default:
			err = unknownKey(key, []string{"type", "attributes"})
		}
		if err != nil {
			return nil, err
		}
	}
	if typ == "" || len(attributes) == 0 {
		return nil, errors.New("an index has a type and attributes")
	}
	return append([]string{typ}, attributes...), nil
}

func indexAttributes(n ast.Node) (words []string, err error) {
	values := []ast.Node{n}
	if list, ok := n.(*ast.SequenceNode); ok {
		values = list.Values
	}
	for _, v := range values {
		word, err := indexWord(v)
		if err != nil {
			return nil, err
		}
		words = append(words, word)
	}
	return words, nil
}

func indexWord(n ast.Node) (string, error) {
	text, err := yamlText(n, true)
	if err == nil && strings.ContainsAny(text, " \t\n,;|") {
		err = fmt.Errorf("%q holds a blank, comma, semicolon or bar", text)
	}
	return text, err
}
