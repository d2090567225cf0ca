package stripe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nightaudit/nightaudit/providers"
)

// fields are the members of a JSON object by their exact names. Decoding into a
// struct would not tell "id" from "ID".
type fields map[string]json.RawMessage

// decodeEvent reads of an event what nightaudit needs to know: id, type and
// created must be there, anything else may be missing or of a shape that only
// another API version knows. account is the account it was listed for. The
// payload is raw itself.
func decodeEvent(raw []byte, account string) (providers.Event, error) {
	var f fields
	if err := json.Unmarshal(raw, &f); err != nil {
		return providers.Event{}, fmt.Errorf("not a JSON object: %w", shapeOnly(err))
	}
	if object := f.text("object"); object != "" && object != "event" {
		return providers.Event{}, errors.New("not an event of the v1 API: its object is another")
	}
	e := providers.Event{
		ID:         f.text("id"),
		Account:    f.text("account"),
		Type:       f.text("type"),
		APIVersion: f.text("api_version"),
		Payload:    raw,
	}
	if e.Account == "" {
		e.Account = account
	}
	e.Key = e.ID
	created, hasCreated := f.second("created")
	e.Created = created
	e.Livemode, _ = member[*bool](f, "livemode")
	e.PendingDeliveries, _ = member[*int](f, "pending_webhooks")
	e.Subject = subjectOf(f.object("data").object("object"), e.Account)
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

// subjectOf is the object that an event is about. Previews such as
// invoice.upcoming have no id.
func subjectOf(object fields, account string) providers.Subject {
	id := object.text("id")
	if id == "" {
		return providers.Subject{}
	}
	return providers.Subject{Account: account, Kind: object.text("object"), ID: id}
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
	var f fields
	if json.Unmarshal(raw, &f) != nil {
		return ""
	}
	return f.text("id")
}

// member is the member called name, if it is there and of type T; else the zero
// value and false.
func member[T any](f fields, name string) (T, bool) {
	var v, none T
	raw, ok := f[name]
	if !ok || json.Unmarshal(raw, &v) != nil {
		return none, false
	}
	return v, true
}

// text is the member if it is a string, else "".
func (f fields) text(name string) string {
	s, _ := member[string](f, name)
	return s
}

// object is the member if it is an object, else none.
func (f fields) object(name string) fields {
	o, _ := member[fields](f, name)
	return o
}

// lastSecond is the last that time.Time can write in four digits of year.
const lastSecond = 253402300799

// second is the member as a Unix time, if it is a whole number of seconds.
func (f fields) second(name string) (time.Time, bool) {
	at, _ := member[int64](f, name)
	if at <= 0 || at > lastSecond {
		return time.Time{}, false
	}
	return time.Unix(at, 0).UTC(), true
}

// shapeOnly is a decoding error without what it quotes of the text.
func shapeOnly(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("malformed at byte %d", syntax.Offset)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("it ends too early")
	}
	return errors.New("another kind of value")
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
func topLevel(payload []byte) (open int64, names []string, err error) {
	d := json.NewDecoder(bytes.NewReader(payload))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return 0, nil, errors.New("the payload is not a JSON object")
	}
	open = d.InputOffset()
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return 0, nil, shapeOnly(err)
		}
		names = append(names, name.(string))
		var skipped json.RawMessage
		if err := d.Decode(&skipped); err != nil {
			return 0, nil, shapeOnly(err)
		}
	}
	if _, err := d.Token(); err != nil {
		return 0, nil, shapeOnly(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return 0, nil, errors.New("there is text behind the payload's end")
	}
	return open, names, nil
}
