package stripe

import (
	"bytes"
	"errors"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// A scanner reads a JSON text once, from front to back. All of the text is
// checked; what nobody asks for is passed over. Names are compared exactly, a
// member that comes twice is given twice, and strings may hold invalid UTF-8: it
// reads what encoding/json reads, at a tenth of the cost or less.
//
// The first error stays, and all that is read after it is zero. So what was read
// counts only once end has found no error.
type scanner struct {
	text    []byte
	decoder *jsontext.Decoder
	err     error
}

// scan begins to read text, which must not change while anything that was read
// from it is in use.
func scan(text []byte) *scanner {
	return &scanner{text: text, decoder: jsontext.NewDecoder(bytes.NewBuffer(text),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
}

// end is the first error of the text, behind whose one value nothing may stand.
func (s *scanner) end() error {
	rest := bytes.TrimLeft(s.text[s.offset():], blanks)
	if s.err == nil && len(rest) > 0 {
		s.err = &jsontext.SyntacticError{ByteOffset: int64(len(s.text) - len(rest)), Err: errors.New("text behind the end")}
	}
	return s.err
}

// members gives take the name of each member of the object that comes next; take
// reads the member's value. Any other value is skipped.
func (s *scanner) members(take func(name []byte)) {
	if s.kind() != jsontext.KindBeginObject {
		s.value()
		return
	}
	s.token()
	for s.err == nil && s.kind() != jsontext.KindEndObject {
		if name := s.name(); s.err == nil {
			take(name)
		}
	}
	s.token()
}

// elements lets take read each element of the array that comes next, and counts
// them. Any other value is skipped, and ok is false.
func (s *scanner) elements(take func()) (n int, ok bool) {
	if s.kind() != jsontext.KindBeginArray {
		s.value()
		return 0, false
	}
	s.token()
	for ; s.err == nil && s.kind() != jsontext.KindEndArray; n++ {
		take()
	}
	s.token()
	return n, true
}

// string is the value that comes next if it is a string, else "".
func (s *scanner) string() string {
	if s.kind() != jsontext.KindString {
		s.value()
		return ""
	}
	token := s.token()
	if s.err != nil {
		return ""
	}
	return token.String()
}

// integer is the value that comes next if it is an integer, written as one.
func (s *scanner) integer() (n int64, ok bool) {
	if s.kind() != jsontext.KindNumber {
		s.value()
		return 0, false
	}
	n, err := strconv.ParseInt(string(s.value()), 10, 64)
	if err != nil {
		return 0, false
	}
	return n, true
}

// boolean is the value that comes next if it is true or false, else nil.
func (s *scanner) boolean() *bool {
	kind := s.kind()
	s.value()
	if kind != jsontext.KindTrue && kind != jsontext.KindFalse {
		return nil
	}
	is := kind == jsontext.KindTrue
	return &is
}

// value is the value that comes next, as it stands in the text.
func (s *scanner) value() []byte {
	if s.err != nil {
		return nil
	}
	value, err := s.decoder.ReadValue()
	if err != nil {
		s.err = err
		return nil
	}
	end := s.offset()
	return s.text[end-len(value) : end : end]
}

// passed is the part of the text that read reads.
func (s *scanner) passed(read func()) []byte {
	start := s.offset()
	read()
	return slices.Clip(bytes.TrimLeft(s.text[start:s.offset()], blanks+",:"))
}

// blanks are what may stand between JSON's tokens.
const blanks = " \t\r\n"

// name is the name of a member, without its escapes.
func (s *scanner) name() []byte {
	quoted := s.value()
	if s.err != nil {
		return nil
	}
	if !bytes.Contains(quoted, []byte(`\`)) {
		return quoted[1 : len(quoted)-1]
	}
	name, _ := jsontext.AppendUnquote(nil, quoted) // an error tells of invalid UTF-8, which is let through
	return name
}

// kind is the kind of the value that comes next, zero after an error.
func (s *scanner) kind() jsontext.Kind {
	if s.err != nil {
		return jsontext.KindInvalid
	}
	return s.decoder.PeekKind()
}

func (s *scanner) token() jsontext.Token {
	if s.err != nil {
		return jsontext.Token{}
	}
	token, err := s.decoder.ReadToken()
	s.err = err
	return token
}

// offset is how far the text has been read.
func (s *scanner) offset() int { return int(s.decoder.InputOffset()) }
