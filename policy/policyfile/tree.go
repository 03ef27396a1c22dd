package policyfile

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// This file is all of the room that knows the YAML library. The library was chosen
// for its places: it points at the line and column of a syntax error, which others
// give by the line of the surrounding block or not at all. What it returns is
// turned into a tree of our own, small enough to be reasoned about: scalars are
// text and a kind, aliases are shared nodes, and there are no tags.

type kind uint8

const (
	null kind = iota
	text
	number  // whole, in decimal digits
	boolean // true or false
	other   // what YAML reads as something else: 1.5, 0x10, .inf
	sequence
	mapping
)

// node is a value of the file.
type node struct {
	kind         kind
	text         string  // of a scalar, as it is meant
	items        []*node // of a sequence; of a mapping keys and values in turn
	line, column int
}

// Bounds on a file. Depth keeps the library's recursion off the stack's end.
const (
	MaxSize  = 4 << 20
	maxDepth = 100
)

// parseTree reads a document. The error is an *Error.
func parseTree(file string, data []byte) (n *node, err error) {
	at := func(line, column int, format string, args ...any) error {
		return &Error{file, max(line, 1), max(column, 1), fmt.Sprintf(format, args...)}
	}
	if len(data) > MaxSize {
		return nil, at(1, 1, "the file is larger than %d MiB", MaxSize>>20)
	}
	data = bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF"))
	if line, column, problem := checkText(data); problem != "" {
		return nil, at(line, column, "%s", problem)
	}
	defer func() {
		// The library is fuzzed here, but it is not ours: a file that it
		// stumbles over must not take down a daemon that reloads.
		if p := recover(); p != nil {
			n, err = nil, at(1, 1, "the file cannot be read as YAML")
		}
	}()
	f, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	var syntax *yaml.SyntaxError
	switch {
	case errors.As(err, &syntax) && syntax.Token != nil:
		return nil, at(syntax.Token.Position.Line, syntax.Token.Position.Column, "this is not YAML: %s", plainMessage(syntax.Message))
	case err != nil:
		return nil, at(1, 1, "this is not YAML: %s", plainMessage(err.Error()))
	}
	var body ast.Node
	b := builder{anchors: map[string]*node{}, at: at}
	for _, d := range f.Docs {
		if _, directive := d.Body.(*ast.DirectiveNode); d.Body == nil || directive {
			continue
		}
		if body != nil {
			second, err := b.build(d.Body, 0)
			if err != nil {
				return nil, err
			}
			return nil, at(second.line, second.column, "a second document begins here; a policy file is one document")
		}
		body = d.Body
	}
	if body == nil {
		return nil, at(1, 1, "the file is empty; write \"limits: []\" for a policy without rules")
	}
	return b.build(body, 0)
}

// checkText finds what no policy file has: bytes that are not UTF-8, control
// characters, and brackets nested beyond reason.
func checkText(data []byte) (line, column int, problem string) {
	line, column = 1, 1
	depth, indent, atStart := 0, 0, true
	blank := true // a # would begin a comment
	for len(data) > 0 {
		c, width := utf8.DecodeRune(data)
		switch {
		case c == utf8.RuneError && width == 1:
			return line, column, "this is not UTF-8 text"
		case c < ' ' && c != '\n' && c != '\r' && c != '\t' || c == 0x7f:
			return line, column, "this is a control character"
		case c == '\t' && atStart && depth == 0:
			return line, column, "YAML indents with spaces, not with tabs"
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth = max(depth-1, 0)
		}
		if atStart {
			// Dashes and question marks nest without brackets: - - - x
			if c == ' ' || c == '-' || c == '?' {
				indent++
			} else {
				atStart = false
			}
		}
		if depth > maxDepth || indent > 4*maxDepth {
			return line, column, "this is nested too deeply"
		}
		data = data[width:]
		column++
		if c == '#' && blank {
			end := bytes.IndexByte(data, '\n')
			if end < 0 {
				end = len(data)
			}
			data = data[end:]
		}
		blank = c == ' ' || c == '\n'
		if c == '\n' {
			line, column = line+1, 1
			indent, atStart = 0, true
		}
	}
	return 0, 0, ""
}

// plainMessage takes the library's drawing of the place off its message.
func plainMessage(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

type builder struct {
	anchors map[string]*node
	at      func(line, column int, format string, args ...any) error
}

func (b *builder) build(in ast.Node, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, b.at(1, 1, "the file is nested too deeply")
	}
	n := &node{}
	if t := in.GetToken(); t != nil && t.Position != nil {
		n.line, n.column = t.Position.Line, t.Position.Column
	}
	fail := func(format string, args ...any) (*node, error) {
		return nil, b.at(n.line, n.column, format, args...)
	}
	switch in := in.(type) {
	case *ast.NullNode:
	case *ast.StringNode:
		n.kind, n.text = text, in.Value
	case *ast.LiteralNode:
		n.kind, n.text = text, in.Value.Value
	case *ast.IntegerNode:
		n.kind, n.text = number, in.Token.Value
		if strings.Trim(strings.TrimPrefix(n.text, "-"), "0123456789") != "" {
			n.kind = other
		}
	case *ast.BoolNode:
		n.kind, n.text = boolean, "false"
		if in.Value {
			n.text = "true"
		}
	case *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		n.kind, n.text = other, in.GetToken().Value
	case *ast.SequenceNode:
		n.kind = sequence
		for _, v := range in.Values {
			item, err := b.build(v, depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, glued(v, item))
		}
	case *ast.MappingNode:
		return b.buildMapping(n, in.Values, depth)
	case *ast.MappingValueNode:
		return b.buildMapping(n, []*ast.MappingValueNode{in}, depth)
	case *ast.AnchorNode:
		value, err := b.build(in.Value, depth+1)
		if err == nil {
			b.anchors[in.Name.GetToken().Value] = value
		}
		return value, err
	case *ast.AliasNode:
		value := b.anchors[in.Value.GetToken().Value]
		if value == nil {
			return fail("unknown anchor *%s", clip(in.Value.GetToken().Value))
		}
		return value, nil
	case *ast.TagNode:
		return fail("tags such as %s are not read; write text in quotes", clip(in.Start.Value))
	default:
		return fail("this part of YAML is not read in a policy file")
	}
	return n, nil
}

// glued returns item, or the text that it is: within braces the library takes
// [header:X-Agent] for a mapping, where YAML has a colon only before a space.
func glued(in ast.Node, item *node) *node {
	whole, ok := in.(*ast.MappingNode)
	if !ok || len(whole.Values) != 1 || whole.IsFlowStyle {
		return item
	}
	key, value := item.items[0], item.items[1]
	plainKey, ok := whole.Values[0].Key.(*ast.StringNode)
	if !ok || plainKey.Token.Type != token.StringType || value.kind == null || value.kind >= sequence {
		return item
	}
	if value.line != key.line || value.column != key.column+utf8.RuneCountInString(key.text)+1 {
		return item
	}
	return &node{kind: text, text: key.text + ":" + value.text, line: key.line, column: key.column}
}

func (b *builder) buildMapping(n *node, values []*ast.MappingValueNode, depth int) (*node, error) {
	n.kind = mapping
	for i, v := range values {
		if _, merge := v.Key.(*ast.MergeKeyNode); merge {
			t := v.Key.GetToken()
			return nil, b.at(t.Position.Line, t.Position.Column, "merge keys (<<) are not read; write the fields out")
		}
		key, err := b.build(v.Key, depth+1)
		if err != nil {
			return nil, err
		}
		value, err := b.build(v.Value, depth+1)
		if err != nil {
			return nil, err
		}
		if value.kind == null {
			value = &node{line: key.line, column: key.column}
		}
		if i == 0 && n.line == 0 || v.Start != nil && n.line == v.Start.Position.Line && n.column == v.Start.Position.Column {
			n.line, n.column = key.line, key.column // not the colon
		}
		n.items = append(n.items, key, value)
	}
	return n, nil
}
