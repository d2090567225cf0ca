package providers

import (
	"maps"
	"time"
)

// Stats counts what went over a Transport since it was made.
type Stats struct {
	Requests int64         `json:"requests"`  // tries that left, answered or not
	Retries  int64         `json:"retries"`   // tries after the first of a request
	Waited   time.Duration `json:"waited_ns"` // in back-off and on the provider's wish, over all requests
	ByStatus map[int]int64 `json:"by_status"` // tries by HTTP status; 0 is no answer; never nil
}

func (s *Stats) tally(status int) {
	s.Requests++
	if s.ByStatus == nil {
		s.ByStatus = map[int]int64{}
	}
	s.ByStatus[status]++
}

// Stats returns the counts so far.
func (t *Transport) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats
	s.ByStatus = map[int]int64{}
	maps.Copy(s.ByStatus, t.stats.ByStatus)
	return s
}

func (t *Transport) count(add func(*Stats)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	add(&t.stats)
}
