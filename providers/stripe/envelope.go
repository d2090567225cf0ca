package stripe

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/nightaudit/nightaudit/providers"
)

// decodeEvent reads an event that stands alone, of which payload is all. See
// scanner.event.
func decodeEvent(payload []byte, account string) (providers.Event, error) {
	s := scan(payload)
	e, err := s.event(account)
	if malformed := s.end(); malformed != nil {
		return providers.Event{}, fmt.Errorf("not a JSON object: %w", shapeOnly(malformed))
	}
	e.Payload = payload
	return e, err
}

// event reads of an event what nightaudit needs to know: id, type and created
// must be there, anything else may be missing or of a shape that only another API
// version knows. account is the account it was listed for. The payload is the
// event as it stands in the text, whose memory it shares. The error says what is
// wrong with an event of which the rest is still good.
func (s *scanner) event(account string) (providers.Event, error) {
	var e providers.Event
	var object string
	var hasCreated bool
	kind := s.kind()
	e.Payload = s.passed(func() {
		s.members(func(name []byte) {
			switch string(name) {
			case "id":
				e.ID = s.string()
			case "object":
				object = s.string()
			case "account":
				e.Account = s.string()
			case "type":
				e.Type = s.string()
			case "api_version":
				e.APIVersion = s.string()
			case "created":
				e.Created, hasCreated = s.second()
			case "livemode":
				e.Livemode = s.boolean()
			case "pending_webhooks":
				e.PendingDeliveries = s.count()
			case "data":
				e.Subject = s.data()
			default:
				s.value()
			}
		})
	})
	e.Key = e.ID
	e.Account = cmp.Or(e.Account, account)
	if e.Subject.ID != "" {
		e.Subject.Account = e.Account
	}
	switch {
	case kind != jsontext.KindBeginObject && kind != jsontext.KindNull:
		return e, errors.New("not a JSON object: another kind of value")
	case object != "" && object != "event":
		return e, errors.New("not an event of the v1 API: its object is another")
	}
	return e, missing(e, hasCreated)
}

func missing(e providers.Event, hasCreated bool) error {
	var lacks []string
	if e.ID == "" {
		lacks = append(lacks, "no id")
	}
	if e.Type == "" {
		lacks = append(lacks, "no type")
	}
	if !hasCreated {
		lacks = append(lacks, "no created time")
	}
	if len(lacks) == 0 {
		return nil
	}
	return fmt.Errorf("it has %s", strings.Join(lacks, ", "))
}

// data reads an event's data, and of it the object that the event is about.
// Previews such as invoice.upcoming have no id.
func (s *scanner) data() providers.Subject {
	var subject providers.Subject
	s.members(func(name []byte) {
		if string(name) != "object" {
			s.value()
			return
		}
		subject = providers.Subject{}
		s.members(func(name []byte) {
			switch string(name) {
			case "id":
				subject.ID = s.string()
			case "object":
				subject.Kind = s.string()
			default:
				s.value()
			}
		})
	})
	if subject.ID == "" {
		return providers.Subject{}
	}
	return subject
}

// lastSecond is the last that time.Time can write in four digits of year.
const lastSecond = 253402300799

// second is the value that comes next as a Unix time, if it is a whole number of
// seconds.
func (s *scanner) second() (time.Time, bool) {
	at, _ := s.integer()
	if at <= 0 || at > lastSecond {
		return time.Time{}, false
	}
	return time.Unix(at, 0).UTC(), true
}

// count is the value that comes next if it is an integer, else nil.
func (s *scanner) count() *int {
	n, ok := s.integer()
	count := int(n)
	if !ok || int64(count) != n {
		return nil
	}
	return &count
}

func decodeAccount(raw []byte) (string, error) {
	id := idOf(raw)
	if !accountID.MatchString(id) {
		return "", errors.New("an account in the list has no id as accounts have it")
	}
	return id, nil
}

// idOf is the id of any element, "" if it has none.
func idOf(raw []byte) string {
	var id string
	s := scan(raw)
	s.members(func(name []byte) {
		if string(name) == "id" {
			id = s.string()
			return
		}
		s.value()
	})
	if s.end() != nil {
		return ""
	}
	return id
}

// shapeOnly is a scanner's error without what it quotes of the text.
func shapeOnly(err error) error {
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("malformed at byte %d", syntax.ByteOffset)
	}
	return errors.New("it ends too early")
}

// withAccount is payload with a top-level account: Stripe delivers the events of
// connected accounts with it (Stripe docs, Connect webhooks), and without it an
// application would book them to the platform. A payload that has the member,
// whatever its value, stays as it is; so do all bytes after the opening brace.
func withAccount(payload []byte, account string) ([]byte, error) {
	open, names, err := topLevel(payload)
	if err != nil {
		return nil, err
	}
	if slices.Contains(names, "account") {
		return payload, nil
	}
	value, err := json.Marshal(account)
	if err != nil {
		return nil, err
	}
	member := `"account":` + string(value)
	if len(names) > 0 {
		member += ","
	}
	out := make([]byte, 0, len(payload)+len(member))
	out = append(out, payload[:open]...)
	out = append(out, member...)
	return append(out, payload[open:]...), nil
}

// topLevel gives the names of an object's members, and the offset just behind its
// opening brace.
func topLevel(payload []byte) (open int, names []string, err error) {
	s := scan(payload)
	if s.kind() != jsontext.KindBeginObject {
		return 0, nil, errors.New("the payload is not a JSON object")
	}
	s.members(func(name []byte) {
		names = append(names, string(name))
		s.value()
	})
	if err := s.end(); err != nil {
		return 0, nil, fmt.Errorf("the payload is not a JSON object: %w", shapeOnly(err))
	}
	return bytes.IndexByte(payload, '{') + 1, names, nil
}
