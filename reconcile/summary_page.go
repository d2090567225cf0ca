package reconcile

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A tone says how much a line is to stand out. It never says more than the words.
type tone string

// The tones, as terminals take them: the standard colours in bold, which light
// and dark themes both set off from their background.
const (
	plain   tone = ""
	strong  tone = "1"
	good    tone = "1;32"
	waiting tone = "1;33"
	urgent  tone = "1;31"
)

// A page is a text that is no wider than it is asked to be.
type page struct {
	text  strings.Builder
	width int
	color bool
	zone  *time.Location
}

// say writes one paragraph. Its first line begins with lead, the others with as
// many spaces.
func (p *page) say(t tone, lead, format string, args ...any) {
	indent := strings.Repeat(" ", utf8.RuneCountInString(lead))
	for i, line := range wrap(clean(fmt.Sprintf(format, args...)), max(p.width-len(indent), 20)) {
		if i > 0 {
			lead = indent
		}
		p.put(t, lead, line)
	}
}

// put writes one line, however long: a command must stay in one piece.
func (p *page) put(t tone, lead, line string) {
	line = strings.TrimRight(lead+line, " ")
	if p.color && t != plain {
		line = "\x1b[" + string(t) + "m" + line + "\x1b[0m"
	}
	p.text.WriteString(line + "\n")
}

// row writes cells in columns of the given widths. Where those are too wide, the
// first two stand in a line and the others below.
func (p *page) row(lead string, cells []string, widths []int) {
	if len(cells) == 0 {
		return
	}
	all := len(lead) + 2*(len(widths)-1)
	for _, width := range widths {
		all += width
	}
	if all > p.width {
		head := min(2, len(cells))
		p.pair(lead, strings.Join(cells[:head], "  "))
		if head < len(cells) {
			p.say(plain, lead+"  ", "%s", strings.Join(cells[head:], ", "))
		}
		return
	}
	var line strings.Builder
	for i, cell := range cells {
		line.WriteString(cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
	}
	p.put(plain, lead, line.String())
}

// pair writes what should stay as it is where it fits.
func (p *page) pair(lead, text string) {
	if len(lead)+utf8.RuneCountInString(text) > p.width {
		p.say(plain, lead, "%s", text)
		return
	}
	p.put(plain, lead, text)
}

func (p *page) gap() { p.text.WriteString("\n") }

// at writes an instant to the minute.
func (p *page) at(t time.Time) string { return t.In(p.zone).Format("2006-01-02 15:04 MST") }

// second writes an instant to the second, as events are told apart by it.
func (p *page) second(t time.Time) string { return t.In(p.zone).Format("2006-01-02 15:04:05 MST") }

// window writes a range of time and how long it is.
func (p *page) window(w WindowReport) string {
	from := w.From.In(p.zone)
	text := from.Format("2006-01-02 15:04 MST")
	if _, offset := from.Zone(); sameOffset(offset, w.To.In(p.zone)) {
		text = from.Format("2006-01-02 15:04")
	}
	return fmt.Sprintf("%s to %s (%s)", text, p.at(*w.To), length(w.length()))
}

func sameOffset(offset int, t time.Time) bool {
	_, other := t.Zone()
	return offset == other
}

// wrap cuts a text into lines of at most width runes, between words where it
// can.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		for utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width && line != "" {
			lines, line = append(lines, line), ""
		}
		for utf8.RuneCountInString(word) > width {
			runes := []rune(word)
			lines, word = append(lines, string(runes[:width])), string(runes[width:])
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

// clean takes out what a terminal would obey: ids and types come from outside.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return utf8.RuneError
		}
		return r
	}, text)
}

// took writes how long a run took, the shortest in milliseconds.
func took(d time.Duration) string {
	if 0 < d && d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return length(d)
}

// length writes a duration in days, hours and minutes, or in seconds if it is
// shorter than a minute.
func length(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%ds", max(0, d)/time.Second)
	}
	var parts []string
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if n := d / unit.of; n > 0 {
			parts = append(parts, fmt.Sprintf("%d%s", n, unit.name))
		}
		d %= unit.of
	}
	return strings.Join(parts, " ")
}

// age writes a duration in its largest unit.
func age(d time.Duration) string {
	first, _, _ := strings.Cut(length(d), " ")
	return first
}

// things counts things in words: "1 event", "2 events".
func things(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
