package providers

import "net/http"

// An Adapter opens the sources of one kind of provider. Package all lists them.
type Adapter struct {
	Kind string // the name in the config: "stripe"
	// Open checks the settings without any I/O and returns every mistake at once,
	// joined, each a *SettingError.
	Open func(Settings) (Provider, error)
}

// Settings is what the config says of one source, as an adapter gets it.
type Settings struct {
	Source      string            // the source's name, for messages
	BaseURL     string            // elsewhere than the provider's own address; "" is there
	Credentials map[string]Secret // by the config's key: "api_key"
	YAML        []byte            // the source's `settings:` mapping; the adapter decodes it strictly
	Client      *http.Client      // goes through Transport: rate, retries, redaction
}
