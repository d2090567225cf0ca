package appdb

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// A namePart is one identifier of a name as it is written in the config.
type namePart struct {
	text   string
	quoted bool
}

// candidates are the names in the catalogue that the part may mean, the likelier
// first. An unquoted one means itself, which spares quotes around camelCase, or
// what SQL folds it to.
func (p namePart) candidates() []string {
	if folded := strings.ToLower(p.text); !p.quoted && folded != p.text {
		return []string{p.text, folded}
	}
	return []string{p.text}
}

// parseName splits a name as SQL writes it, such as public."Processed-Events",
// into its parts.
func parseName(s string) ([]namePart, error) {
	var parts []namePart
	for rest := s; ; {
		part, after, err := nextPart(rest)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
		if after == "" {
			return parts, nil
		}
		if after[0] != '.' {
			return nil, fmt.Errorf("has %q where a dot or the end should be", after[:1])
		}
		rest = after[1:]
	}
}

func nextPart(s string) (part namePart, after string, err error) {
	if strings.ContainsRune(s, 0) {
		return namePart{}, "", errors.New("holds a NUL byte")
	}
	if strings.HasPrefix(s, `"`) {
		end := quotedEnd(s, 0)
		if end < 0 {
			return namePart{}, "", errors.New("has a quote that is not closed")
		}
		if end == 1 {
			return namePart{}, "", errors.New("has an empty name")
		}
		return namePart{text: strings.ReplaceAll(s[1:end], `""`, `"`), quoted: true}, s[end+1:], nil
	}
	end := 0
	for end < len(s) && isNameByte(s[end]) {
		end++
	}
	if end == 0 || s[0] == '$' || '0' <= s[0] && s[0] <= '9' {
		return namePart{}, "", errors.New("is not a name in SQL")
	}
	return namePart{text: s[:end]}, s[end:], nil
}

// isNameByte reports whether c may stand in an unquoted identifier (PostgreSQL
// manual, 4.1.1).
func isNameByte(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// quote writes a name of the catalogue so that SQL reads exactly it.
func quote(name ...string) string { return pgx.Identifier(name).Sanitize() }

// show writes a name of the catalogue as a person would in SQL: quoted only
// where it must be.
func show(name ...string) string {
	shown := make([]string, len(name))
	for i, n := range name {
		shown[i] = n
		if parts, err := parseName(n); err != nil || len(parts) != 1 || parts[0].quoted || n != strings.ToLower(n) {
			shown[i] = quote(n)
		}
	}
	return strings.Join(shown, ".")
}

// literal writes a text as SQL reads it with standard_conforming_strings, which
// every supported server has on and pgx insists on where it matters.
func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
