package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
)

// raw is a mapping written out again as YAML for an adapter to decode, with
// aliases, merges and variables resolved; in flow style, so that it needs no
// indentation.
func (d *decoder) raw(n *node, path string) []byte {
	if !d.expect(n, mappingKind, path, "key: value below it") {
		return nil
	}
	var b bytes.Buffer
	d.write(&b, n, path)
	return b.Bytes()
}

func (d *decoder) write(b *bytes.Buffer, n *node, path string) {
	switch n.kind {
	case mappingKind:
		b.WriteByte('{')
		for i, e := range n.entries {
			if i > 0 {
				b.WriteString(", ")
			}
			below := join(path, e.key)
			d.lines[below] = e.line
			writeString(b, e.key)
			b.WriteString(": ")
			d.write(b, e.node, below)
		}
		b.WriteByte('}')
	case sequenceKind:
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteString(", ")
			}
			below := fmt.Sprintf("%s[%d]", path, i)
			d.lines[below] = item.line
			d.write(b, item, below)
		}
		b.WriteByte(']')
	case scalarKind:
		d.writeScalar(b, n, path)
	default:
		b.WriteString("null")
	}
}

func (d *decoder) writeScalar(b *bytes.Buffer, n *node, path string) {
	d.written[path] = n.text
	switch v := n.value.(type) {
	case string:
		text, _, _ := d.expand(n, path)
		writeString(b, text)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			d.wrong(path, "is no finite number; write one")
			v = 0
		}
		fmt.Fprint(b, v)
	default:
		fmt.Fprint(b, v)
	}
}

// writeString writes s in double quotes. JSON's escapes are a part of YAML's
// (YAML 1.2, section 5.7).
func writeString(b *bytes.Buffer, s string) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		b.WriteString(`""`)
		return
	}
	b.Truncate(b.Len() - 1) // the encoder's line end
}
