package providertest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/nightaudit/nightaudit/providers"
)

// sent is one signed delivery of a listed event.
type sent struct {
	by      providers.Deliverer
	event   providers.Event
	message providers.Message
	at      time.Time
}

func (s sent) request() providers.Request {
	return providers.Request{URL: s.message.URL, Header: s.message.Header.Clone(), Body: bytes.Clone(s.message.Body)}
}

// send composes and signs a delivery of every listed event; none if the adapter
// does not deliver.
func (b bench) send() ([]sent, error) {
	p, _, err := b.source(Plain)
	if err != nil {
		return nil, err
	}
	d, ok := p.(providers.Deliverer)
	if !ok {
		return nil, nil
	}
	events, err := b.listed(Plain)
	if err != nil {
		return nil, err
	}
	at := b.Window.To
	var all []sent
	for _, e := range events {
		composed, err := d.Compose(b.Context(), b.Endpoint, e)
		if err != nil {
			return nil, err
		}
		signed, err := d.Sign(composed, b.Secrets, at)
		if err != nil {
			return nil, err
		}
		all = append(all, sent{d, e, signed, at})
	}
	return all, nil
}

func delivers(b bench) error {
	all, err := b.send()
	for _, s := range all {
		if s.message.URL != b.Endpoint.URL {
			return fmt.Errorf("%s goes to %q, want %q", s.event.Key, s.message.URL, b.Endpoint.URL)
		}
		for _, secret := range b.Secrets { // a receiver may know any one of them
			got, err := s.by.Open(s.request(), []providers.Secret{secret}, s.at)
			if err != nil {
				return fmt.Errorf("opening %s: %w", s.event.Key, err)
			}
			if got.Key != s.event.Key || got.Type != s.event.Type || got.Account != s.event.Account ||
				got.Subject != s.event.Subject || !got.Created.Equal(s.event.Created) {
				return fmt.Errorf("opened\n got %+v\nwant %+v", got, s.event)
			}
		}
	}
	return err
}

func signsAnew(b bench) error {
	all, err := b.send()
	for _, s := range all {
		before := providers.Message{URL: s.message.URL, Header: s.message.Header.Clone(), Body: bytes.Clone(s.message.Body)}
		later, err := s.by.Sign(s.message, b.Secrets, s.at.Add(30*time.Second))
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(s.message, before) {
			return fmt.Errorf("signing %s again changed the message that was given", s.event.Key)
		}
		if reflect.DeepEqual(later.Header, s.message.Header) {
			return fmt.Errorf("30 seconds later %s carries the same signature", s.event.Key)
		}
		request := providers.Request{URL: later.URL, Header: later.Header, Body: later.Body}
		if _, err := s.by.Open(request, b.Secrets, s.at.Add(30*time.Second)); err != nil {
			return fmt.Errorf("opening %s when signed again: %w", s.event.Key, err)
		}
	}
	if len(all) > 0 {
		if _, err := all[0].by.Sign(all[0].message, nil, all[0].at); err == nil {
			return errors.New("a message was signed without a secret")
		}
	}
	return err
}

func refuses(b bench) error {
	all, err := b.send()
	for _, s := range all {
		flipped := s.request()
		flipped.Body[len(flipped.Body)/2] ^= 1
		bare := s.request()
		for name := range bare.Header {
			bare.Header.Del(name)
		}
		stale, early := s.at.Add(b.Tolerance+2*time.Second), s.at.Add(-b.Tolerance-2*time.Second)
		for _, c := range []struct {
			name    string
			request providers.Request
			secrets []providers.Secret
			now     time.Time
		}{
			{"with a flipped byte", flipped, b.Secrets, s.at},
			{"without headers", bare, b.Secrets, s.at},
			{"by another secret", s.request(), []providers.Secret{"another secret"}, s.at},
			{"for nobody's secret", s.request(), nil, s.at},
			{"that is stale", s.request(), b.Secrets, stale},
			{"from the future", s.request(), b.Secrets, early},
		} {
			_, err := s.by.Open(c.request, c.secrets, c.now)
			var refused *providers.SignatureError
			if !errors.As(err, &refused) || refused.Why == "" {
				return fmt.Errorf("a delivery of %s %s gave %v, want a *SignatureError", s.event.Key, c.name, err)
			}
			if err := shows(err, reveal(b.Secrets)); err != nil {
				return err
			}
		}
	}
	return err
}

func reveal(secrets []providers.Secret) []string {
	var texts []string
	for _, s := range secrets {
		texts = append(texts, s.Reveal())
	}
	return texts
}

func classifies(b bench) error {
	p, _, err := b.source(Plain)
	if err != nil {
		return err
	}
	d, ok := p.(providers.Deliverer)
	if !ok {
		return nil
	}
	events, err := b.listed(Plain)
	types := append([]string{"", "unheard.of", "."}, b.Types...)
	for _, e := range events {
		types = append(types, e.Type)
	}
	for _, eventType := range types {
		known := []providers.Class{providers.Snapshot, providers.Ending, providers.Fact}
		if class := d.Class(eventType); !slices.Contains(known, class) {
			return fmt.Errorf("type %q has the class %q", eventType, class)
		}
		if ok, why := d.Replayable(eventType); ok != (why == "") {
			return fmt.Errorf("type %q is replayable: %v, because %q; want a reason just where it is not", eventType, ok, why)
		}
	}
	return err
}
