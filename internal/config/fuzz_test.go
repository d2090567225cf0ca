package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nightaudit/nightaudit/providers"
)

// Whatever the file holds, loading it ends soon with a config or with problems
// that each say what to do, and shows nothing of what a variable holds.
func FuzzLoad(f *testing.F) {
	files, err := filepath.Glob("testdata/mistakes/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, exampleFile) {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	const marker = "S3CR3T"
	env := func(name string) (string, bool) { return marker + "-na-" + marker, name != "NOT_SET" }
	f.Fuzz(func(t *testing.T, data []byte) {
		start := time.Now()
		c, err := parse("config.yaml", data, env, []providers.Adapter{adapter})
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("took %s", took)
		}
		if err == nil {
			if c == nil || len(c.Sources) == 0 {
				t.Errorf("got the config %v and no error", c)
			}
			return
		}
		var all *Error
		if c != nil || !errors.As(err, &all) || len(all.Problems) == 0 {
			t.Fatalf("got %v, %v; want no config and an *Error", c, err)
		}
		for _, p := range all.Problems {
			if p.File == "" || p.Fix == "" || p.Line < 0 {
				t.Errorf("problem %+v lacks file or fix", p)
			}
		}
		if !strings.Contains(string(data), marker) && strings.Contains(err.Error(), marker) {
			t.Errorf("the error shows what a variable holds:\n%v", err)
		}
	})
}
