package providers

import (
	"strings"
	"testing"
	"time"
)

var noonish = time.Date(2026, 10, 21, 7, 27, 30, 0, time.UTC)

func TestRetryAfterReadsEveryForm(t *testing.T) {
	for _, c := range []struct {
		name    string
		header  string
		wait    time.Duration
		verdict RetryVerdict
	}{
		{"seconds", "120", 120 * time.Second, RetryAsked},
		{"seconds between blanks", " 120 ", 120 * time.Second, RetryAsked},
		{"zero asks for the minimum", "0", MinRetryAfter, RetryAsked},
		{"a day is the most", "86400", 24 * time.Hour, RetryAsked},
		{"a second more is too long", "86401", MaxRetryAfter, RetryTooLong},
		{"negative means nothing", "-5", 0, RetryUnasked},
		{"a sign means nothing", "+5", 0, RetryUnasked},
		{"seconds that overflow nanoseconds", "9223372037", MaxRetryAfter, RetryTooLong},
		{"seconds that overflow 64 bits", "99999999999999999999", MaxRetryAfter, RetryTooLong},
		{"a thousand digits", strings.Repeat("9", 1000), MaxRetryAfter, RetryTooLong},
		{"a fraction means nothing", "1.5", 0, RetryUnasked},
		{"date of RFC 1123", "Wed, 21 Oct 2026 07:28:00 GMT", 30 * time.Second, RetryAsked},
		{"date of RFC 850", "Wednesday, 21-Oct-26 07:28:00 GMT", 30 * time.Second, RetryAsked},
		{"date of asctime", "Wed Oct 21 07:28:00 2026", 30 * time.Second, RetryAsked},
		{"a past date asks for the minimum", "Wed, 21 Oct 2026 07:00:00 GMT", MinRetryAfter, RetryAsked},
		{"a date at the end of time", "Fri, 31 Dec 9999 23:59:59 GMT", MaxRetryAfter, RetryTooLong},
		{"a word means nothing", "soon", 0, RetryUnasked},
		{"no header", "", 0, RetryUnasked},
		{"blanks only", "  ", 0, RetryUnasked},
		{"two values in one", "5, 10", 0, RetryUnasked},
	} {
		t.Run(c.name, func(t *testing.T) {
			wait, verdict := RetryAfter(c.header, noonish)
			if wait != c.wait || verdict != c.verdict {
				t.Errorf("RetryAfter(%q) = %v, %s; want %v, %s", c.header, wait, verdict, c.wait, c.verdict)
			}
		})
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"120", "0", "-5", "9223372037", "Wed, 21 Oct 2026 07:28:00 GMT", "Wednesday, 21-Oct-26 07:28:00 GMT", "Wed Oct 21 07:28:00 2026", "soon"} {
		f.Add(s, int64(1792567650))
	}
	f.Fuzz(func(t *testing.T, header string, unix int64) {
		wait, verdict := RetryAfter(header, time.Unix(unix, 0))
		switch verdict {
		case RetryUnasked:
			if wait != 0 {
				t.Errorf("RetryAfter(%q) is unasked and waits %v", header, wait)
			}
		case RetryAsked, RetryTooLong:
			if wait < MinRetryAfter || wait > MaxRetryAfter {
				t.Errorf("RetryAfter(%q) = %v, outside [%v, %v]", header, wait, MinRetryAfter, MaxRetryAfter)
			}
		default:
			t.Errorf("RetryAfter(%q) has the unknown verdict %q", header, verdict)
		}
	})
}
