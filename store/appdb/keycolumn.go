package appdb

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/nightaudit/nightaudit/providers"
)

// A keyColumn is a column that an event is looked up by. What is asked for is
// cast to the column's type, never the column, so that its index serves.
type keyColumn struct {
	column
	field string // "event.id"
	cast  string // the type that a parameter is cast to
	equal string // the type's own equality
	// ownIsNull says that the provider's own account, which events leave empty,
	// may stand as NULL in the column.
	ownIsNull bool
	// fit writes a text as the column's type would hold it; false if it cannot.
	fit func(string) (string, bool)
}

// supportedKeys are the types for which fit is known.
const supportedKeys = "text, varchar, char, citext, uuid, smallint, integer, bigint or numeric"

// newKeyColumn is how c is asked for field; the error is a *FieldError.
func newKeyColumn(key, field string, c column, r relation) (keyColumn, error) {
	k := keyColumn{column: c, field: field, cast: "pg_catalog." + c.typ, equal: "OPERATOR(pg_catalog.=)"}
	builtin, encoding := c.typSchema == "pg_catalog", r.encoding
	switch {
	case builtin && c.typ == "text":
		k.fit = textFit(encoding)
	case builtin && c.typ == "varchar":
		k.cast = "pg_catalog.text" // which has varchar's operators and indexes
		k.fit = lengthFit(encoding, c.length())
	case builtin && c.typ == "bpchar":
		k.fit = lengthFit(encoding, c.length())
	case c.typ == "citext" && !c.typUsage:
		return keyColumn{}, &FieldError{Key: key, Value: field,
			Fix: fmt.Sprintf("cannot be looked up in column %s, whose type citext is out of reach for role %s; run GRANT USAGE ON SCHEMA %s TO %s;",
				c, show(r.role), quote(c.typSchema), quote(r.role))}
	case c.typ == "citext":
		k.cast, k.equal = quote(c.typSchema, c.typ), "OPERATOR("+quote(c.typSchema)+".=)"
		k.fit = textFit(encoding)
	case builtin && c.typ == "uuid":
		k.fit = uuidFit
	case builtin && (c.typ == "int2" || c.typ == "int4" || c.typ == "int8"):
		bits, _ := strconv.Atoi(c.typ[3:])
		k.fit = integerFit(bits * 8)
	case builtin && c.typ == "numeric":
		k.fit = numericFit
	default:
		return keyColumn{}, &FieldError{Key: key, Value: field,
			Fix: fmt.Sprintf("cannot be looked up in column %s of type %s; map a column of type %s", c, c.shown, supportedKeys)}
	}
	k.ownIsNull = field == fieldAccount && !c.notNull
	return k, nil
}

// isText reports whether the column can hold an empty text.
func (k keyColumn) isText() bool {
	return k.typ == "text" || k.typ == "varchar" || k.typ == "bpchar" || k.typ == "citext"
}

// length is how many characters the column holds; 0 is any number. The type
// modifier counts four bytes of header.
func (c column) length() int { return int(max(0, c.typmod-4)) }

// joins is the condition under which a row of alias r is the one asked for by
// alias k.
func (k keyColumn) joins(name string) string {
	equal := fmt.Sprintf("r.%s %s k.%s", name, k.equal, name)
	switch {
	case k.ownIsNull && k.isText():
		return fmt.Sprintf("(%s OR k.%s IS NULL AND (r.%s IS NULL OR r.%s::pg_catalog.text = ''))", equal, name, name, name)
	case k.ownIsNull:
		return fmt.Sprintf("(%s OR k.%s IS NULL AND r.%s IS NULL)", equal, name, name)
	}
	return equal
}

// param is the parameter that asks for e, or why the column cannot hold it. NULL
// is the provider's own account.
func (k keyColumn) param(e providers.Event) (value pgtype.Text, why string) {
	what, text := k.value(e)
	if text == "" && k.field == fieldAccount {
		if k.ownIsNull {
			return pgtype.Text{}, ""
		}
		if k.isText() {
			return pgtype.Text{Valid: true}, ""
		}
	}
	if text == "" {
		return pgtype.Text{}, fmt.Sprintf("the event has no %s for column %s", what, k.column)
	}
	fitted, ok := k.fit(text)
	if !ok {
		return pgtype.Text{}, fmt.Sprintf("event %s %s does not fit column %s of type %s", what, brief(text), k.column, k.shown)
	}
	return pgtype.Text{String: fitted, Valid: true}, ""
}

// value is the event's field and what a person calls it.
func (k keyColumn) value(e providers.Event) (what, text string) {
	switch k.field {
	case fieldID:
		return "id", e.ID
	case fieldKey:
		return "key", e.Key
	case fieldAccount:
		return "account", e.Account
	}
	return "type", e.Type
}

// brief quotes a text for a message and cuts it when it is long.
func brief(s string) string {
	const most = 100
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}

// textFit lets through what a text of the server can be. A server in another
// encoding than UTF-8 cannot hold every letter, and one that it cannot hold would
// fail the whole query, so only ASCII goes there.
func textFit(encoding string) func(string) (string, bool) {
	return func(s string) (string, bool) {
		if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
			return "", false
		}
		return s, encoding == "UTF8" || encoding == "SQL_ASCII" || isASCII(s)
	}
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// lengthFit is textFit for char(n) and varchar(n), which hold n characters and
// drop blanks beyond them (PostgreSQL manual, 8.3).
func lengthFit(encoding string, most int) func(string) (string, bool) {
	fits := textFit(encoding)
	return func(s string) (string, bool) {
		s, ok := fits(s)
		for n := utf8.RuneCountInString(s); most > 0 && n > most; n-- {
			if s[len(s)-1] != ' ' {
				return "", false
			}
			s = s[:len(s)-1]
		}
		return s, ok
	}
}

// uuidFit reads what uuid_in does: 32 hexadecimal digits, a hyphen or none
// between any groups of four, braces or none around all (PostgreSQL manual, 8.12).
func uuidFit(s string) (string, bool) {
	digits := s
	if inner, braced := strings.CutPrefix(s, "{"); braced {
		var closed bool
		if digits, closed = strings.CutSuffix(inner, "}"); !closed {
			return "", false
		}
	}
	n := 0
	for i := range len(digits) {
		switch c := digits[i]; {
		case '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f':
			n++
		case c != '-' || n == 0 || n%4 != 0 || n == 32 || digits[i-1] == '-':
			return "", false
		}
	}
	return s, n == 32
}

// blanks are what isspace counts in the C locale, which the numeric types skip.
const blanks = " \t\n\v\f\r"

func integerFit(bits int) func(string) (string, bool) {
	return func(s string) (string, bool) {
		n, err := strconv.ParseInt(strings.Trim(s, blanks), 10, bits)
		return strconv.FormatInt(n, 10), err == nil
	}
}

// maxDigits bounds a numeric id, far below what numeric holds.
const maxDigits = 1000

// numericFit reads plain decimal numbers. NaN and Infinity, which newer servers
// read too, and exponents are no ids.
func numericFit(s string) (string, bool) {
	s = strings.Trim(s, blanks)
	digits := strings.TrimPrefix(strings.TrimPrefix(s, "+"), "-")
	if len(s)-len(digits) > 1 || len(digits) > maxDigits {
		return "", false
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	return s, whole+fraction != "" && isDigits(whole) && isDigits(fraction)
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
