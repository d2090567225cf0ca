package config

import "testing"

func TestSchedulesThatAreAccepted(t *testing.T) {
	for _, line := range []string{
		"15 3 * * *", "CRON_TZ=Europe/Rome 0 2 * * *", "TZ=UTC 0 2 * * *", "CRON_TZ=UTC @daily", "@hourly",
		"@every 6h", "@every 90m", "*/15 0-6,22-23 ? jan-mar MON", "0 3 29 2 *", "  0 3 * * *  ",
	} {
		if err := CheckSchedule(line); err != nil {
			t.Errorf("CheckSchedule(%q) = %v, want nil", line, err)
		}
	}
}

// The first three panic in robfig/cron v3.0.1.
func TestSchedulesThatAreRefusedWithoutAPanic(t *testing.T) {
	for _, line := range []string{
		"TZ=Europe/Rome", "CRON_TZ=UTC", "TZ=", "CRON_TZ=UTC\t0 2 * * *", "CRON_TZ=Mars/Base 0 2 * * *", "",
		"CRON_TZ= 0 2 * * *", "CRON_TZ=UTC ", "CRON_TZ=../../etc/passwd 0 2 * * *", "@every", "@every6h", "@every 0s",
		"0 24 * * *", "0 3 0 * *", "0 3 * 13 *", "0 3 * * 8", "5-1 * * * *", "*/0 * * * *", "0 3 30 feb *", "CRON_TZ=UTC TZ=UTC 0 2 * * *",
	} {
		if err := CheckSchedule(line); err == nil {
			t.Errorf("CheckSchedule(%q) = nil, want an error", line)
		}
	}
}

func TestOnlyTwoRestrictedDayFieldsAreWarnedAbout(t *testing.T) {
	for line, want := range map[string]bool{
		"0 3 1 * 1":                true,
		"0 3 1-7 * 1":              true,
		"CRON_TZ=UTC 0 3 */2 * 1":  true,
		"0 3 1 * *":                false,
		"0 3 * * 1":                false,
		"0 3 ? * 1":                false,
		"0 3 */1 * 1":              false,
		"@daily":                   false,
		"@every 6h":                false,
		"CRON_TZ=UTC 15 3 * * *":   false,
		"CRON_TZ=UTC 15 3 * * mon": false,
	} {
		if got := scheduleWarning(line) != ""; got != want {
			t.Errorf("warning about %q: %v, want %v", line, got, want)
		}
	}
}
