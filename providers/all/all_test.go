package all

import (
	"testing"

	"github.com/nightaudit/nightaudit/providers"
)

func TestAdaptersHaveKindsOfTheirOwnAndCheckTheirSettings(t *testing.T) {
	last := ""
	for _, a := range Adapters() {
		if a.Kind <= last {
			t.Errorf("%q comes after %q; want the kinds in order, each once", a.Kind, last)
		}
		last = a.Kind
		if _, err := a.Open(providers.Settings{}); err == nil {
			t.Errorf("%s opens a source without credentials", a.Kind)
		}
	}
}
