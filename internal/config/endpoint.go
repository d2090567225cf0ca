package config

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/nightaudit/nightaudit/providers"
)

// An Endpoint is one URL at which the application receives webhooks.
type Endpoint struct {
	URL       string             `yaml:"url"`        // where replays are sent
	PublicURL string             `yaml:"public_url"` // the URL that the provider has; "" is URL
	Secrets   []providers.Secret `yaml:"secrets"`    // sign replays; several while one is being rolled
	Match     Match              `yaml:"match"`      // which events go here
}

// A Match picks the events of an endpoint. Zero values match all.
type Match struct {
	Account string `yaml:"account"` // the provider's account id
}

func validateEndpoints(d *decoder, path string, all []Endpoint) {
	type target struct{ url, account string }
	first := map[target]int{}
	for i, e := range all {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !d.fine(at) {
			continue
		}
		if d.need(at+".url", "write the application's webhook URL, like https://app.example.com/webhooks/stripe") {
			checkURL(d, at+".url", e.URL, true)
		}
		if d.has(at + ".public_url") {
			checkURL(d, at+".public_url", e.PublicURL, true)
		}
		key := target{e.URL, e.Match.Account}
		if other, twice := first[key]; twice && e.URL != "" {
			d.badValue(at+".url", shownURL(d.written[at+".url"]), fmt.Sprintf("is endpoints[%d] too, for the same events; remove one, or tell them apart by match.account", other))
		} else {
			first[key] = i
		}
	}
}

// checkURL reports what is no http URL with a host. Only an endpoint's URL may
// have a query. No message shows more than scheme and host: the rest may be the
// secret.
func checkURL(d *decoder, path, text string, query bool) {
	if !d.fine(path) {
		return
	}
	value := shownURL(d.written[path])
	u, err := url.Parse(strings.TrimSpace(text))
	switch {
	case strings.TrimSpace(text) == "":
		d.bad(path, "is empty; write a URL like https://app.example.com/webhooks, or remove the key")
	case err != nil:
		d.badValue(path, value, "is no URL; write one like https://app.example.com/webhooks")
	case u.Scheme != "http" && u.Scheme != "https":
		d.badValue(path, value, "does not begin with https:// or http://; write the whole URL")
	case u.Hostname() == "":
		d.badValue(path, value, "has no host; write a URL like https://app.example.com/webhooks")
	case u.User != nil:
		d.bad(path, "has a user name or password before the host; remove them from the URL")
	case u.Fragment != "" || text != strings.TrimSpace(text):
		d.badValue(path, value, "has a # or blanks, which never reach the server; remove them")
	case !query && u.RawQuery != "":
		d.badValue(path, value, "has a query (?); write the address alone")
	}
}

var schemeAndHost = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*:/*)?[^/?#@]*`)

// shownURL is as much of a written URL as a message may show; "" if even that
// may be a secret.
func shownURL(written string) string {
	head := schemeAndHost.FindString(written)
	if strings.HasPrefix(written[len(head):], "@") {
		return "" // head is a user's name and password
	}
	return shown(head)
}

// minQuerySecret is the shortest value of a URL's query that is taken for a
// secret; shorter ones are switches and versions.
const minQuerySecret = 8

// queryValues is what may be a secret in a URL's query: as it is, and as the URL
// escapes it.
func queryValues(text string) []providers.Secret {
	u, err := url.Parse(text)
	if err != nil {
		return nil
	}
	var all []providers.Secret
	for _, values := range u.Query() {
		for _, v := range values {
			if len(v) >= minQuerySecret {
				all = append(all, providers.Secret(v), providers.Secret(url.QueryEscape(v)))
			}
		}
	}
	return all
}
