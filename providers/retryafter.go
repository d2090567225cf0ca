package providers

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The ends of what RetryAfter answers. A wait of zero would be a burst, and
// nobody plans work further ahead than a day.
const (
	MinRetryAfter = time.Second
	MaxRetryAfter = 24 * time.Hour
)

// RetryVerdict says what a Retry-After header was worth.
type RetryVerdict string

// The verdicts on a Retry-After header.
const (
	// RetryUnasked: no header, or one that means nothing. The wait is 0 and the
	// caller's own back-off applies.
	RetryUnasked RetryVerdict = "unasked"
	// RetryAsked: the wait is what was asked for, at least MinRetryAfter.
	RetryAsked RetryVerdict = "asked"
	// RetryTooLong: what was asked for lies beyond MaxRetryAfter, which is the
	// wait then.
	RetryTooLong RetryVerdict = "too long"
)

// RetryAfter reads a Retry-After header: whole seconds, or a date in one of the
// three forms of HTTP (RFC 9110, 5.6.7 and 10.2.3). now is the clock that a date
// is measured against, best the sender's own. The wait is never negative,
// never between 0 and MinRetryAfter, and never above MaxRetryAfter; nothing
// overflows. A date that is past asks for the minimum.
func RetryAfter(header string, now time.Time) (wait time.Duration, verdict RetryVerdict) {
	header = strings.TrimSpace(header)
	if header == "" {
		return 0, RetryUnasked
	}
	if allDigits(header) {
		return retrySeconds(header)
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0, RetryUnasked
	}
	return boundRetry(at.Sub(now)) // Sub saturates
}

// retrySeconds takes a text of digits only, however long.
func retrySeconds(digits string) (time.Duration, RetryVerdict) {
	seconds, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || seconds > int64(MaxRetryAfter/time.Second) {
		return MaxRetryAfter, RetryTooLong
	}
	return boundRetry(time.Duration(seconds) * time.Second)
}

func boundRetry(d time.Duration) (time.Duration, RetryVerdict) {
	if d > MaxRetryAfter {
		return MaxRetryAfter, RetryTooLong
	}
	return max(d, MinRetryAfter), RetryAsked
}

func allDigits(s string) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}
