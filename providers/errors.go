package providers

import (
	"fmt"
	"time"
)

// A CredentialsError says that the provider does not accept the credentials.
type CredentialsError struct {
	Op  string // what was being done: "listing events"
	Fix string // what the operator does about it
	Err error  // the provider's answer, redacted
}

func (e *CredentialsError) Error() string {
	return fmt.Sprintf("%s: the provider rejected the credentials (%v); %s", e.Op, e.Err, e.Fix)
}

func (e *CredentialsError) Unwrap() error { return e.Err }

// A PermissionError says that the credentials are accepted and lack a permission.
type PermissionError struct {
	Op      string // what was being done
	Missing string // the permission, in the provider's own words
	Fix     string // where to grant it
	Err     error
}

func (e *PermissionError) Error() string {
	return fmt.Sprintf("%s: the credentials lack %s; %s", e.Op, e.Missing, e.Fix)
}

func (e *PermissionError) Unwrap() error { return e.Err }

// A ThrottledError says that the provider told us to stay away for longer than
// a run waits.
type ThrottledError struct {
	Op   string
	Wait time.Duration // what the provider asked for, 0 if it did not say
}

func (e *ThrottledError) Error() string {
	return fmt.Sprintf("%s: the provider throttles us beyond what a run waits for (asked for %s); lower the source's rate or run later", e.Op, e.Wait)
}

// A SignatureError says that a delivery is not genuine, or not for us.
type SignatureError struct {
	Why string
}

func (e *SignatureError) Error() string { return "delivery refused: " + e.Why }

// A SettingError says which of an adapter's own settings is wrong.
type SettingError struct {
	Key   string // path below the source: "credentials.api_key", "settings.accounts"
	Value string // what was written; "" for secrets
	Fix   string // what to write instead
}

func (e *SettingError) Error() string {
	if e.Value == "" {
		return fmt.Sprintf("%s: %s", e.Key, e.Fix)
	}
	return fmt.Sprintf("%s: %q %s", e.Key, e.Value, e.Fix)
}
