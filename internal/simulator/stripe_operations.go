package simulator

import (
	"net/http"
	"net/url"
	"strings"
)

// route finds the operation of a request and performs it.
func (s *Stripe) route(w http.ResponseWriter, r *http.Request, c caller) *apiError {
	op, id, known := operationOf(r)
	if !known {
		return unknownURL(r)
	}
	if err := c.key.allows(op.permission, c.account, s.opts.Platform); err != nil {
		return err
	}
	return op.serve(s, w, r.URL.Query(), c, id)
}

// operation is one thing that the API can be asked.
type operation struct {
	permission string
	serve      func(s *Stripe, w http.ResponseWriter, q url.Values, c caller, id string) *apiError
}

// operationOf finds the operation and the id in a request's path.
func operationOf(r *http.Request) (op operation, id string, known bool) {
	if r.Method != http.MethodGet {
		return operation{}, "", false
	}
	collection, id, single := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
	if single && (id == "" || strings.Contains(id, "/")) {
		return operation{}, "", false
	}
	ops := listOperations
	if single {
		ops = readOperations
	}
	op, known = ops[collection]
	return op, id, known
}

var listOperations = map[string]operation{
	"events":            {EventRead, (*Stripe).listEvents},
	"webhook_endpoints": {WebhookRead, (*Stripe).listEndpoints},
	"accounts":          {AccountRead, (*Stripe).listAccounts},
	"account":           {AccountRead, (*Stripe).readOwnAccount},
}

var readOperations = map[string]operation{
	"events":            {EventRead, (*Stripe).readEvent},
	"webhook_endpoints": {WebhookRead, (*Stripe).readEndpoint},
	"accounts":          {AccountRead, (*Stripe).readAccount},
}
