package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// UpdateTasks changes tasks; see pawl.TaskMaker.
func (e *Engine) UpdateTasks(ctx context.Context, calls []pawl.TaskUpdate) ([]pawl.Result[pawl.Task], error) {
	if err := tooMany("update", len(calls)); err != nil {
		return nil, err
	}
	out := make([]pawl.Result[pawl.Task], len(calls))
	for i := range calls {
		out[i].Value, out[i].Err = e.updateTask(ctx, &calls[i])
	}
	return out, nil
}

// errOvertaken says that the task was changed while its items were being moved.
var errOvertaken = &pawl.Error{Code: pawl.CodeUnavailable, Op: "update", Message: "the task is being changed; try again"}

func (e *Engine) updateTask(ctx context.Context, call *pawl.TaskUpdate) (t pawl.Task, err error) {
	if err := checkUpdate(call); err != nil {
		return t, err
	}
	if call.Priority != nil {
		if _, q, err := e.rulesOfTask(ctx, call.TaskID); err != nil {
			return t, err
		} else if err := e.checkQueue(ctx, pawl.CallerOf(ctx).Namespace, queue{q.name, *call.Priority}); err != nil {
			return t, err
		}
	}
	for range 4 {
		var released []store.DueItem
		err = e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			t, released, err = update(ctx, tx, call)
			return err
		})
		if err == nil {
			e.after(func() { e.itemsQueued(released) })
		}
		if !errors.Is(err, errOvertaken) {
			break
		}
	}
	return t, err
}

func checkUpdate(call *pawl.TaskUpdate) error {
	var f fields
	f.text("/task_id", call.TaskID, 1, pawl.MaxIDLen)
	f.object("/metadata", &call.Metadata, pawl.MaxMetadataBytes)
	if call.Title == nil && call.Priority == nil && len(call.Metadata) == 0 {
		f.add("", "asks for no change; there are title, priority and metadata")
	}
	if call.Title != nil {
		f.text("/title", *call.Title, 0, pawl.MaxTitleLen)
	}
	if call.Priority != nil {
		f.number("/priority", *call.Priority, pawl.MinPriority, pawl.MaxPriority)
	}
	return f.err("update")
}

// update locks the task, moves its items and then locks its counters, in the order
// in which all verbs lock.
func update(ctx context.Context, tx store.Tx, call *pawl.TaskUpdate) (t pawl.Task, released []store.DueItem, err error) {
	c := pawl.CallerOf(ctx)
	now, err := tx.Now(ctx)
	if err != nil {
		return t, nil, err
	}
	if err := store.LockTaskRow(ctx, tx, c.Namespace, call.TaskID); err != nil {
		return t, nil, err
	}
	seen, err := store.GetTask(ctx, tx, c.Namespace, call.TaskID)
	if err != nil {
		return t, nil, err
	}
	if err := updatable(seen, call); err != nil {
		return t, nil, err
	}
	if call.Priority != nil && *call.Priority != seen.Priority {
		if released, err = store.Reprioritize(ctx, tx, call.TaskID, seen.Priority, *call.Priority); err != nil {
			return t, nil, err
		}
	}
	if t, err = store.LockTask(ctx, tx, now, c.Namespace, call.TaskID); err != nil {
		return t, nil, err
	}
	if err := updatable(t, call); err != nil {
		return t, nil, err
	}
	if call.Priority != nil && t.Priority != seen.Priority {
		return t, nil, errOvertaken
	}
	diff, err := change(&t, call)
	if err != nil || diff == "" {
		return t, nil, err
	}
	by := actor(c, pawl.ActorUser, "")
	if err := store.UpdateTask(ctx, tx, now, t, diff, by); err != nil {
		return t, nil, err
	}
	t, err = taskAndReason(ctx, tx, c.Namespace, call.TaskID)
	return t, released, err
}

func updatable(t pawl.Task, call *pawl.TaskUpdate) error {
	if call.Version != nil && *call.Version != t.Version {
		return otherVersion("update", string(t.State), t.Version, *call.Version)
	}
	if t.State.Ended() {
		return conflict("update", string(t.State), t.State.Allowed())
	}
	return nil
}

// otherVersion refuses a call about a version that the task does not have.
func otherVersion(verb, state string, has, named int) error {
	return &pawl.Error{Code: pawl.CodePrecondition, Op: verb, State: state, Allowed: pawl.TaskState(state).Allowed(),
		Message: fmt.Sprintf("the task has version %d, not %d: it has changed since you looked", has, named)}
}

// changed is one line of an update's diff.
type changed struct {
	From any `json:"from"`
	To   any `json:"to"`
}

// change makes the changes in t and says which, as JSON; "" = none.
func change(t *pawl.Task, call *pawl.TaskUpdate) (string, error) {
	diff := map[string]changed{}
	if call.Title != nil && *call.Title != t.Title {
		diff["title"] = changed{t.Title, *call.Title}
		t.Title = *call.Title
	}
	if call.Priority != nil && *call.Priority != t.Priority {
		diff["priority"] = changed{t.Priority, *call.Priority}
		t.Priority = *call.Priority
	}
	if len(call.Metadata) > 0 {
		merged := merge(t.Metadata, call.Metadata)
		var f fields
		f.object("/metadata", &merged, pawl.MaxMetadataBytes)
		if err := f.err("update"); err != nil {
			return "", err
		}
		if !bytes.Equal(merge(json.RawMessage("{}"), t.Metadata), merged) {
			diff["metadata"] = changed{t.Metadata, merged}
			t.Metadata = merged
		}
	}
	if len(diff) == 0 {
		return "", nil
	}
	b, err := json.Marshal(diff)
	return string(b), err
}

// merge is a JSON merge patch (RFC 7396) of an object, its names in order.
func merge(target, patch json.RawMessage) json.RawMessage {
	var with map[string]json.RawMessage
	if json.Unmarshal(patch, &with) != nil || with == nil {
		return patch
	}
	into := map[string]json.RawMessage{}
	_ = json.Unmarshal(target, &into) // what is no object is replaced by one
	if into == nil {
		into = map[string]json.RawMessage{}
	}
	for name, value := range with {
		if string(bytes.TrimSpace(value)) == "null" {
			delete(into, name)
			continue
		}
		into[name] = merge(into[name], value)
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for i, name := range slices.Sorted(maps.Keys(into)) {
		if i > 0 {
			b.WriteByte(',')
		}
		key, _ := json.Marshal(name) // text always marshals
		b.Write(append(append(key, ':'), into[name]...))
	}
	b.WriteByte('}')
	return b.Bytes()
}
