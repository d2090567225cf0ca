package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// What a config may grow to. A real one is far below; a crafted or mistaken file
// must not keep a process busy (the parser's time grows with the square of the
// nesting, and aliases can multiply).
const (
	maxBytes  = 256 << 10
	maxTokens = 20_000
	maxDepth  = 64
	maxNodes  = 50_000
)

// kind is what a node of the tree is.
type kind int

const (
	nullKind kind = iota
	scalarKind
	mappingKind
	sequenceKind
)

// A node is one value of the file, with aliases, merges and tags resolved.
type node struct {
	kind    kind
	line    int
	text    string  // a scalar as it is written, without quotes; never expanded
	value   any     // a scalar: string, bool, int64, uint64 or float64
	entries []entry // of a mapping
	items   []*node // of a sequence
}

type entry struct {
	key  string
	line int
	node *node
}

// find is the entry's node, nil if there is none.
func (n *node) find(key string) *node {
	for _, e := range n.entries {
		if e.key == key {
			return e.node
		}
	}
	return nil
}

// called names the node's kind for a message.
func (n *node) called() string {
	switch n.kind {
	case mappingKind:
		return "a mapping (key: value)"
	case sequenceKind:
		return "a list"
	case nullKind:
		return "nothing"
	}
	switch n.value.(type) {
	case string:
		return "a text"
	case bool:
		return "true or false"
	default:
		return "a number"
	}
}

// parseTree reads the one document of a file. What it cannot read it reports;
// the root is then nil, or what could be read.
func parseTree(file string, data []byte) (*node, []Problem) {
	t := &tree{file: file, anchors: map[string]ast.Node{}, open: map[string]bool{}}
	if p := t.checkText(data); p != nil {
		return nil, []Problem{*p}
	}
	doc, p := t.parse(string(bytes.TrimPrefix(data, []byte("\ufeff"))))
	if p != nil {
		return nil, []Problem{*p}
	}
	if doc == nil {
		return &node{line: 1}, nil
	}
	root := t.convert(doc, "", 0)
	return root, t.problems
}

// tree turns the library's syntax tree into ours.
type tree struct {
	file     string
	problems []Problem
	anchors  map[string]ast.Node
	open     map[string]bool // anchors being resolved: an alias to one would never end
	nodes    int
}

func (t *tree) bad(line int, path, fix string) {
	t.problems = append(t.problems, Problem{File: t.file, Line: line, Path: path, Fix: fix})
}

func (t *tree) checkText(data []byte) *Problem {
	if len(data) > maxBytes {
		return &Problem{File: t.file, Fix: fmt.Sprintf("is larger than %d KiB; a config is far smaller, check the path", maxBytes>>10)}
	}
	for i, line := range bytes.Split(data, []byte("\n")) {
		if !utf8.Valid(line) || bytes.IndexByte(line, 0) >= 0 {
			return &Problem{File: t.file, Line: i + 1, Fix: "the line is not UTF-8 text; save the file as UTF-8"}
		}
	}
	return nil
}

// parse is the body of the only document; nil if the file is empty. The library's
// own messages quote the source, which may hold a secret, and are never passed on.
func (t *tree) parse(text string) (body ast.Node, problem *Problem) {
	defer func() {
		if r := recover(); r != nil {
			body, problem = nil, &Problem{File: t.file, Line: 1, Fix: "the YAML parser gave up on this file; simplify it: no anchors, tags or complex keys"}
		}
	}()
	tokens := lexer.Tokenize(text)
	if p := t.checkTokens(tokens); p != nil {
		return nil, p
	}
	parsed, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, t.syntaxProblem(err)
	}
	for _, doc := range parsed.Docs {
		switch {
		case doc.Body == nil:
		case body != nil:
			return nil, &Problem{File: t.file, Line: line(doc.Body), Fix: "a second document begins; keep one and remove the --- line"}
		default:
			body = doc.Body
		}
	}
	return body, nil
}

// checkTokens refuses what would keep the parser busy for seconds.
func (t *tree) checkTokens(tokens token.Tokens) *Problem {
	flow, entries, onLine := 0, 0, 0
	for _, tk := range tokens {
		if tk.Position.Line != onLine {
			entries, onLine = 0, tk.Position.Line
		}
		switch tk.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			entries++
		}
		if flow > maxDepth || entries > maxDepth {
			return &Problem{File: t.file, Line: onLine, Fix: fmt.Sprintf("the file nests deeper than %d levels; flatten it", maxDepth)}
		}
	}
	if len(tokens) > maxTokens {
		return &Problem{File: t.file, Line: 1, Fix: fmt.Sprintf("the file has more than %d words and signs; a config is far smaller, check the path", maxTokens)}
	}
	return nil
}

// syntaxAdvice says what to do about the library's messages. None of them is
// shown itself.
var syntaxAdvice = []struct{ message, advice string }{
	{"could not find flow mapping end", "a { is never closed; add the }"},
	{"sequence end token", "a [ is never closed; add the ]"},
	{"',' or '}' must be specified", `a { } mapping is broken; separate its keys by commas, and put values that hold { } [ ] , : or # in double quotes: "${NAME}"`},
	{"',' or ']' must be specified", `a [ ] list is broken; separate its items by commas, and put values that hold { } [ ] , : or # in double quotes: "${NAME}"`},
	{"end character of double-quoted", "a double quote is never closed; add the other one"},
	{"end character of single-quoted", "a single quote is never closed; add the other one"},
	{"unknown escape character", `a backslash in double quotes escapes nothing known; write \\ for a backslash, or use single quotes`},
	{"is a reserved character", "a value begins with @ or `; put it in double quotes"},
	{"tab character", "a tab stands where spaces must; indent with spaces"},
	{"found character '\t'", "a tab stands where spaces must; indent with spaces"},
	{"mapping value is not allowed", `a value holds ": " or the line is indented wrongly; put the value in double quotes or correct the indentation`},
	{"unexpected key name", "the line is no `key: value`; add the colon and a space"},
	{"non-map value is specified", "the line is no `key: value`; add the colon and a space"},
	{"unexpected directive value", "a value begins with %; put it in double quotes"},
}

const generalAdvice = "is not valid YAML at or just before this line; check the indentation, the quotes and the brackets"

func (t *tree) syntaxProblem(err error) *Problem {
	p := &Problem{File: t.file, Line: 1, Fix: generalAdvice}
	var syntax yaml.Error
	if !errors.As(err, &syntax) {
		return p
	}
	if tk := syntax.GetToken(); tk != nil && tk.Position != nil {
		p.Line = tk.Position.Line
	}
	for _, a := range syntaxAdvice {
		if strings.Contains(syntax.GetMessage(), a.message) {
			p.Fix = a.advice
			break
		}
	}
	return p
}

func line(n ast.Node) int {
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		return tk.Position.Line
	}
	return 1
}

// convert is n as a node of ours.
func (t *tree) convert(n ast.Node, path string, depth int) *node {
	if n == nil {
		return &node{line: 1}
	}
	t.nodes++
	if depth > maxDepth || t.nodes > maxNodes {
		if t.nodes <= maxNodes+1 { // said once, not for each further node
			t.bad(line(n), path, "is nested too deeply or repeated too often by aliases; write it out flat")
		}
		return &node{line: line(n)}
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		return t.mapping(n, path, depth)
	case *ast.SequenceNode:
		out := &node{kind: sequenceKind, line: line(n)}
		for i, item := range n.Values {
			out.items = append(out.items, t.convert(item, fmt.Sprintf("%s[%d]", path, i), depth+1))
		}
		return out
	case *ast.AnchorNode:
		return t.anchor(n, path, depth)
	case *ast.AliasNode:
		return t.alias(n, path, depth)
	case *ast.TagNode:
		return t.tagged(n, path, depth)
	default:
		return scalar(n)
	}
}

func scalar(n ast.Node) *node {
	out := &node{kind: scalarKind, line: line(n)}
	switch n := n.(type) {
	case *ast.StringNode:
		out.text, out.value = n.Value, n.Value
	case *ast.LiteralNode:
		out.text, out.value = n.Value.Value, n.Value.Value
	case *ast.IntegerNode:
		out.text, out.value = n.Token.Value, n.Value
	case *ast.FloatNode:
		out.text, out.value = n.Token.Value, n.Value
	case *ast.InfinityNode:
		out.text, out.value = n.Token.Value, n.Value
	case *ast.NanNode:
		out.text, out.value = n.Token.Value, n.GetValue()
	case *ast.BoolNode:
		out.text, out.value = n.Token.Value, n.Value
	default:
		out.kind = nullKind
	}
	return out
}

func (t *tree) mapping(n *ast.MappingNode, path string, depth int) *node {
	out := &node{kind: mappingKind, line: line(n)}
	seen := map[string]int{}
	var merged []entry
	for _, v := range n.Values {
		at := line(v.Key)
		if v.Key.IsMergeKey() {
			merged = append(merged, t.merge(v.Value, path, depth)...)
			continue
		}
		key, ok := keyText(v.Key)
		if !ok {
			t.bad(at, path, "has a key that is no word; write `key: value`")
			continue
		}
		below := join(path, key)
		if first, twice := seen[key]; twice {
			t.bad(at, below, fmt.Sprintf("is a duplicate: the key is on line %d already; keep one of them", first))
			continue
		}
		seen[key] = at
		out.entries = append(out.entries, entry{key: key, line: at, node: t.convert(v.Value, below, depth+1)})
	}
	for _, e := range merged { // what the mapping says itself wins
		if _, ok := seen[e.key]; !ok {
			seen[e.key] = e.line
			out.entries = append(out.entries, e)
		}
	}
	return out
}

// keyText is the word of a mapping's key.
func keyText(k ast.MapKeyNode) (string, bool) {
	s := scalar(k)
	return s.text, s.kind == scalarKind
}

// merge is what `<<: *other` or `<<: [*a, *b]` brings in; the first one wins.
func (t *tree) merge(n ast.Node, path string, depth int) []entry {
	m := t.convert(n, join(path, "<<"), depth+1)
	switch m.kind {
	case mappingKind:
		return m.entries
	case sequenceKind:
		var all []entry
		for _, item := range m.items {
			all = append(all, item.entries...)
		}
		return all
	default:
		t.bad(line(n), path, "merges (<<) what is no mapping; write <<: *name of an anchored mapping")
		return nil
	}
}

func (t *tree) anchor(n *ast.AnchorNode, path string, depth int) *node {
	name := anchorName(n.Name)
	t.anchors[name] = n.Value
	t.open[name] = true
	defer delete(t.open, name)
	return t.convert(n.Value, path, depth+1)
}

func (t *tree) alias(n *ast.AliasNode, path string, depth int) *node {
	name := anchorName(n.Value)
	target, known := t.anchors[name]
	switch {
	case !known:
		t.bad(line(n), path, "refers to an anchor that is not defined above; add it as &name, or put the value in double quotes if it is no alias")
	case t.open[name]:
		t.bad(line(n), path, "refers to the anchor that it is part of; write the value out")
	default:
		t.open[name] = true
		defer delete(t.open, name)
		return t.convert(target, path, depth+1)
	}
	return &node{line: line(n)}
}

func anchorName(n ast.Node) string {
	if n == nil {
		return ""
	}
	return scalar(n).text
}

// tagged drops a tag that changes nothing and reports the others.
func (t *tree) tagged(n *ast.TagNode, path string, depth int) *node {
	out := t.convert(n.Value, path, depth+1)
	switch {
	case n.Start != nil && n.Start.Value == "!!str" && out.kind == scalarKind:
		out.value = out.text
	default:
		t.bad(line(n), path, "has a YAML tag (!); remove it, or put the value in double quotes if it is none")
	}
	return out
}

// join is the path of a key below path.
func join(path, key string) string {
	if path == "" {
		return shownKey(key)
	}
	return path + "." + shownKey(key)
}
