package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/wI2L/jsondiff"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// takeApplied ends an apply item with what applying came to; its task goes on
// with that. What is no such thing is refused, and the item keeps its lease: a
// diff that cannot be read would be lost for good.
func (e *Engine) takeApplied(ctx context.Context, call *pawl.CompleteCall) (pawl.Moved, error) {
	const op = "apply"
	it, _, err := e.look(ctx, call.ItemID)
	if err != nil {
		return pawl.Moved{}, err
	}
	if err := checkApplied(call.Result); err != nil {
		return pawl.Moved{}, e.complain(ctx, call.Fence, op, err)
	}
	err = e.withLockedItem(ctx, call.Fence, op, func(ctx context.Context, tx store.Tx, g *store.LockedItem) error {
		ended, err := g.EndAside(ctx, tx, orNull(call.Result))
		if err == nil && !ended {
			err = &pawl.Error{Code: pawl.CodeUnavailable, Op: op, Message: "the item is being moved; try again"}
		}
		return err
	})
	if err != nil {
		return pawl.Moved{}, err
	}
	e.advanceSoon(ctx, it.TaskID)
	return pawl.Moved{ID: it.ID, TaskID: it.TaskID, State: pawl.ItemCompleted, Attempt: call.Attempt, Failures: it.Failures}, nil
}

// checkApplied says what is wrong with {"result": …, "diff": {…}} or null.
func checkApplied(raw json.RawMessage) error {
	var done pawl.Applied
	dec := json.NewDecoder(bytes.NewReader([]byte(orNull(raw))))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&done); err != nil {
		return pawl.Invalid("/result", `is not what applying comes to, {"result": …, "diff": {"summary", "before", "after", "operations", "counts"}}: %s`, strings.TrimPrefix(err.Error(), "json: "))
	}
	if done.Diff == nil || done.Diff.Operations == nil {
		return nil
	}
	var f fields
	f.patch("/result/diff/operations", done.Diff.Operations)
	return f.err("apply")
}

// operations are those of RFC 6902, with the member that each needs.
var operations = map[string]string{"add": "value", "replace": "value", "test": "value", "remove": "", "move": "from", "copy": "from"}

// patch checks that raw is a list of RFC 6902 operations.
func (f *fields) patch(at string, raw json.RawMessage) {
	var ops []map[string]json.RawMessage
	if json.Unmarshal(raw, &ops) != nil {
		f.add(at, "must be a list of RFC 6902 operations")
		return
	}
	for i, op := range ops {
		var verb, path string
		_, _ = json.Unmarshal(op["op"], &verb), json.Unmarshal(op["path"], &path) // what is no text is none
		needs, known := operations[verb]
		if !known || op["path"] == nil || path != "" && path[0] != '/' || needs != "" && op[needs] == nil {
			f.add(fmt.Sprintf("%s/%d", at, i), "is no RFC 6902 operation")
			return
		}
	}
}

// withOperations fills in what a diff with before and after leaves open: the operations
// between the two, and how many there are of each. Numbers are compared as written.
func withOperations(diff pawl.Diff) pawl.Diff {
	if diff.Operations == nil && diff.Before != nil && diff.After != nil {
		patch, err := jsondiff.CompareJSON(diff.Before, diff.After, jsondiff.UnmarshalFunc(asWritten))
		if err != nil {
			return diff // of a hook, and no JSON: it is told as it is
		}
		if diff.Operations = json.RawMessage("[]"); len(patch) > 0 {
			diff.Operations = json.RawMessage(asJSON(patch))
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

func asWritten(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return dec.Decode(into)
}
