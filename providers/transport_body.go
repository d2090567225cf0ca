package providers

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// ReadBody reads the whole body of an answer; the caller closes it. The body of an
// answer that came over a Transport is in memory already: its bytes are given as
// they are, without a copy, and no error is possible.
func ReadBody(resp *http.Response) ([]byte, error) {
	if b, ok := resp.Body.(*bufferedBody); ok {
		return b.bytes, nil
	}
	return io.ReadAll(resp.Body)
}

// A bufferedBody is a body of which every byte is in memory.
type bufferedBody struct {
	bytes.Reader
	bytes []byte
}

// Close does nothing, since nothing is open.
func (b *bufferedBody) Close() error { return nil }

// buffer replaces the body of resp by its bytes.
func (t *Transport) buffer(resp *http.Response, op string) error {
	defer resp.Body.Close()
	body, err := t.readAtMost(resp, t.opts.MaxBody+1)
	if err != nil {
		return fmt.Errorf("%s: reading the answer: %w", op, err)
	}
	if int64(len(body)) > t.opts.MaxBody {
		return &finalError{fmt.Errorf("%s: the answer is larger than %d bytes, which is all that nightaudit reads; narrow the window", op, t.opts.MaxBody)}
	}
	buffered := &bufferedBody{bytes: body}
	buffered.Reset(body)
	resp.Body = buffered
	if resp.Request == nil || resp.Request.Method != http.MethodHead {
		resp.ContentLength = int64(len(body))
	}
	return nil
}

// readAtMost reads the body of resp, at most limit bytes of it, into memory that
// is taken once: as much as is announced, or, since what is sent packed announces
// nothing, a little more than the last answer took. Little of it stays unused.
func (t *Transport) readAtMost(resp *http.Response, limit int64) ([]byte, error) {
	size := resp.ContentLength
	switch {
	case resp.Request != nil && resp.Request.Method == http.MethodHead:
		size = 0 // what it announces does not come
	case size < 0:
		size = t.lastBody.Load() / 8 * 9
	}
	var b bytes.Buffer
	b.Grow(int(min(size, limit)) + bytes.MinRead) // ReadFrom grows a buffer that has less left
	if _, err := b.ReadFrom(io.LimitReader(resp.Body, limit)); err != nil {
		return nil, err
	}
	t.lastBody.Store(int64(b.Len()))
	if b.Len() < b.Cap()/4*3 {
		return bytes.Clone(b.Bytes()), nil
	}
	return b.Bytes(), nil
}
