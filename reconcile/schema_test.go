package reconcile_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/nightaudit/nightaudit/reconcile"
)

const schemaPath = "../docs/drift-report.schema.json"

var compiledSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	return c.Compile(schemaPath)
})

// valid fails the test if the document is not of the form that the schema
// describes, and gives it as JSON.
func valid(t testing.TB, d *reconcile.Document) []byte {
	t.Helper()
	schema, err := compiledSchema()
	if err != nil {
		t.Fatalf("compiling %s: %v", schemaPath, err)
	}
	var text bytes.Buffer
	if err := d.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text.Bytes()))
	if err != nil {
		t.Fatalf("the report is no JSON: %v\n%s", err, &text)
	}
	if err := schema.Validate(value); err != nil {
		t.Errorf("the report is not what %s describes: %v\n%s", schemaPath, err, &text)
	}
	return text.Bytes()
}

// schemaDocument is the schema as it is written.
func schemaDocument(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile(schemaPath)
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatalf("%s: %v", schemaPath, err)
	}
	return schema
}

// within follows a path of keys into the schema.
func within(t *testing.T, schema map[string]any, path ...string) any {
	t.Helper()
	var value any = schema
	for _, key := range path {
		inner, ok := value.(map[string]any)
		if !ok || inner[key] == nil {
			t.Fatalf("%s has no %s", schemaPath, strings.Join(path, "."))
		}
		value = inner[key]
	}
	return value
}

// enumOf collects the values of all enumerations below a part of the schema.
func enumOf(part any) []string {
	var values []string
	switch part := part.(type) {
	case map[string]any:
		for key, inner := range part {
			if key != "enum" {
				values = append(values, enumOf(inner)...)
				continue
			}
			for _, v := range inner.([]any) {
				values = append(values, v.(string))
			}
		}
	case []any:
		for _, inner := range part {
			values = append(values, enumOf(inner)...)
		}
	}
	slices.Sort(values)
	return values
}

// declared gives the constants of a string type that a folder's files declare.
func declared(t *testing.T, folder, typeName string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no Go files in %s: %v", folder, err)
	}
	var values []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if name, ok := spec.Type.(*ast.Ident); ok && name.Name == typeName {
				for _, v := range spec.Values {
					if literal, ok := v.(*ast.BasicLit); ok {
						value, _ := strconv.Unquote(literal.Value)
						values = append(values, value)
					}
				}
			}
			return true
		})
	}
	slices.Sort(values)
	return values
}

func TestTheSchemaHasEveryValueThatGoDeclares(t *testing.T) {
	schema := schemaDocument(t)
	finding, replay, attempt := []string{"$defs", "finding", "properties"}, []string{"$defs", "replay", "properties"}, []string{"$defs", "attempt", "properties"}
	for _, c := range []struct {
		folder, typeName string
		path             []string
		beside           []string // values of the schema that are no constants
		never            []string // constants that no report has
	}{
		{"../store", "Kind", append(finding, "kind"), nil, nil},
		{"../store", "Cause", append(finding, "cause"), nil, nil},
		{"../store", "Scope", append(finding, "scope"), nil, nil},
		{"../store", "Resolution", append(finding, "resolution"), []string{""}, nil},
		{"../store", "ReplayState", append(replay, "state"), nil, nil},
		{"../store", "ReplayState", []string{"$defs", "stream", "properties", "work", "propertyNames"}, []string{"none", "unreplayable"}, nil},
		{"../store", "Hold", append(replay, "hold"), []string{""}, nil},
		{"../providers", "Class", append(replay, "class"), nil, nil},
		{"replay", "Outcome", append(attempt, "outcome"), []string{""}, nil},
		{"replay", "Phase", append(attempt, "phase"), []string{""}, nil},
		{"../store", "Outcome", []string{"$defs", "outcome"}, nil, []string{"running", "crashed"}},
		{".", "reason", []string{"$defs", "stream", "properties", "ignored_types"}, nil, []string{"named in the config", "subscribed"}},
	} {
		t.Run(c.typeName+" at "+strings.Join(c.path, "."), func(t *testing.T) {
			want := slices.DeleteFunc(append(declared(t, c.folder, c.typeName), c.beside...), func(v string) bool { return slices.Contains(c.never, v) })
			slices.Sort(want)
			if got := enumOf(within(t, schema, c.path...)); !slices.Equal(got, want) {
				t.Errorf("enum: got %q, want %q", got, want)
			}
		})
	}
	for _, class := range declared(t, "../store", "Class") {
		within(t, schema, "$defs", "stream", "properties", class)
	}
}

// shapes are the structs of a document, and the part of the schema of each.
var shapes = map[string][]string{
	"Document": {}, "SkippedSource": {"properties", "skipped", "items"}, "Report": {"$defs", "report"},
	"RunReport": {"$defs", "run"}, "Coverage": {"$defs", "coverage"},
	"RequestCount": {"$defs", "coverage", "properties", "requests", "items"},
	"WindowReport": {"$defs", "window"}, "WatermarkReport": {"$defs", "watermark"}, "StreamReport": {"$defs", "stream"},
	"IgnoredReport": {"$defs", "stream", "properties", "ignored_types", "items"},
	"FindingReport": {"$defs", "finding"}, "EventReport": {"$defs", "event"}, "ReplayOfEvent": {"$defs", "replay"},
	"AttemptReport": {"$defs", "attempt"}, "GateReport": {"$defs", "gate"}, "ReplayReport": {"$defs", "replays"},
	"EndpointShown": {"$defs", "endpoint"},
}

func TestTheSchemaHasEveryMemberAndNoOther(t *testing.T) {
	schema := schemaDocument(t)
	walkStructs(reflect.TypeFor[reconcile.Document](), func(s reflect.Type) {
		if s.Name() == "Alert" {
			return // the list of them is empty
		}
		path, known := shapes[s.Name()]
		if !known {
			t.Errorf("%s: this test does not know where the schema describes it", s.Name())
			return
		}
		want := members(s)
		required := []string{}
		for _, name := range within(t, schema, append(path, "required")...).([]any) {
			required = append(required, name.(string))
		}
		slices.Sort(required)
		described := []string{}
		for name, part := range within(t, schema, append(path, "properties")...).(map[string]any) {
			described = append(described, name)
			if text, _ := part.(map[string]any)["description"].(string); text == "" && part.(map[string]any)["$ref"] == nil {
				t.Errorf("%s.%s has no description", s.Name(), name)
			}
		}
		slices.Sort(described)
		if !slices.Equal(described, want) || !slices.Equal(required, want) {
			t.Errorf("%s: properties %q, required %q, want both %q", s.Name(), described, required, want)
		}
		if within(t, schema, append(path, "additionalProperties")...) != false {
			t.Errorf("%s allows other members", s.Name())
		}
	})
}

// walkStructs calls f with each struct that a type is made of, embedded ones and
// times aside.
func walkStructs(s reflect.Type, f func(reflect.Type)) {
	seen := make(map[reflect.Type]bool)
	var walk func(reflect.Type)
	walk = func(s reflect.Type) {
		switch s.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(s.Elem())
		case reflect.Struct:
			if seen[s] || s.PkgPath() == "time" {
				return
			}
			seen[s] = true
			f(s)
			for i := range s.NumField() {
				if field := s.Field(i); field.IsExported() && !field.Anonymous {
					walk(field.Type)
				}
			}
		}
	}
	walk(s)
}

// members are the names that a struct has in JSON.
func members(s reflect.Type) []string {
	names := []string{}
	for i := range s.NumField() {
		field := s.Field(i)
		switch name, _, _ := strings.Cut(field.Tag.Get("json"), ","); {
		case field.Anonymous:
			names = append(names, members(field.Type)...)
		case name != "":
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
