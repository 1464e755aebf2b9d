package engine

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
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

// checkHookResult checks the result that the hook Apply returned.
func checkHookResult(result json.RawMessage) error {
	switch {
	case len(result) > 0 && !json.Valid(result):
		return errors.New("the hook Apply returned a value that is not JSON")
	case len(result) > pawl.MaxPayloadBytes:
		return fmt.Errorf("the hook Apply returned %d bytes; at most %d are allowed", len(result), pawl.MaxPayloadBytes)
	}
	return nil
}

// ApplyAttempts returns the max_attempts of the item that applies a task of the type.
func (r *typeRules) ApplyAttempts() int {
	return cmp.Or(r.Apply.MaxAttempts, r.MaxAttempts, pawl.DefaultMaxAttempts)
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
