package providers

import (
	"net/http"
	"time"
)

// Skew is how far the provider's clock is ahead of ours (negative: behind), by
// the Date header of its newest answer; false before the first answer. The Date
// has a resolution of one second and the answer took its time, so a difference
// that both can explain is 0. It implements Clocked.
func (t *Transport) Skew() (time.Duration, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.skew, t.seen
}

// observe takes the clock from an answer to a request that left at sent and whose
// header was here at received.
func (t *Transport) observe(date string, sent, received time.Time) {
	at, err := http.ParseTime(date)
	if err != nil {
		return
	}
	const half = 500 * time.Millisecond // a Date stands for the second that it begins
	travel := max(0, received.Sub(sent))
	skew := at.Add(half).Sub(sent.Add(travel / 2))
	if skew.Abs() <= half+travel/2 {
		skew = 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.skew, t.seen = skew, true
}
