package config

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
)

const exampleFile = "../../config.example.yaml"

func TestTheExampleIsValidAndShowsTheDefaults(t *testing.T) {
	c, err := Load(exampleFile, lookup, adapter)
	if err != nil {
		t.Fatalf("the example has mistakes:\n%v", err)
	}
	var want Replay
	want.setDefaults()
	if got := c.Sources[0].Replay; got != want {
		t.Errorf("replay in the example: got %+v, want the defaults %+v", got, want)
	}
	if w := c.Warnings(); len(w) > 0 {
		t.Errorf("the example warns: %v", w)
	}
}

func TestTheExampleExplainsEveryKey(t *testing.T) {
	c, err := Load(exampleFile, lookup, adapter)
	if err != nil {
		t.Fatal(err)
	}
	index := regexp.MustCompile(`\[[0-9]+\]`)
	shown := map[string]bool{}
	for path := range c.places.lines {
		shown[index.ReplaceAllString(path, "[]")] = true
		if name, ok := strings.CutPrefix(path, "databases."); ok {
			_, rest, _ := strings.Cut(name, ".")
			shown["databases.*."+rest] = true
		}
	}
	for _, path := range keyPaths(reflect.TypeFor[Config](), "") {
		if !shown[path] {
			t.Errorf("%s does not show the key %s", exampleFile, path)
		}
	}
}

// keyPaths lists every key that the struct and those below it can have.
func keyPaths(t reflect.Type, path string) []string {
	if t == secretType || t == zoneType || t == rawType {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return keyPaths(t.Elem(), path)
	case reflect.Slice:
		return keyPaths(t.Elem(), path+"[]")
	case reflect.Map:
		return keyPaths(t.Elem(), path+".*")
	case reflect.Struct:
		var all []string
		for key, index := range fieldsOf(t) {
			below := join(path, key)
			if path != "" {
				below = path + "." + key
			}
			all = append(append(all, below), keyPaths(t.FieldByIndex(index).Type, below)...)
		}
		return all
	default:
		return nil
	}
}
