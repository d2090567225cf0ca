package listing

import (
	"crypto/sha256"
	"fmt"

	"github.com/nightaudit/nightaudit/providers"
)

// An identity stands for a key: 16 bytes instead of the text, so that a busy
// second costs little; two keys never share one in practice.
type identity [16]byte

func identify(key string) identity {
	sum := sha256.Sum256([]byte(key))
	return identity(sum[:16])
}

// seen is the events that a part has.
type seen map[identity]struct{}

// add reports whether the key is new.
func (s seen) add(id identity) bool {
	if _, again := s[id]; again {
		return false
	}
	s[id] = struct{}{}
	return true
}

// UnreadableKey is the key of an element that could not be decoded: the
// provider's id where there is one, else a fingerprint of its bytes.
func UnreadableKey(u providers.Unreadable) string {
	if u.ID != "" {
		return u.ID
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(u.Bytes))
}
