package pawl

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// HashOf returns the SHA-256, in hex, of a value's canonical JSON: members sorted, no
// white space, numbers as written (2^53+1 and 2^53 stay different).
func HashOf(v any) (string, error) {
	raw, ok := v.(json.RawMessage)
	if !ok {
		b, err := json.Marshal(v)
		if err != nil {
			return "", Invalid("", "cannot be written as JSON: %v", err)
		}
		raw = b
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return "", Invalid("", "is not JSON: %v", err)
	}
	canonical, err := json.Marshal(tree) // maps are written with sorted keys, numbers as they are
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}
