package config

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/nightaudit/nightaudit/providers"
)

// hidden stands in a message for text that may be a secret.
const hidden = "[redacted]"

// Shapes of secrets that end up in the wrong place of a config: the prefixes
// that providers give their keys so that scanners find them, user info in a URL,
// and long random words.
var (
	keyPrefix  = regexp.MustCompile(`(?i)\b(sk|rk|whsec|ghp|gho|ghs|ghu|ghr|github_pat|pdl|xox[a-z]|xapp|shp[a-z]{2})[_-][a-z0-9_-]{6,}|\beyJ[A-Za-z0-9_-]{10,}|-----BEGIN `)
	userInfo   = regexp.MustCompile(`://[^\s]*@|(?i)(password|passwd|token|secret|signature)\s*=`)
	randomWord = regexp.MustCompile(`[A-Za-z0-9+/_=-]{24,}`)
	hasDigit   = regexp.MustCompile(`[0-9]`)
	hasLetter  = regexp.MustCompile(`[A-Za-z]`)
)

// looksSecret reports whether s has the shape of a credential. It errs on the
// side of hiding.
func looksSecret(s string) bool {
	if keyPrefix.MatchString(s) || userInfo.MatchString(s) {
		return true
	}
	for _, w := range randomWord.FindAllString(s, -1) {
		if hasDigit.MatchString(w) && hasLetter.MatchString(w) {
			return true
		}
	}
	return false
}

// shownFile is a file's path as a message may print it. Long names are common in
// paths, so only a key's own prefix hides one.
func shownFile(path string) string {
	if strings.ContainsRune(path, '/') && !keyPrefix.MatchString(path) {
		return path
	}
	return shown(path)
}

// maxShown is how many bytes of a value a message repeats.
const maxShown = 80

// shown is a value as a message may print it; "" if it may be a secret.
func shown(s string) string {
	if looksSecret(s) {
		return ""
	}
	if len(s) <= maxShown {
		return s
	}
	cut := maxShown
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}

var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,62}$`)

// shownKey is a mapping's key as a path may print it. A key that does not read
// like one may be a secret that slipped to the left of a colon.
func shownKey(k string) string {
	if plainKey.MatchString(k) && !looksSecret(k) {
		return k
	}
	return hidden
}

// What a known secret must have in bytes to be taken out of a message: of a value,
// and of our own words around it. Shorter ones would tear those apart ("postgres"
// is a common password on a developer's machine).
const (
	minHiddenInValue = 4
	minHiddenInWords = 10
)

// hideSecrets takes the known secrets out of the problems' texts, whatever wrote
// them there.
func hideSecrets(problems []Problem, secrets []providers.Secret) {
	for i := range problems {
		p := &problems[i]
		for _, s := range secrets {
			if len(s) >= minHiddenInValue {
				p.Value = strings.ReplaceAll(p.Value, s.Reveal(), hidden)
			}
			if len(s) >= minHiddenInWords {
				p.Path = strings.ReplaceAll(p.Path, s.Reveal(), hidden)
				p.Fix = strings.ReplaceAll(p.Fix, s.Reveal(), hidden)
			}
		}
	}
}
