package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Replay says whether and how missing events are sent again.
type Replay struct {
	Mode            string        `yaml:"mode"`              // ModeReport (the default) or ModeAuto
	Via             string        `yaml:"via"`               // ViaPost
	Rate            Rate          `yaml:"rate"`              // sends a second
	Concurrency     int           `yaml:"concurrency"`       // sends under way at once, from 1 up
	MaxReplays      int           `yaml:"max_replays"`       // more than this in one run are held for a person
	MaxMissingRatio float64       `yaml:"max_missing_ratio"` // a larger share missing is held for a person; above 0, up to 1
	VerifyWithin    time.Duration `yaml:"verify_within"`     // how long the application has to record what it acknowledged
	VersionMismatch string        `yaml:"version_mismatch"`  // VersionHold (the default) or VersionSend
	Timeout         time.Duration `yaml:"timeout"`           // of one send
}

// When replays are sent: by command only, or by each run.
const (
	ModeReport = "report"
	ModeAuto   = "auto"
)

// ViaPost sends replays as signed requests to the application's webhook URL.
const ViaPost = "post"

// What is done with an event of another API version than its endpoint gets.
const (
	VersionHold = "hold"
	VersionSend = "send"
)

const (
	maxConcurrency = 256
	maxTimeout     = 5 * time.Minute
)

func (r *Replay) setDefaults() {
	*r = Replay{
		Mode: ModeReport, Via: ViaPost, Rate: 20, Concurrency: 8,
		MaxReplays: 5000, MaxMissingRatio: 0.5,
		VerifyWithin: 5 * time.Minute, VersionMismatch: VersionHold, Timeout: 30 * time.Second,
	}
}

func (r Replay) validate(d *decoder, path string) {
	d.oneOf(path+".mode", r.Mode, ModeReport, ModeAuto)
	d.oneOf(path+".via", r.Via, ViaPost)
	d.oneOf(path+".version_mismatch", r.VersionMismatch, VersionHold, VersionSend)
	validateConcurrency(d, path+".concurrency", r.Concurrency)
	d.inRange(path+".max_replays", r.MaxReplays >= 1, "write a whole number from 1 up; mode: report sends none")
	d.inRange(path+".max_missing_ratio", r.MaxMissingRatio > 0 && r.MaxMissingRatio <= 1, "write a number above 0 and up to 1, like 0.5; 0.01 holds at more than one in a hundred")
	d.inRange(path+".verify_within", r.VerifyWithin > 0, "write a duration above 0, like 5m")
	d.inRange(path+".timeout", r.Timeout > 0 && r.Timeout <= maxTimeout, "write a duration above 0 and up to 5m, like 30s")
}

func validateConcurrency(d *decoder, path string, n int) {
	d.inRange(path, n >= 1 && n <= maxConcurrency, fmt.Sprintf("write a whole number from 1 to %d", maxConcurrency))
}

// inRange reports a value outside its range.
func (d *decoder) inRange(path string, ok bool, fix string) {
	if !ok && d.fine(path) {
		d.wrong(path, "is out of range; "+fix)
	}
}

// aboveZero reports a duration that is written and 0: it would not be told from one
// that was left out.
func (d *decoder) aboveZero(path string, value time.Duration, fix string) {
	if d.has(path) && value == 0 && d.fine(path) {
		d.wrong(path, "is no time at all; "+fix)
	}
}

// oneOf reports a value that is none of the allowed ones.
func (d *decoder) oneOf(path, value string, allowed ...string) {
	if d.fine(path) && !slices.Contains(allowed, value) {
		d.wrong(path, "is not known; write "+strings.Join(allowed, " or "))
	}
}
