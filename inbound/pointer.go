package inbound

import (
	"encoding/json"
	"strconv"
	"strings"
)

// isPointer reports whether a text is a JSON Pointer (RFC 6901) to a part of a value.
func isPointer(p string) bool {
	rest := strings.NewReplacer("~0", "", "~1", "").Replace(p)
	return strings.HasPrefix(p, "/") && !strings.Contains(rest, "~")
}

// headerID begins an Options.ID that names a header.
const headerID = "header:"

// isHeader reports whether an Options.ID names a header (RFC 9110, 5.1).
func isHeader(id string) bool {
	name, is := strings.CutPrefix(id, headerID)
	return is && name != "" &&
		strings.Trim(name, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// pick returns the part of a value that a pointer names; null if there is none. The pointer
// "" names the whole value.
func pick(value json.RawMessage, pointer string) json.RawMessage {
	null := json.RawMessage("null")
	if pointer == "" {
		return value
	}
	for token := range strings.SplitSeq(pointer[1:], "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		var members map[string]json.RawMessage
		var elements []json.RawMessage
		switch {
		case json.Unmarshal(value, &members) == nil && members != nil:
			value = members[token]
		case json.Unmarshal(value, &elements) == nil:
			i, err := strconv.Atoi(token)
			if err != nil || strconv.Itoa(i) != token || i < 0 || i >= len(elements) {
				return null
			}
			value = elements[i]
		default:
			return null
		}
		if value == nil {
			return null
		}
	}
	return value
}

// text returns a JSON text as it is, and a number or a truth value as its JSON; "" for all
// else.
func text(value json.RawMessage) string {
	var s string
	switch {
	case json.Unmarshal(value, &s) == nil:
		return s
	case string(value) == "null" || value[0] == '{' || value[0] == '[':
		return ""
	}
	return string(value)
}
