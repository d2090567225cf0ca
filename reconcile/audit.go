package reconcile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/reconcile/replay"
	"github.com/nightaudit/nightaudit/store"
)

// A fault is one thing wrong with a stream's endpoints.
type fault struct {
	kind   store.Kind
	key    string
	detail string
}

// audit says what is wrong with the endpoints of a stream: disabled, missing,
// not subscribed to a type that the config names, or two for one URL. It does no
// I/O.
func audit(endpoints []providers.Endpoint, targets []replay.Target, f Filter) []fault {
	ours := behind(endpoints, targets)
	return slices.Concat(disabled(ours), missingEndpoints(endpoints, targets), unsubscribedTypes(ours, f), duplicates(endpoints))
}

func disabled(ours []providers.Endpoint) []fault {
	var faults []fault
	for _, ep := range ours {
		if !ep.Enabled {
			faults = append(faults, fault{store.EndpointDisabled, ep.ID,
				fmt.Sprintf("endpoint %s is disabled: the provider delivers nothing to it; enable it again once the handler is well", ep.ID)})
		}
	}
	return faults
}

func missingEndpoints(endpoints []providers.Endpoint, targets []replay.Target) []fault {
	var faults []fault
	for i, t := range targets {
		if !anySameURL(endpoints, t.Public()) {
			faults = append(faults, fault{store.EndpointMissing, fmt.Sprintf("endpoints[%d]", i),
				fmt.Sprintf("the provider has no endpoint with the URL of endpoints[%d] in the config; create it there, or "+
					"set public_url to the URL that the provider knows", i)})
		}
	}
	return faults
}

// unsubscribedTypes are those that the config names and no enabled endpoint asks for.
func unsubscribedTypes(ours []providers.Endpoint, f Filter) []fault {
	var faults []fault
	for _, pattern := range f.Include {
		covered := slices.ContainsFunc(ours, func(ep providers.Endpoint) bool {
			return ep.Enabled && slices.ContainsFunc(ep.Types, func(t string) bool { return overlap(t, pattern) })
		})
		if !covered {
			faults = append(faults, fault{store.EndpointUnsubscribed, pattern,
				fmt.Sprintf("the config names %s and no enabled endpoint subscribes to it", pattern)})
		}
	}
	return faults
}

// overlap reports whether two patterns have a type in common.
func overlap(a, b string) bool {
	return providers.MatchType(a, strings.TrimSuffix(b, "*")) || providers.MatchType(b, strings.TrimSuffix(a, "*"))
}

// duplicates are enabled endpoints that share a URL: every event arrives twice.
func duplicates(endpoints []providers.Endpoint) []fault {
	var faults []fault
	for i, a := range endpoints {
		for _, b := range endpoints[i+1:] {
			if a.Enabled && b.Enabled && replay.SameURL(a.URL, b.URL) && shareType(a, b) {
				faults = append(faults, fault{store.EndpointDuplicate, a.ID + " " + b.ID,
					fmt.Sprintf("endpoints %s and %s have one URL: each event is delivered twice; delete one of them", a.ID, b.ID)})
			}
		}
	}
	return faults
}

func shareType(a, b providers.Endpoint) bool {
	return slices.ContainsFunc(a.Types, func(t string) bool {
		return slices.ContainsFunc(b.Types, func(u string) bool { return overlap(t, u) })
	})
}
