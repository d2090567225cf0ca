package providers

import "log/slog"

// A Secret is a credential. Printing, logging or encoding it shows nothing of
// it; only Reveal gives the text, where it is used.
type Secret string

const redacted = "[redacted]"

// Reveal is the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String, GoString, MarshalText and LogValue hide the secret from every printer.
func (s Secret) String() string { return redacted }

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return redacted }

// MarshalText hides the secret from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue hides the secret from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }
