package engine

import (
	"encoding/json"
	"strings"
)

// at reads a JSON Pointer (RFC 6901).
func at(raw json.RawMessage, pointer string) (json.RawMessage, bool) {
	if pointer == "" {
		return raw, len(raw) > 0
	}
	if pointer[0] != '/' {
		return nil, false
	}
	for _, token := range strings.Split(pointer[1:], "/") {
		token = unescape(token)
		var object map[string]json.RawMessage
		var list []json.RawMessage
		if json.Unmarshal(raw, &object) == nil && object != nil {
			v, ok := object[token]
			if !ok {
				return nil, false
			}
			raw = v
		} else if n := 0; json.Unmarshal(raw, &list) == nil && json.Unmarshal([]byte(token), &n) == nil && n >= 0 && n < len(list) {
			raw = list[n]
		} else {
			return nil, false
		}
	}
	return raw, true
}

// unescape reads a token of a JSON Pointer.
func unescape(token string) string { return strings.NewReplacer("~1", "/", "~0", "~").Replace(token) }
