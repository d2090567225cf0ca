package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/store/appdb"
)

// places knows where in the file each key is written.
type places struct {
	file    string
	lines   map[string]int    // by path: the line of the key
	written map[string]string // by path: a scalar as the file has it, with its references
	empty   map[string]bool   // by path: the key has no value, as if it were not there
}

func newPlaces(file string) *places {
	return &places{file: file, lines: map[string]int{}, written: map[string]string{}, empty: map[string]bool{}}
}

// has reports whether the file says something at path.
func (p *places) has(path string) bool {
	_, ok := p.lines[path]
	return ok && !p.empty[path]
}

// line is where path is written, or where its nearest parent is.
func (p *places) line(path string) int {
	for path != "" {
		if n, ok := p.lines[path]; ok {
			return n
		}
		path = parent(path)
	}
	return 1
}

// parent is the path that holds path; "" at the top.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

func (p *places) problem(path, value, fix string) Problem {
	return Problem{File: p.file, Line: p.line(path), Path: path, Value: value, Fix: fix}
}

// locate is err, which belongs to the source at path, as a problem of the file.
func (p *places) locate(path string, err error) Problem {
	var setting *providers.SettingError
	var field *appdb.FieldError
	switch {
	case errors.As(err, &setting):
		return p.located(path+"."+setting.Key, setting.Value, setting.Fix)
	case errors.As(err, &field):
		return p.located(path+".ledger."+field.Key, field.Value, field.Fix)
	default:
		return p.problem(path, "", err.Error())
	}
}

// located shows what the file has, never what a reference in it resolved to.
func (p *places) located(path, value, fix string) Problem {
	if written, ok := p.written[path]; ok && value != "" {
		value = written
	} else if p.refers(path) {
		value = ""
	}
	return p.problem(path, shown(value), fix)
}

// refers reports whether a value at path or below it refers to a variable.
func (p *places) refers(path string) bool {
	for at, written := range p.written {
		if within(at, path) && strings.Contains(written, "${") {
			return true
		}
	}
	return false
}

// within reports whether path is outer or below it.
func within(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Locate gives err, which an adapter or the ledger's package found in the options
// of Sources[source], its place in the file: a *providers.SettingError or an
// *appdb.FieldError that of its key, any other error that of the source. An error
// that joins several is located by its first one; see Flatten.
func (c *Config) Locate(source int, err error) Problem {
	found := []Problem{c.places.locate(sourcePath(source), err)}
	hideSecrets(found, c.Secrets())
	return found[0]
}

func sourcePath(i int) string { return fmt.Sprintf("sources[%d]", i) }

// Flatten is the errors that err joins (errors.Join), or err alone; nil has none.
func Flatten(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, Flatten(e)...)
	}
	return all
}
