package providers

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// announcing answers with a body whose Content-Length is told beforehand.
func announcing(body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		io.WriteString(w, body)
	}
}

// unannounced answers in pieces, so that nobody knows how many will come.
func unannounced(body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for len(body) > 0 {
			n := min(len(body), 10_000)
			io.WriteString(w, body[:n])
			w.(http.Flusher).Flush()
			body = body[n:]
		}
	}
}

func TestABodyIsKeptInLittleMoreMemoryThanItNeeds(t *testing.T) {
	big, small := strings.Repeat("x", 500_000), strings.Repeat("y", 5_000)
	url, _, client, _, _ := play(t, TransportOptions{}, Tuning{},
		unannounced(big), unannounced(big), announcing(small), unannounced(small), unannounced(big), announcing(big), announcing(""))
	for i, want := range []string{big, big, small, small, big, big, ""} {
		resp, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		body, err := ReadBody(resp)
		if err != nil || string(body) != want {
			t.Fatalf("answer %d: got %d bytes, %v; want %d", i+1, len(body), err, len(want))
		}
		if spare := cap(body) - len(body); spare > len(body)/2+bytes.MinRead {
			t.Errorf("answer %d: %d bytes take the memory of %d", i+1, len(body), cap(body))
		}
	}
}

func TestReadBodyCopiesNothingThatATransportHasRead(t *testing.T) {
	url, _, client, _, _ := play(t, TransportOptions{}, Tuning{}, status(200))
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := ReadBody(resp)
	second, _ := ReadBody(resp)
	if string(first) != "answer" || &first[0] != &second[0] {
		t.Errorf("two reads gave %q and %q, want the same bytes %q", first, second, "answer")
	}
	streamed, err := io.ReadAll(resp.Body)
	if err != nil || string(streamed) != "answer" {
		t.Errorf("as a stream the body is %q, %v; want %q", streamed, err, "answer")
	}
}

func TestReadBodyReadsAnyOtherBody(t *testing.T) {
	body := io.NopCloser(strings.NewReader("answer"))
	if got, err := ReadBody(&http.Response{Body: body}); err != nil || string(got) != "answer" {
		t.Errorf("got %q, %v; want %q", got, err, "answer")
	}
}

// misannouncing gives a body of another length than it says.
type misannouncing struct {
	says int64
	body string
}

// RoundTrip implements http.RoundTripper.
func (m misannouncing) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: m.says, Body: io.NopCloser(strings.NewReader(m.body)), Request: req}, nil
}

func TestAnAnnouncedLengthIsNoMoreThanAHint(t *testing.T) {
	body := strings.Repeat("x", 2000)
	for _, c := range []struct {
		name string
		says int64
	}{
		{"the truth", 2000},
		{"nothing", -1},
		{"zero", 0},
		{"less than comes", 10},
		{"more than comes", 2001},
		{"more than the bound", 1 << 60},
	} {
		t.Run(c.name, func(t *testing.T) {
			for bound, want := range map[int64]bool{2000: true, 1999: false} {
				client := &http.Client{Transport: NewTransport(TransportOptions{Base: misannouncing{c.says, body}, MaxBody: bound, Rate: 1e9, Tries: 1})}
				resp, err := client.Get("http://provider.example")
				if (err == nil) != want {
					t.Fatalf("2000 bytes with a bound of %d: error %v, want one: %v", bound, err, !want)
				}
				if err != nil {
					continue
				}
				if got, err := ReadBody(resp); err != nil || string(got) != body || resp.ContentLength != 2000 {
					t.Errorf("got %d bytes, %v, Content-Length %d; want all 2000", len(got), err, resp.ContentLength)
				}
			}
		})
	}
}

func TestTheAnswerToHEADHasNoBodyAndKeepsItsLength(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1234")
	}))
	defer server.Close()
	client := &http.Client{Transport: NewTransport(TransportOptions{Rate: 1e9})}
	resp, err := client.Head(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := ReadBody(resp); err != nil || len(body) != 0 || resp.ContentLength != 1234 {
		t.Errorf("got %d bytes, %v, Content-Length %d; want none and 1234", len(body), err, resp.ContentLength)
	}
}
