package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// scheduleExample closes every message about a schedule.
const scheduleExample = `write five fields like "15 3 * * *", with a zone "CRON_TZ=Europe/Berlin 15 3 * * *", or "@every 6h"`

// minEvery is the shortest period of @every, that of a cron line.
const minEvery = time.Minute

// cronField is what one of the five fields may be: robfig/cron would also take
// "," for never and "*-5" for "*".
var cronField = regexp.MustCompile(`^(\*|\?|[0-9A-Za-z]+(-[0-9A-Za-z]+)?)(/[0-9]+)?(,(\*|\?|[0-9A-Za-z]+(-[0-9A-Za-z]+)?)(/[0-9]+)?)*$`)

// CheckSchedule reports what is wrong with a schedule: a cron line of five
// fields, a descriptor ("@daily") or "@every 6h", behind an optional
// "CRON_TZ=Zone ". It never panics. The error says what to write, without
// repeating the line.
func CheckSchedule(line string) error {
	zone, rest, err := splitZone(line)
	if err != nil {
		return err
	}
	if every, ok := strings.CutPrefix(rest, "@every"); ok {
		return checkEvery(every)
	}
	if !strings.HasPrefix(rest, "@") {
		if err := checkFields(rest); err != nil {
			return err
		}
	}
	parsed, err := parseCron("CRON_TZ=" + zone + " " + rest)
	if err != nil {
		return fmt.Errorf("is not a schedule (%s); %s", shown(err.Error()), scheduleExample)
	}
	if parsed.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return errors.New("never comes: no such date; correct the day and month fields")
	}
	return nil
}

// splitZone takes the zone off the front of a line; without one it is UTC. It
// refuses what robfig/cron v3.0.1 panics on: a zone with no space behind it.
func splitZone(line string) (zone, rest string, err error) {
	if strings.TrimSpace(line) == "" {
		return "", "", errors.New("is blank; " + scheduleExample + ", or leave the key out to start runs only by hand")
	}
	after, ok := strings.CutPrefix(line, "CRON_TZ=")
	if !ok {
		after, ok = strings.CutPrefix(line, "TZ=")
	}
	if !ok {
		return "UTC", strings.TrimSpace(line), nil
	}
	zone, rest, ok = strings.Cut(after, " ")
	switch {
	case !ok || strings.ContainsAny(zone, "\t\r\n"):
		return "", "", errors.New("has a zone without a space and a schedule behind it; " + scheduleExample)
	case zone == "":
		return "", "", errors.New("names no zone behind the = sign; " + scheduleExample)
	}
	if _, err := loadZone(zone); err != nil {
		return "", "", fmt.Errorf("has the zone %q, which is not known; write a name like Europe/Berlin or UTC", shown(zone))
	}
	return zone, strings.TrimSpace(rest), nil
}

// loadZone finds a zone by its IANA name. "Local" depends on the machine and is
// refused.
func loadZone(name string) (*time.Location, error) {
	if name == "" || name == "Local" {
		return nil, errors.New("not a zone")
	}
	return time.LoadLocation(name)
}

func checkEvery(period string) error {
	d, err := time.ParseDuration(strings.TrimSpace(period))
	switch {
	case err != nil || !strings.HasPrefix(period, " "):
		return errors.New("has no period that can be read; write it in hours or minutes, like @every 6h")
	case d < minEvery:
		return errors.New("comes too often; write a period of a minute or more, like @every 6h")
	default:
		return nil
	}
}

func checkFields(line string) error {
	fields := strings.Fields(line)
	if len(fields) != 5 {
		return fmt.Errorf("has %d fields, want 5 (minute, hour, day of month, month, day of week); %s", len(fields), scheduleExample)
	}
	names := []string{"minute", "hour", "day of month", "month", "day of week"}
	for i, f := range fields {
		if !cronField.MatchString(f) {
			return fmt.Errorf("has a %s that cannot be read; %s", names[i], scheduleExample)
		}
	}
	return nil
}

// parseCron is cron.ParseStandard with its panics turned into errors.
func parseCron(line string) (s cron.Schedule, err error) {
	defer func() {
		if r := recover(); r != nil {
			s, err = nil, errors.New("the parser gave up")
		}
	}()
	return cron.ParseStandard(line)
}

// scheduleWarning says what surprises about a valid schedule; "" if nothing does.
// cron joins the two day fields by OR as soon as both are restricted
// (crontab(5), "The day of a command's execution can be specified by two fields").
func scheduleWarning(line string) string {
	_, rest, err := splitZone(line)
	fields := strings.Fields(rest)
	if err != nil || len(fields) != 5 || openDay(fields[2]) || openDay(fields[4]) {
		return ""
	}
	return "runs on days that match the day of month OR the day of week, not both; write * in one of the two fields unless that is meant"
}

// openDay reports whether a day field leaves every day open, by robfig/cron's
// reading: a star or question mark without a step above 1.
func openDay(field string) bool {
	for part := range strings.SplitSeq(field, ",") {
		if part == "*" || part == "?" || part == "*/1" || part == "?/1" {
			return true
		}
	}
	return false
}
