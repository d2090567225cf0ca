package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nightaudit/nightaudit/store"
)

func TestFindingsTakesEveryKindThatAReportHas(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "drift-report.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Defs struct {
			Finding struct {
				Properties struct {
					Kind struct {
						OneOf []struct {
							Enum []store.Kind `json:"enum"`
						} `json:"oneOf"`
					} `json:"kind"`
				} `json:"properties"`
			} `json:"finding"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	got, want := store.Kinds(), []store.Kind{}
	for _, one := range schema.Defs.Finding.Properties.Kind.OneOf {
		want = append(want, one.Enum...)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("kinds: got %q, want those of the schema: %q", got, want)
	}
}
