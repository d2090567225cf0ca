package main

import (
	"bytes"
	"fmt"
	"testing"
)

func TestTextsReachATerminalWithoutWhatItWouldObey(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"plain":                  {"evt_1 of Müller, 東京", "evt_1 of Müller, 東京"},
		"an escape":              {"a\x1b[2Jb", "a\ufffd[2Jb"},
		"a C1 control":           {"a\u009bb", "a\ufffdb"},
		"a carriage return":      {"a\rb", "a\ufffdb"},
		"a turn of writing":      {"a\u202eb", "a\ufffdb"},
		"bytes that are no text": {"a\xffb", "a\ufffdb"},
		"lines":                  {"a\n\tb", "a\n\tb"},
	} {
		var out bytes.Buffer
		e := &edge{err: &out}
		if _, err := fmt.Fprint(e.stderr(), test.text); err != nil || out.String() != test.want {
			t.Errorf("%s: %q is written as %q (%v), want %q", name, test.text, out.String(), err, test.want)
		}
	}
	if got := oneLine("a\nb\tc"); got != "a b c" {
		t.Errorf("oneLine(%q) = %q, want %q", "a\nb\tc", got, "a b c")
	}
}
