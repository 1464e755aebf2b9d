package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// itemResult is one completed item's result, in order of position.
type itemResult struct {
	Key    string
	Solo   bool
	Result json.RawMessage
}

// results reads the results of a task's items, or the result of apply (nil = none).
func results(ctx context.Context, tx store.Tx, taskID string) ([]itemResult, json.RawMessage, error) {
	var applied string
	found, err := store.Row(ctx, tx, []any{&applied}, readSQL["applied result"], store.TaskID(taskID))
	if err != nil || found {
		return nil, json.RawMessage(applied), err
	}
	var size int64
	if _, err := store.Row(ctx, tx, []any{&size}, readSQL["size of results"], store.TaskID(taskID)); err != nil {
		return nil, nil, err
	}
	if size > pawl.MaxCallBytes {
		return nil, nil, &pawl.Error{Code: pawl.CodeTooLarge, Op: "result",
			Message: fmt.Sprintf("the results of its items have %d bytes together; at most %d are read as one: list the task's items", size,
				pawl.MaxCallBytes)}
	}
	var out []itemResult
	err = store.EachRow(ctx, tx, func(rows store.Rows) error {
		var key, result store.Text
		var solo int
		if err := rows.Scan(&key, &solo, &result); err != nil {
			return err
		}
		out = append(out, itemResult{string(key), solo == 1, json.RawMessage(result)})
		return nil
	}, readSQL["results"], store.TaskID(taskID))
	return out, nil, err
}

// holderOfHash returns the task that holds an input hash, or "" when there is none. If
// that task is dead-lettered and the engine has not released its hash yet, HolderOfHash
// releases it.
func holderOfHash(ctx context.Context, tx store.Tx, namespace, typ, hash string) (id string, err error) {
	var state string
	into := []any{(*store.TaskID)(&id), &state}
	if _, err = store.Row(ctx, tx, into, readSQL["holder of hash"], namespace, typ, hash); err != nil || state != "dead_lettered" {
		return id, err
	}
	c, found, err := store.OpenDecision(ctx, tx, namespace, id)
	if err != nil || !found || c.State != "dead_lettered" { // the task was retried in the meantime
		return id, err
	}
	return "", c.ReleaseHash(ctx, tx)
}

// traceOfTask reads the trace context of a task; see TraceOf.
func traceOfTask(ctx context.Context, tx store.Tx, id string) (parent, state string, err error) {
	var stored store.Text
	_, err = store.Row(ctx, tx, []any{&stored}, readSQL["trace of task"], store.TaskID(id))
	parent, state = store.TraceOf(stored)
	return parent, state, err
}
