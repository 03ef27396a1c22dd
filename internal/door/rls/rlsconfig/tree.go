package rlsconfig

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// This file is all of the room that knows the YAML library. What it returns is
// turned into a tree of our own, as in policy/policyfile, but by the rules of the
// server that Weir stands in for: the first document counts alone, and what is
// not quoted means what it means in YAML 1.1.

type kind uint8

const (
	null kind = iota
	scalar
	sequence
	mapping
)

// node is a value of a file.
type node struct {
	kind         kind
	text         string // of a scalar, as written
	quoted       bool   // text is text and nothing else
	items        []*node
	line, column int
}

// Bounds on a file. Depth keeps recursion off the stack's end; nodes count
// aliases as often as they are used.
const (
	maxSize  = 4 << 20
	maxDepth = 100
	maxNodes = 400_000
)

type builder struct {
	file    string
	anchors map[string]*node
	nodes   int
}

func (b *builder) fault(line, column int, format string, args ...any) error {
	return &Error{b.file, max(line, 1), max(column, 1), fmt.Sprintf(format, args...)}
}

// parse reads the first document of a file; that server never looks at a second.
// A file with nothing in it is nil. The error is an *Error.
func parse(file string, data []byte) (n *node, err error) {
	b := &builder{file: file, anchors: map[string]*node{}}
	data = bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF"))
	if line, column, problem := unreadable(data); problem != "" {
		return nil, b.fault(line, column, "error loading config file: %s", problem)
	}
	defer func() {
		// The YAML library is not ours: a file that it stumbles over must not
		// take down a daemon that reloads.
		if p := recover(); p != nil {
			n, err = nil, b.fault(1, 1, "error loading config file: it cannot be read as YAML")
		}
	}()
	f, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	var syntax *yaml.SyntaxError
	switch {
	case errors.As(err, &syntax) && syntax.Token != nil:
		message, _, _ := strings.Cut(syntax.Message, "\n")
		return nil, b.fault(syntax.Token.Position.Line, syntax.Token.Position.Column, "error loading config file: this is not YAML: %s", message)
	case err != nil:
		message, _, _ := strings.Cut(err.Error(), "\n")
		return nil, b.fault(1, 1, "error loading config file: this is not YAML: %s", message)
	}
	for _, d := range f.Docs {
		if _, directive := d.Body.(*ast.DirectiveNode); d.Body != nil && !directive {
			return b.build(d.Body, 0)
		}
	}
	return nil, nil
}

// unreadable finds what no such file has: too much of it, bytes that are not
// UTF-8, and brackets or dashes nested beyond reason.
func unreadable(data []byte) (line, column int, problem string) {
	if len(data) > maxSize {
		return 1, 1, fmt.Sprintf("the file is larger than %d MiB", maxSize>>20)
	}
	for i, text := range bytes.Split(data, []byte("\n")) {
		if !utf8.Valid(text) {
			return i + 1, 1, "this is not UTF-8 text"
		}
		if bytes.ContainsRune(text, 0) {
			return i + 1, 1, "this is a control character"
		}
		nested := bytes.Count(text, []byte("[")) + bytes.Count(text, []byte("{")) + bytes.Count(text, []byte("- "))
		if indent := len(text) - len(bytes.TrimLeft(text, " ")); nested > maxDepth || indent > 4*maxDepth {
			return i + 1, 1, "this is nested too deeply"
		}
	}
	return 0, 0, ""
}

func (b *builder) build(in ast.Node, depth int) (*node, error) {
	n := &node{}
	t := in.GetToken()
	if t != nil && t.Position != nil {
		n.line, n.column = t.Position.Line, t.Position.Column
	}
	if b.nodes++; depth > maxDepth || b.nodes > maxNodes {
		return nil, b.fault(n.line, n.column, "the file is nested too deeply or too large")
	}
	switch in := in.(type) {
	case *ast.NullNode:
	case *ast.StringNode:
		n.kind, n.text = scalar, in.Value
		n.quoted = t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType
	case *ast.LiteralNode:
		n.kind, n.text, n.quoted = scalar, in.Value.Value, true
	case *ast.IntegerNode, *ast.BoolNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		n.kind, n.text = scalar, t.Value
	case *ast.SequenceNode:
		n.kind = sequence
		for _, v := range in.Values {
			item, err := b.build(v, depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
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
			return nil, b.fault(n.line, n.column, "unknown anchor '%s' referenced", clip(in.Value.GetToken().Value))
		}
		if b.nodes += value.size(maxNodes); b.nodes > maxNodes {
			return nil, b.fault(n.line, n.column, "the file is too large when its aliases are written out")
		}
		return value, nil
	case *ast.TagNode:
		return b.build(in.Value, depth+1) // a tag only says what the rest of the file says by its place
	default:
		return nil, b.fault(n.line, n.column, "error loading config file: this part of YAML is not read")
	}
	return n, nil
}

// size counts n and what is below, up to most.
func (n *node) size(most int) int {
	total := 1
	for _, item := range n.items {
		if total > most {
			break
		}
		total += item.size(most - total)
	}
	return total
}

func (b *builder) buildMapping(n *node, values []*ast.MappingValueNode, depth int) (*node, error) {
	n.kind = mapping
	var merged []*node // come first, so that a key that stands here itself wins
	for i, v := range values {
		value, err := b.build(v.Value, depth+1)
		if err != nil {
			return nil, err
		}
		if _, merge := v.Key.(*ast.MergeKeyNode); merge {
			if value.kind != mapping {
				return nil, b.fault(value.line, value.column, "map merge requires map or sequence of maps as the value")
			}
			merged = append(merged, value.items...)
			continue
		}
		key, err := b.build(v.Key, depth+1)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			n.line, n.column = key.line, key.column // not the colon
		}
		if value.kind == null {
			value = &node{line: key.line, column: key.column}
		}
		n.items = append(n.items, key, value)
	}
	n.items = append(merged, n.items...)
	return n, nil
}

// What plain text is in YAML 1.1, where it matters.

var floats = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$|^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$`)

// integer returns the number that plain text is: 010 is eight, 1_000 a thousand.
func (n *node) integer() (int64, bool) {
	if n.kind != scalar || n.quoted {
		return 0, false
	}
	v, err := strconv.ParseInt(strings.ReplaceAll(n.text, "_", ""), 0, 64)
	return v, err == nil
}

// float reports whether plain text is a number that is not whole.
func (n *node) float() bool {
	if n.kind != scalar || n.quoted {
		return false
	}
	if _, whole := n.integer(); whole {
		return false
	}
	return floats.MatchString(strings.ReplaceAll(n.text, "_", ""))
}

// boolean returns the truth that plain text is.
func (n *node) boolean() (value, ok bool) {
	if n.kind != scalar || n.quoted {
		return false, false
	}
	switch n.text {
	case "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON":
		return true, true
	case "n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF":
		return false, true
	}
	return false, false
}
