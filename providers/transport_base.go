package providers

import (
	"net/http"
	"sync"
)

// idlePerHost is how many connections to one host are kept for the next request.
// http.DefaultTransport keeps two, so that of more requests at once nearly every
// one would have to connect anew, over HTTP/1.1.
const idlePerHost = 64

// sharedBase is what carries requests where the options name nothing: as
// http.DefaultTransport does, but with more connections kept. It is one for the
// whole process, so that the next run finds the connections of the last.
var sharedBase = sync.OnceValue(func() http.RoundTripper {
	standard, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	base := standard.Clone()
	base.MaxIdleConnsPerHost = idlePerHost
	base.MaxIdleConns = 4 * idlePerHost
	return base
})
