package rules

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/wI2L/jsondiff"

	"github.com/pawl-work/pawl"
)

// CheckApplied checks the result of an apply item: {"result": …, "diff": {…}} or null.
func CheckApplied(raw json.RawMessage) error {
	var done pawl.Applied
	dec := json.NewDecoder(bytes.NewReader([]byte(OrNull(raw))))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&done); err != nil {
		return pawl.Invalid("/result",
			`must be an apply result: {"result": …, "diff": {"summary", "before", "after", "operations", "counts"}}: %s`,
			strings.TrimPrefix(err.Error(), "json: "))
	}
	if done.Diff == nil || done.Diff.Operations == nil {
		return nil
	}
	var f Fields
	f.patch("/result/diff/operations", done.Diff.Operations)
	return f.Err("apply")
}

// operations lists the operations of RFC 6902, with the member that each needs.
var operations = map[string]string{"add": "value", "replace": "value", "test": "value", "remove": "", "move": "from", "copy": "from"}

// patch checks that raw is a list of RFC 6902 operations.
func (f *Fields) patch(at string, raw json.RawMessage) {
	var ops []map[string]json.RawMessage
	if json.Unmarshal(raw, &ops) != nil {
		f.Add(at, "must be a list of RFC 6902 operations")
		return
	}
	for i, op := range ops {
		var verb, path string
		_, _ = json.Unmarshal(op["op"], &verb), json.Unmarshal(op["path"], &path) // anything but a string counts as absent
		needs, known := operations[verb]
		if !known || op["path"] == nil || path != "" && path[0] != '/' || needs != "" && op[needs] == nil {
			f.Add(fmt.Sprintf("%s/%d", at, i), "is no RFC 6902 operation")
			return
		}
	}
}

// CheckHookResult checks the result that the hook Apply returned.
func CheckHookResult(result json.RawMessage) error {
	switch {
	case len(result) > 0 && !json.Valid(result):
		return errors.New("the hook Apply returned a value that is not JSON")
	case len(result) > pawl.MaxPayloadBytes:
		return fmt.Errorf("the hook Apply returned %d bytes; at most %d are allowed", len(result), pawl.MaxPayloadBytes)
	}
	return nil
}

// ApplyAttempts returns the max_attempts of the item that applies a task of the type.
func (r *Rules) ApplyAttempts() int {
	return cmp.Or(r.Apply.MaxAttempts, r.MaxAttempts, pawl.DefaultMaxAttempts)
}

// CompleteDiff fills in what a diff with before and after leaves out: the operations
// between the two, and the count of each operation. Numbers are compared as written.
func CompleteDiff(diff pawl.Diff) pawl.Diff {
	if diff.Operations == nil && diff.Before != nil && diff.After != nil {
		patch, err := jsondiff.CompareJSON(diff.Before, diff.After, jsondiff.UnmarshalFunc(decodeExact))
		if err != nil {
			return diff // not JSON, from a hook: it is stored unchanged
		}
		if diff.Operations = json.RawMessage("[]"); len(patch) > 0 {
			diff.Operations = json.RawMessage(Encode(patch))
		}
	}
	var ops []struct{ Op string }
	if diff.Counts == nil && diff.Operations != nil && json.Unmarshal(diff.Operations, &ops) == nil {
		diff.Counts = map[string]int64{}
		for _, op := range ops {
			diff.Counts[op.Op]++
		}
	}
	return diff
}

// decodeExact decodes JSON and leaves numbers as they are written.
func decodeExact(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return dec.Decode(into)
}
