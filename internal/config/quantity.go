package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A Rate is how many times a second; 0 is "not set". It is written with its
// unit: "20/s", "600/m", "5000/h".
type Rate float64

// maxRate bounds a rate; no API and no application is asked faster.
const maxRate = 10_000

const (
	day  = 24 * time.Hour
	week = 7 * day
)

var (
	bareNumber = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)
	longUnit   = regexp.MustCompile(`^([0-9]+)([dw])`)
	rateForm   = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)\s*/\s*([a-z]+)$`)
)

// ParseDuration reads a duration that is not negative: Go's ("1h30m") with days
// and weeks before it ("90d", "1w2d12h"). A day is 24 hours. The error says what
// is wrong and what to write, without repeating s.
func ParseDuration(s string) (time.Duration, error) {
	if s == "0" {
		return 0, nil
	}
	if bareNumber.MatchString(s) {
		return 0, fmt.Errorf("has no unit; write %sm", strings.TrimPrefix(s, "-"))
	}
	if strings.HasPrefix(s, "-") {
		return 0, errors.New("is negative; write a duration from 0 up")
	}
	whole, rest, err := longUnits(s)
	if err != nil || rest == "" && s != "" {
		return whole, err
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 {
		return 0, errors.New("is not a duration; write one like 90d, 12h, 1h30m or 45s")
	}
	if whole > math.MaxInt64-d {
		return 0, errTooLong
	}
	return whole + d, nil
}

var errTooLong = errors.New("is too long; write a duration under 290 years")

// longUnits takes the weeks and days off the front of s.
func longUnits(s string) (whole time.Duration, rest string, err error) {
	for {
		m := longUnit.FindStringSubmatch(s)
		if m == nil {
			return whole, s, nil
		}
		unit := day
		if m[2] == "w" {
			unit = week
		}
		n, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil || n > int64((math.MaxInt64-whole)/unit) {
			return 0, "", errTooLong
		}
		whole += time.Duration(n) * unit
		s = s[len(m[0]):]
	}
}

// ParseRate reads a rate above 0, such as "20/s", "600/m" or "5000/h". The error
// says what is wrong and what to write, without repeating s.
func ParseRate(s string) (Rate, error) {
	if bareNumber.MatchString(s) {
		return 0, fmt.Errorf("has no unit; write %s/s", strings.TrimPrefix(s, "-"))
	}
	m := rateForm.FindStringSubmatch(s)
	if m == nil {
		return 0, errors.New("is not a rate; write one like 20/s, 600/m or 5000/h")
	}
	seconds, ok := map[string]float64{"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600}[m[2]]
	if !ok {
		return 0, errors.New("has an unknown unit; write the rate per s, m or h, like 20/s")
	}
	n, err := strconv.ParseFloat(m[1], 64)
	switch rate := n / seconds; {
	case err != nil || rate > maxRate:
		return 0, fmt.Errorf("is too fast; write at most %d/s", maxRate)
	case rate <= 0:
		return 0, errors.New("is a rate of 0; write one above it, like 20/s")
	default:
		return Rate(rate), nil
	}
}
