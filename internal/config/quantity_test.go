package config

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDurationsAreRead(t *testing.T) {
	for written, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "45s": 45 * time.Second, "1h30m": 90 * time.Minute, "90d": 90 * day,
		"1w2d12h": 9*day + 12*time.Hour, "1.5h": 90 * time.Minute, "106751d": 106751 * day,
	} {
		if got, err := ParseDuration(written); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v; want %v", written, got, err, want)
		}
	}
}

func TestWhatIsNoDurationIsRefused(t *testing.T) {
	for written, want := range map[string]string{
		"10":                    "has no unit; write 10m",
		"-3":                    "has no unit; write 3m",
		"-1h":                   "is negative; write a duration from 0 up",
		"1h-30m":                "is not a duration; write one like 90d, 12h, 1h30m or 45s",
		"1d-30m":                "is not a duration; write one like 90d, 12h, 1h30m or 45s",
		"":                      "is not a duration; write one like 90d, 12h, 1h30m or 45s",
		"1.5d":                  "is not a duration; write one like 90d, 12h, 1h30m or 45s",
		"3 days":                "is not a duration; write one like 90d, 12h, 1h30m or 45s",
		"106752d":               "is too long; write a duration under 290 years",
		"106751d24h":            "is too long; write a duration under 290 years",
		"99999999999999999999d": "is too long; write a duration under 290 years",
	} {
		if got, err := ParseDuration(written); err == nil || err.Error() != want {
			t.Errorf("ParseDuration(%q) = %v, %v; want the error %q", written, got, err, want)
		}
	}
}

func TestEveryGoDurationFromZeroUpReadsAsItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := time.Duration(rapid.Int64Min(0).Draw(t, "nanoseconds"))
		if got, err := ParseDuration(want.String()); err != nil || got != want {
			t.Fatalf("ParseDuration(%q) = %v, %v", want, got, err)
		}
	})
}

func TestRatesAreRead(t *testing.T) {
	for written, want := range map[string]Rate{
		"20/s": 20, "600/m": 10, "5000/h": 5000.0 / 3600, "0.5/s": 0.5, "20 / s": 20, "60/min": 1, "1/second": 1,
	} {
		if got, err := ParseRate(written); err != nil || got != want {
			t.Errorf("ParseRate(%q) = %v, %v; want %v", written, got, err, want)
		}
	}
}

func TestWhatIsNoRateIsRefused(t *testing.T) {
	for written, want := range map[string]string{
		"20":      "has no unit; write 20/s",
		"":        "is not a rate; write one like 20/s, 600/m or 5000/h",
		"-1/s":    "is not a rate; write one like 20/s, 600/m or 5000/h",
		"NaN/s":   "is not a rate; write one like 20/s, 600/m or 5000/h",
		"5/d":     "has an unknown unit; write the rate per s, m or h, like 20/s",
		"0/s":     "is a rate of 0; write one above it, like 20/s",
		"10001/s": "is too fast; write at most 10000/s",
	} {
		if got, err := ParseRate(written); err == nil || err.Error() != want {
			t.Errorf("ParseRate(%q) = %v, %v; want the error %q", written, got, err, want)
		}
	}
}
