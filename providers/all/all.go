// Package all lists the adapters that nightaudit has.
package all

import (
	"github.com/nightaudit/nightaudit/providers"
	"github.com/nightaudit/nightaudit/providers/stripe"
)

// Adapters returns every adapter, in the order of their kinds.
func Adapters() []providers.Adapter {
	return []providers.Adapter{
		stripe.Adapter(),
	}
}
