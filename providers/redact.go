package providers

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Redactor takes secrets out of texts: errors, logs, snippets, reports. The
// nil Redactor knows no secret values and still cuts URLs. It is safe for
// concurrent use.
type Redactor struct {
	values []string // longest first
}

// NewRedactor knows the given secrets in the forms in which they get into texts:
// as they are, and as URLs, JSON, quoted Go and base64 write them. Of a secret
// that is a URL, its path and query are secrets too. A secret of fewer than six
// bytes is nothing: hiding it would blot out half of every text.
func NewRedactor(secrets ...Secret) *Redactor {
	r := &Redactor{}
	for _, s := range secrets {
		r.values = append(r.values, forms(s.Reveal())...)
	}
	slices.SortFunc(r.values, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	r.values = slices.Compact(r.values)
	return r
}

func forms(secret string) []string {
	parts := []string{secret, strings.TrimSpace(secret)}
	if u, err := url.Parse(secret); err == nil && u.Host != "" {
		parts = append(parts, urlParts(u)...)
	}
	var out []string
	for _, p := range parts {
		if len(p) < shortestPart {
			continue
		}
		encoded, _ := json.Marshal(p)
		quoted := strconv.Quote(p)
		out = append(out, p, url.QueryEscape(p), url.PathEscape(p),
			string(encoded[1:len(encoded)-1]), quoted[1:len(quoted)-1],
			base64.StdEncoding.EncodeToString([]byte(p)),
			base64.RawStdEncoding.EncodeToString([]byte(p)),
			base64.URLEncoding.EncodeToString([]byte(p)),
			base64.RawURLEncoding.EncodeToString([]byte(p)))
	}
	return out
}

// urlParts are the parts of a secret URL that are secret on their own: the host
// is not, and neither is a part so short that hiding it would blot out words.
func urlParts(u *url.URL) []string {
	parts := []string{u.Path, u.EscapedPath(), u.RequestURI(), u.RawQuery, path.Base(u.Path)}
	if password, ok := u.User.Password(); ok {
		parts = append(parts, password)
	}
	for _, values := range u.Query() {
		parts = append(parts, values...)
	}
	return slices.DeleteFunc(parts, func(p string) bool { return len(p) < shortestPart })
}

const shortestPart = 6

// userinfo is the login part of a URL anywhere in a text; reference is one whose
// password is only the name of a variable, as advice on a config has it.
var (
	userinfo  = regexp.MustCompile(`://[^\s/?#"'<>]*@`)
	reference = regexp.MustCompile(`^://[a-z]*:\$\{[A-Z_]+\}@$`)
)

// String is s with every known secret, and the login part of every URL, replaced.
func (r *Redactor) String(s string) string {
	return userinfo.ReplaceAllStringFunc(r.hide(s), func(login string) string {
		if reference.MatchString(login) {
			return login
		}
		return "://"
	})
}

// hide replaces known values; what overlaps or touches is replaced as one, so
// that no rest of either stays.
func (r *Redactor) hide(s string) string {
	var out strings.Builder
	done := 0
	for _, span := range r.spans(s) {
		out.WriteString(s[done:span.from] + redacted)
		done = span.to
	}
	return out.String() + s[done:]
}

type span struct{ from, to int }

func (r *Redactor) spans(s string) []span {
	if r == nil {
		return nil
	}
	var found []span
	for _, v := range r.values {
		for at := 0; ; {
			i := strings.Index(s[at:], v)
			if i < 0 {
				break
			}
			found = append(found, span{at + i, at + i + len(v)})
			at += i + 1
		}
	}
	slices.SortFunc(found, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	return merge(found)
}

func merge(sorted []span) []span {
	var merged []span
	for _, next := range sorted {
		if last := len(merged) - 1; last >= 0 && next.from <= merged[last].to {
			merged[last].to = max(merged[last].to, next.to)
			continue
		}
		merged = append(merged, next)
	}
	return merged
}

// Error is err with a text that may be shown: known secrets replaced and every
// URL cut to scheme and host, since for many webhooks the URL is the secret.
// errors.Is and errors.As still see err; what they find must not be printed. Nil
// stays nil, and an error that has nothing to hide stays itself.
func (r *Redactor) Error(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, u := range urlErrors(err) {
		text = strings.ReplaceAll(text, u.Error(), shownURLError(u))
	}
	text = r.String(anyURL.ReplaceAllStringFunc(text, cutURL))
	if text == err.Error() {
		return err
	}
	return &redactedError{text: text, err: err}
}

// A redactedError decides like the error it hides and shows another text. It has
// no Unwrap, so that a printer that walks the chain meets nothing else.
type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string        { return e.text }
func (e *redactedError) Is(target error) bool { return errors.Is(e.err, target) }
func (e *redactedError) As(target any) bool   { return errors.As(e.err, target) }

// urlErrors are the url.Errors in the tree of err, outermost first.
func urlErrors(err error) []*url.Error {
	var found []*url.Error
	if u, ok := err.(*url.Error); ok { //nolint:errorlint // each level of the tree is looked at by itself
		found = append(found, u)
	}
	switch e := err.(type) { //nolint:errorlint // each level of the tree is looked at by itself
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			found = append(found, urlErrors(inner)...)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			found = append(found, urlErrors(inner)...)
		}
	}
	return found
}

// shownURLError is the text of u without its URL. What a failed parse quotes of
// a URL may be any part of it, so the reason is left out there.
func shownURLError(u *url.Error) string {
	if u.Op == "parse" {
		return "parse " + cutURL(u.URL) + ": the URL is malformed"
	}
	reason := u.Err.Error()
	for _, inner := range urlErrors(u.Err) {
		reason = strings.ReplaceAll(reason, inner.Error(), shownURLError(inner))
	}
	return u.Op + " " + cutURL(u.URL) + ": " + reason
}

// anyURL is a URL in a text, to the next blank or quote.
var anyURL = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]*`)

// cutURL is scheme://host of a URL, or a word in its place if it has no such.
// The punctuation of the sentence around it stays.
func cutURL(raw string) string {
	bare := strings.TrimRight(raw, ".,;:!)")
	u, err := url.Parse(bare)
	if err != nil || u.Host == "" {
		return "[url]" + raw[len(bare):]
	}
	return u.Scheme + "://" + u.Host + raw[len(bare):]
}
