package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/nightaudit/nightaudit/providers"
)

// A decoder fills structs from nodes by their yaml tags and collects what is
// wrong instead of stopping at it. A key that is absent or null leaves the
// field's default.
type decoder struct {
	*places
	dir      string // the config's folder: relative paths in it start there
	env      func(string) (string, bool)
	problems []Problem
}

func newDecoder(file, dir string, env func(string) (string, bool)) *decoder {
	return &decoder{places: newPlaces(file), dir: dir, env: env}
}

// bad reports a problem at path without showing the value.
func (d *decoder) bad(path, fix string) { d.badValue(path, "", fix) }

// wrong reports a problem at path and shows what is written there: references
// as they stand, never what they resolve to.
func (d *decoder) wrong(path, fix string) { d.badValue(path, shown(d.written[path]), fix) }

func (d *decoder) badValue(path, value, fix string) {
	d.problems = append(d.problems, d.problem(path, value, fix))
}

// fine reports whether nothing is wrong at path or below it so far.
func (d *decoder) fine(path string) bool {
	for _, p := range d.problems {
		if within(p.Path, path) {
			return false
		}
	}
	return true
}

// need reports what must be written at path if the file does not, and whether it does.
func (d *decoder) need(path, fix string) bool {
	if !d.has(path) {
		d.bad(path, "is missing; "+fix)
	}
	return d.has(path)
}

// A defaulter knows its defaults; they are in place before the file is read.
type defaulter interface{ setDefaults() }

var (
	durationType = reflect.TypeFor[time.Duration]()
	rateType     = reflect.TypeFor[Rate]()
	zoneType     = reflect.TypeFor[*time.Location]()
	secretType   = reflect.TypeFor[providers.Secret]()
	rawType      = reflect.TypeFor[[]byte]()
)

// value fills v from n.
func (d *decoder) value(n *node, v reflect.Value, path string) {
	switch v.Type() {
	case secretType:
		v.SetString(string(d.secret(n, path)))
		return
	case rawType:
		v.SetBytes(d.raw(n, path))
		return
	case durationType, rateType, zoneType:
		d.quantity(n, v, path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), path)
	case reflect.Struct:
		d.structure(n, v, path)
	case reflect.Map:
		d.mapping(n, v, path)
	case reflect.Slice:
		d.list(n, v, path)
	default:
		d.scalar(n, v, path)
	}
}

// structure fills a struct and reports the keys that it does not have.
func (d *decoder) structure(n *node, v reflect.Value, path string) {
	if def, ok := v.Addr().Interface().(defaulter); ok {
		def.setDefaults()
	}
	if !d.expect(n, mappingKind, path, "key: value below it") {
		return
	}
	fields := fieldsOf(v.Type())
	for _, e := range n.entries {
		below := join(path, e.key)
		d.lines[below] = e.line
		i, known := fields[e.key]
		switch {
		case !known:
			d.bad(below, "is an unknown key; "+suggest(e.key, keysOf(v.Type())))
		case e.node.kind == nullKind:
			d.empty[below] = true
		default:
			d.value(e.node, v.FieldByIndex(i), below)
		}
	}
}

// fieldsOf maps the yaml keys of a struct to its fields. Untagged and "-" fields
// are not part of the file; an "inline" struct's fields count as the outer one's.
func fieldsOf(t reflect.Type) map[string][]int {
	fields := map[string][]int{}
	for f := range t.Fields() {
		tag, tagged := f.Tag.Lookup("yaml")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case strings.Contains(options, "inline"):
			for key, index := range fieldsOf(f.Type) {
				fields[key] = append([]int{f.Index[0]}, index...)
			}
		case tagged && name != "" && name != "-":
			fields[name] = f.Index
		}
	}
	return fields
}

func keysOf(t reflect.Type) []string {
	var keys []string
	for k := range fieldsOf(t) {
		keys = append(keys, k)
	}
	return keys
}

func (d *decoder) mapping(n *node, v reflect.Value, path string) {
	if !d.expect(n, mappingKind, path, "key: value below it") {
		return
	}
	out := reflect.MakeMap(v.Type())
	for _, e := range n.entries {
		below := join(path, e.key)
		d.lines[below] = e.line
		item := reflect.New(v.Type().Elem()).Elem()
		if e.node.kind == nullKind {
			d.bad(below, "has no value; write one, or remove the key")
		} else {
			d.value(e.node, item, below)
		}
		out.SetMapIndex(reflect.ValueOf(e.key).Convert(v.Type().Key()), item)
	}
	v.Set(out)
}

func (d *decoder) list(n *node, v reflect.Value, path string) {
	if !d.expect(n, sequenceKind, path, `- items below it, or ["a", "b"]`) {
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.items), len(n.items))
	for i, item := range n.items {
		below := fmt.Sprintf("%s[%d]", path, i)
		d.lines[below] = item.line
		if item.kind == nullKind {
			d.bad(below, "is an empty item; remove it")
		} else {
			d.value(item, out.Index(i), below)
		}
	}
	v.Set(out)
}

// expect reports a node of another kind. Its content is not shown: it may be a
// secret in the wrong place.
func (d *decoder) expect(n *node, want kind, path, how string) bool {
	if n.kind != want {
		d.bad(path, fmt.Sprintf("is %s; write %s", n.called(), how))
	}
	return n.kind == want
}

// scalar fills a text, number or switch.
func (d *decoder) scalar(n *node, v reflect.Value, path string) {
	if n.kind != scalarKind {
		d.bad(path, fmt.Sprintf("is %s; write %s", n.called(), exampleOf(v.Kind())))
		return
	}
	d.written[path] = n.text
	if v.Kind() == reflect.String {
		d.text(n, v, path)
		return
	}
	text, refs, ok := d.expand(n, path)
	if !ok {
		return
	}
	if _, quoted := n.value.(string); quoted && refs == 0 {
		d.wrong(path, fmt.Sprintf("is a text; write %s, without quotes", exampleOf(v.Kind())))
		return
	}
	if err := setScalar(v, text); err != nil {
		d.wrong(path, resolved(refs, err, exampleOf(v.Kind())))
	}
}

func (d *decoder) text(n *node, v reflect.Value, path string) {
	if _, ok := n.value.(string); !ok {
		d.wrong(path, fmt.Sprintf("is %s, not a text; write it in double quotes", n.called()))
		return
	}
	if text, _, ok := d.expand(n, path); ok {
		v.SetString(text)
	}
}

// resolved is the fix for a value that a parser refused. What a variable holds is
// not repeated.
func resolved(refs int, err error, example string) string {
	if refs > 0 {
		return "resolves to a value that does not fit; set the variable to " + example
	}
	return err.Error()
}

func exampleOf(k reflect.Kind) string {
	switch k {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number like 8"
	case reflect.Float64:
		return "a number like 0.5"
	default:
		return `a text like "abc"`
	}
}

func setScalar(v reflect.Value, text string) error {
	bad := errors.New("does not fit; write " + exampleOf(v.Kind()))
	switch v.Kind() {
	case reflect.Bool:
		if text != "true" && text != "false" {
			return bad
		}
		v.SetBool(text == "true")
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, v.Type().Bits())
		if err != nil {
			return bad
		}
		v.SetInt(n)
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return bad
		}
		v.SetFloat(f)
	default:
		return fmt.Errorf("cannot be set: the program has a field of kind %s here", v.Kind())
	}
	return nil
}

// quantity fills a duration, rate or time zone.
func (d *decoder) quantity(n *node, v reflect.Value, path string) {
	example := map[reflect.Type]string{
		durationType: "a duration like 1h30m", rateType: "a rate like 20/s", zoneType: "a time zone like Europe/Berlin",
	}[v.Type()]
	if n.kind != scalarKind {
		d.bad(path, fmt.Sprintf("is %s; write %s", n.called(), example))
		return
	}
	d.written[path] = n.text
	text, refs, ok := d.expand(n, path)
	if !ok {
		return
	}
	parsed, err := parseQuantity(v.Type(), text)
	if err != nil {
		d.wrong(path, resolved(refs, err, example))
		return
	}
	v.Set(reflect.ValueOf(parsed))
}

func parseQuantity(t reflect.Type, text string) (any, error) {
	switch t {
	case durationType:
		return ParseDuration(text)
	case rateType:
		return ParseRate(text)
	default:
		zone, err := loadZone(text)
		if err != nil {
			return nil, errors.New("is no known time zone; write a name like Europe/Berlin or UTC")
		}
		return zone, nil
	}
}
