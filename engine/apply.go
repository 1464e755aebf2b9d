package engine

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
)

// checkApplied checks the result of an apply item: {"result": …, "diff": {…}} or null.
func checkApplied(raw json.RawMessage) error {
	var done pawl.Applied
	dec := json.NewDecoder(bytes.NewReader([]byte(rules.OrNull(raw))))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&done); err != nil {
		return pawl.Invalid("/result",
			`must be an apply result: {"result": …, "diff": {"summary", "before", "after", "operations", "counts"}}: %s`,
			strings.TrimPrefix(err.Error(), "json: "))
	}
	if done.Diff == nil || done.Diff.Operations == nil {
		return nil
	}
	var f rules.Fields
	f.Patch("/result/diff/operations", done.Diff.Operations)
	return f.Err("apply")
}

// completeDiff fills in what a diff with before and after leaves out: the operations
// between the two, and the count of each operation. Numbers are compared as written.
func completeDiff(diff pawl.Diff) pawl.Diff {
	if diff.Operations == nil && diff.Before != nil && diff.After != nil {
		var before, after any
		if decodeExact(diff.Before, &before) != nil || decodeExact(diff.After, &after) != nil {
			return diff // not JSON, from a hook: it is stored unchanged
		}
		diff.Operations = json.RawMessage("[]")
		if ops := operations(before, after); len(ops) > 0 {
			diff.Operations = json.RawMessage(rules.Encode(ops))
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
