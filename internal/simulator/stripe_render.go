package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/stripe/stripe-mock/embedded"
)

// layout is one way to print an event: without white space, alone, or as an
// element of a list.
type layout int

const (
	compact layout = iota
	alone
	listed
	layouts // how many there are
)

// indent is where the event's opening brace stands.
func (l layout) indent() int {
	if l == listed {
		return 4
	}
	return 0
}

// field is one field of an object with its JSON.
type field struct {
	name string
	raw  []byte
}

// template is Stripe's fixture of one kind of object, printed for each layout,
// "id" and "object" first as Stripe has them.
type template struct {
	known  bool
	object string // what the field "object" says
	prefix string // of ids: "in_"
	fields []printedField
}

type printedField struct {
	name string
	raw  [layouts][]byte
}

// fixtures are Stripe's official fixtures by kind, as stripe-mock carries them.
var fixtures = sync.OnceValue(func() map[string]template {
	var all struct {
		Resources map[string]map[string]json.RawMessage `json:"resources"`
	}
	if err := json.Unmarshal(embedded.OpenAPIFixtures, &all); err != nil {
		panic(fmt.Sprintf("simulator: Stripe's fixtures cannot be read: %v", err))
	}
	templates := make(map[string]template, len(all.Resources))
	for kind, object := range all.Resources {
		templates[kind] = newTemplate(kind, object)
	}
	return templates
})

// templateOf is the fixture of a kind, or a bare object for a kind without one.
func templateOf(kind string) template {
	if t, known := fixtures()[kind]; known {
		return t
	}
	return template{object: kind, prefix: strings.ReplaceAll(kind, ".", "_") + "_", fields: []printedField{
		printed("id", []byte(`""`)), printed("object", rawJSON(kind)),
		printed("created", []byte(`0`)), printed("livemode", []byte(`false`)),
	}}
}

func newTemplate(kind string, object map[string]json.RawMessage) template {
	t := template{known: true, object: text(object["object"]), prefix: kind + "_"}
	if before, _, found := cutLast(text(object["id"]), "_"); found {
		t.prefix = before + "_"
	}
	for _, name := range slices.SortedFunc(maps.Keys(object), idFirst) {
		t.fields = append(t.fields, printed(name, object[name]))
	}
	return t
}

// idFirst orders the fields of an object as Stripe prints them.
func idFirst(a, b string) int {
	rank := func(name string) string {
		switch name {
		case "id":
			return "\x00"
		case "object":
			return "\x01"
		}
		return name
	}
	return strings.Compare(rank(a), rank(b))
}

// printed prints a field of data.object for each layout.
func printed(name string, raw []byte) printedField {
	f := printedField{name: name}
	for l := range layouts {
		w := jsonWriter{pretty: l != compact, indent: l.indent() + 6}
		w.reindented(raw)
		f.raw[l] = w.b
	}
	return f
}

// fieldsOf turns a map into fields in the order of their names.
func fieldsOf(set map[string]any) []field {
	var fields []field
	for _, name := range slices.Sorted(maps.Keys(set)) {
		fields = append(fields, field{name, rawJSON(set[name])})
	}
	return fields
}

// rawJSON is v as JSON without HTML escapes; a json.RawMessage is kept verbatim.
func rawJSON(v any) []byte {
	if raw, verbatim := v.(json.RawMessage); verbatim {
		if !json.Valid(raw) {
			panic("simulator: not JSON: " + string(raw))
		}
		return bytes.Clone(raw)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("simulator: value cannot be JSON: %v", err))
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// rendering is everything that an event's bytes depend on.
type rendering struct {
	*record
	layout  layout
	pending int
	account string // for the field "account"; "" leaves it out
	version string // "" is the event's own
}

// appendTo prints the event. The same rendering gives the same bytes each time.
func (r rendering) appendTo(b []byte) []byte {
	c := r.content()
	if c.raw != nil {
		return append(b, c.raw...)
	}
	if r.version != "" {
		c.version = r.version
	}
	w := jsonWriter{b: b, pretty: r.layout != compact, indent: r.layout.indent()}
	w.open()
	w.text("id", r.id)
	w.text("object", "event")
	if r.account != "" {
		w.text("account", r.account)
	}
	w.text("api_version", c.version)
	w.integer("created", r.created)
	w.key("data")
	r.data(&w, c)
	w.boolean("livemode", r.livemode)
	w.integer("pending_webhooks", int64(r.pending))
	w.key("request")
	w.open()
	w.optional("id", c.request)
	w.optional("idempotency_key", "")
	w.close()
	w.text("type", r.typ)
	w.close()
	return w.b
}

func (r rendering) data(w *jsonWriter, c madeContent) {
	w.open()
	w.key("object")
	r.object(w, c)
	if c.previous != nil {
		w.key("previous_attributes")
		w.reindented(c.previous)
	}
	w.close()
}

// object prints data.object: the fixture's fields, replaced where the event says
// otherwise, then those that the fixture lacks.
func (r rendering) object(w *jsonWriter, c madeContent) {
	t := templateOf(c.kind)
	set := slices.Clone(c.set)
	w.open()
	for _, f := range t.fields {
		i := slices.IndexFunc(set, func(s field) bool { return s.name == f.name })
		switch {
		case i >= 0:
			w.key(f.name)
			w.reindented(set[i].raw)
			set = slices.Delete(set, i, i+1)
		case f.name == "id" && c.objectID == "": // an upcoming invoice has no id
		case f.name == "id":
			w.text("id", c.objectID)
		case f.name == "created":
			w.integer("created", r.created)
		case f.name == "livemode":
			w.boolean("livemode", r.livemode)
		default:
			w.key(f.name)
			w.b = append(w.b, f.raw[r.layout]...)
		}
	}
	for _, f := range set {
		w.key(f.name)
		w.reindented(f.raw)
	}
	w.close()
}

// jsonWriter prints JSON as Stripe does, or without white space.
type jsonWriter struct {
	b      []byte
	pretty bool
	indent int  // of the object that is open
	comma  bool // a field of it was printed
}

const spaces = "                                "

func (w *jsonWriter) open() {
	w.b = append(w.b, '{')
	w.indent += 2
	w.comma = false
}

func (w *jsonWriter) close() {
	w.indent -= 2
	if w.pretty && w.comma {
		w.b = append(append(w.b, '\n'), spaces[:w.indent]...)
	}
	w.b = append(w.b, '}')
	w.comma = true
}

func (w *jsonWriter) key(name string) {
	if w.comma {
		w.b = append(w.b, ',')
	}
	if w.pretty {
		w.b = append(append(w.b, '\n'), spaces[:w.indent]...)
	}
	w.b = appendText(w.b, name)
	w.b = append(w.b, ':')
	if w.pretty {
		w.b = append(w.b, ' ')
	}
	w.comma = true
}

func (w *jsonWriter) text(name, value string) {
	w.key(name)
	w.b = appendText(w.b, value)
}

// optional prints null for "".
func (w *jsonWriter) optional(name, value string) {
	if value != "" {
		w.text(name, value)
		return
	}
	w.key(name)
	w.b = append(w.b, "null"...)
}

func (w *jsonWriter) integer(name string, value int64) {
	w.key(name)
	w.b = strconv.AppendInt(w.b, value, 10)
}

func (w *jsonWriter) boolean(name string, value bool) {
	w.key(name)
	w.b = strconv.AppendBool(w.b, value)
}

// reindented prints valid JSON as a value of the open object.
func (w *jsonWriter) reindented(raw []byte) {
	if len(raw) > 0 && raw[0] != '{' && raw[0] != '[' {
		w.b = append(w.b, raw...)
		return
	}
	var b bytes.Buffer
	if w.pretty {
		_ = json.Indent(&b, raw, spaces[:w.indent], "  ") // raw was checked when it came in
	} else {
		_ = json.Compact(&b, raw)
	}
	w.b = append(w.b, b.Bytes()...)
}

// appendText prints a JSON string, plain ASCII without a detour.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			return append(b, rawJSON(s)...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
