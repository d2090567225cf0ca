package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the expected messages anew")

// Each file under testdata/mistakes has the mistake that it is named after, and
// beside it the message that an operator reads.
func TestEachMistakeIsExplained(t *testing.T) {
	files, err := filepath.Glob("testdata/mistakes/*.yaml")
	if err != nil || len(files) < 40 {
		t.Fatalf("found %d files of mistakes (%v), want the whole folder", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			c, err := Load(file, lookup, adapter)
			var all *Error
			if c != nil || !errors.As(err, &all) {
				t.Fatalf("Load(%s) = %v, %v; want an *Error and no config", file, c, err)
			}
			got := strings.ReplaceAll(err.Error(), filepath.ToSlash(filepath.Dir(file))+"/", "") + "\n"
			refuseSecrets(t, got)
			compare(t, strings.TrimSuffix(file, ".yaml")+".txt", got)
		})
	}
}

// compare compares got with a golden file, or writes it with -update.
func compare(t *testing.T, golden, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatalf("%v; run the test with -update and read what it writes", err)
	}
	if got != string(want) {
		t.Errorf("%s\ngot:\n%s\nwant:\n%s", golden, got, want)
	}
}

func TestAConfigThatCannotBeReadIsNamed(t *testing.T) {
	for name, test := range map[string]struct{ path, want string }{
		"no such file": {"testdata/nowhere.yaml", "testdata/nowhere.yaml: does not exist; create the file or correct the path"},
		"a folder":     {"testdata", "testdata: cannot be read (is a directory); correct the path"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Load(test.path, lookup); err == nil || err.Error() != test.want {
				t.Errorf("Load(%s)\ngot  %v\nwant %s", test.path, err, test.want)
			}
		})
	}
}

func TestAHugeFileIsRefusedWithoutBeingParsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(strings.Repeat("# filler\n", maxBytes/8)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path, lookup); err == nil || !strings.Contains(err.Error(), "is larger than 256 KiB") {
		t.Errorf("Load of a file over %d bytes: got %v, want it refused as too large", maxBytes, err)
	}
}
