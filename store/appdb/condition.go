package appdb

import (
	"errors"
	"strings"
)

// checkCondition refuses SQL that would not stay between the parentheses that a
// query puts around it. Whether it compiles, the database says in Open.
func checkCondition(sql string) error {
	depth := 0
	for i := 0; i < len(sql); i++ {
		switch c := sql[i]; c {
		case 0:
			return errors.New("holds a NUL byte; delete it")
		case '\'', '"':
			end := quotedEnd(sql, i)
			if end < 0 {
				return errors.New("has a quote that is not closed; close it, and double a quote inside of one: 'it''s'")
			}
			i = end
		case ';':
			return errors.New("has a ';' outside quotes; write one condition, without it")
		case '$':
			return errors.New("has a '$' outside quotes, where parameters and dollar quotes are not possible; write texts as 'text'")
		case '-', '/':
			if next := sql[i+1:]; c == '-' && strings.HasPrefix(next, "-") || c == '/' && strings.HasPrefix(next, "*") {
				return errors.New("has a comment; comment in YAML, with #")
			}
		case '(':
			depth++
		case ')':
			if depth--; depth < 0 {
				return errors.New("closes a parenthesis that it does not open; delete it")
			}
		}
	}
	if depth > 0 {
		return errors.New("opens a parenthesis that it does not close; close it")
	}
	return nil
}

// quotedEnd is the index of the quote that closes the one at sql[start], or -1. A
// doubled quote is part of the text, and so is one behind a backslash in an
// escape string (PostgreSQL manual, 4.1.2.2).
func quotedEnd(sql string, start int) int {
	quote, escapes := sql[start], isEscapeString(sql, start)
	for i := start + 1; i < len(sql); i++ {
		switch {
		case sql[i] == 0:
			return -1
		case escapes && sql[i] == '\\':
			i++
		case sql[i] == quote && i+1 < len(sql) && sql[i+1] == quote:
			i++
		case sql[i] == quote:
			return i
		}
	}
	return -1
}

// isEscapeString reports whether the quote at sql[start] opens E'...'.
func isEscapeString(sql string, start int) bool {
	if sql[start] != '\'' || start == 0 || sql[start-1]|0x20 != 'e' {
		return false
	}
	return start == 1 || !isNameByte(sql[start-2])
}
