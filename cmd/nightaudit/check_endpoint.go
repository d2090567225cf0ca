package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nightaudit/nightaudit/internal/config"
	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/providers/stripe"
	"github.com/nightaudit/nightaudit/reconcile/replay"
)

// endpointPlace is an endpoint's place in its source.
func endpointPlace(i int) string { return fmt.Sprintf("endpoints[%d]", i) }

// endpoint looks for one of the config's endpoints among those of the provider.
func (d *doctor) endpoint(source, place string, t replay.Target, endpoints []providers.Endpoint) {
	for _, ep := range endpoints {
		if !replay.SameURL(ep.URL, t.Public()) {
			continue
		}
		if !ep.Enabled {
			d.say(source, place, bad, "%s is disabled at the provider; enable it", ep.ID)
			return
		}
		d.say(source, place, fine, "%s, enabled, subscribed to %s; the signing secret cannot be verified without sending", ep.ID, typesText(ep.Types))
		return
	}
	d.say(source, place, bad, "the provider has no endpoint with this URL (on %s); it has %s; create it there, or set public_url to the URL that it has",
		replay.Origin(t.Public()), origins(endpoints))
}

// origins are where the provider's endpoints are, without the paths: those may be
// secret.
func origins(endpoints []providers.Endpoint) string {
	var all []string
	for _, ep := range endpoints {
		if origin := replay.Origin(ep.URL); !slices.Contains(all, origin) {
			all = append(all, origin)
		}
	}
	if len(all) == 0 {
		return "none"
	}
	return "some on " + strings.Join(all, ", ")
}

// typesText is what an endpoint gets.
func typesText(types []string) string {
	if slices.Contains(types, "*") {
		return "all event types"
	}
	return things(len(types), "event type")
}

// reach looks at what sending to an endpoint needs, and sends nothing.
func (d *doctor) reach(ctx context.Context, c config.Source, place string, t replay.Target) {
	d.signing(c, place, t)
	host, err := dial(ctx, t.URL)
	if err != nil {
		err = fmt.Errorf("connecting to %s, where replays are sent: %w; check url, and that the application runs there", replay.Origin(t.URL), err)
	}
	d.try(c.Name, place+" url", err, "%s takes connections", host)
}

// signing warns of secrets that cannot be an endpoint's.
func (d *doctor) signing(c config.Source, place string, t replay.Target) {
	if len(t.Secrets) == 0 {
		d.say(c.Name, place+" secrets", warning, "there are none, so nothing can be sent with --repair; write the endpoint's signing secret")
	}
	for i, secret := range t.Secrets {
		text := secret.Reveal()
		if c.Provider == stripe.Kind && (strings.HasPrefix(text, "sk_") || strings.HasPrefix(text, "rk_")) {
			d.say(c.Name, fmt.Sprintf("%s secrets[%d]", place, i), warning,
				"it looks like an API key; write the endpoint's signing secret, which begins with whsec_ (Stripe dashboard, Webhooks)")
		}
	}
}

// dialTimeout bounds the connection to an endpoint.
const dialTimeout = 3 * time.Second

// dial opens a connection to the host of a URL as a replay would, through the
// environment's proxy if there is one, and closes it. No request is made.
func dial(ctx context.Context, target string) (host string, err error) {
	u, err := url.Parse(target)
	if err != nil {
		return "", errors.New("the URL cannot be read")
	}
	to, host := u, u.Host
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u})
	if err != nil {
		return "", errors.New("the proxy of the environment cannot be read")
	}
	if proxy != nil {
		to, host = proxy, "the proxy "+proxy.Host
	}
	ctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, fmt.Errorf("no answer within %s", dialTimeout))
	defer cancel()
	conn, err := opener(to).DialContext(ctx, "tcp", net.JoinHostPort(to.Hostname(), portOf(to)))
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return "", err
	}
	return host, conn.Close()
}

// An opener of connections is *net.Dialer or *tls.Dialer.
func opener(u *url.URL) interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
} {
	if u.Scheme == "https" {
		return &tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12}}
	}
	return &net.Dialer{}
}

func portOf(u *url.URL) string {
	if u.Port() != "" {
		return u.Port()
	}
	return cmp.Or(map[string]string{"https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme], "80")
}
