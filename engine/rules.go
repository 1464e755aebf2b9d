package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// rules are a type's version with its hooks, ready to be asked.
type rules struct {
	*pawl.Type
	hooks pawl.Hooks
	e     *Engine
}

// rulesOf are the rules of a type's version.
func (e *Engine) rulesOf(ctx context.Context, tx store.Tx, namespace, name string, version int) (*rules, error) {
	if version == 0 {
		return e.ruled(&pawl.Type{Name: name}), nil // unregistered
	}
	if t := e.types.get(namespace, name, version); t != nil {
		return e.ruled(t), nil
	}
	row, err := store.GetType(ctx, tx, namespace, name, version)
	if err != nil {
		return nil, err
	}
	if row.Version == 0 {
		return nil, pawl.NotFound("type", fmt.Sprintf("%s version %d", name, version))
	}
	t, err := row.Type(name)
	if err != nil {
		return nil, err
	}
	if !e.inTx() { // there it may be uncommitted
		e.types.keep(namespace, &t)
	}
	return e.ruled(&t), nil
}

func (e *Engine) ruled(t *pawl.Type) *rules { return &rules{t, e.opts.Hooks[t.Name], e} }

// rulesOfTask are those of a task's version of its type, and the queue of its items
// that name no other.
func (e *Engine) rulesOfTask(ctx context.Context, taskID string) (r *rules, q queue, err error) {
	r, err = view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (*rules, error) {
		var version int
		if q.name, version, q.priority, err = store.TypeOfTask(ctx, tx, ns, taskID); err != nil {
			return nil, err
		}
		return e.rulesOf(ctx, tx, ns, q.name, version)
	})
	return r, q, err
}

// fits says what in a value does not fit a schema, below a pointer; nothing when
// there is none.
func (r *rules) fits(at string, schema, value json.RawMessage) fields {
	if len(schema) == 0 {
		return nil
	}
	compiled, bad := r.e.schemas.Get(schema)
	if len(bad) == 0 {
		bad = compiled.Check(value)
	}
	var f fields
	for _, x := range bad {
		f.add(at+x.Pointer, "%s", x.Message)
	}
	return f
}

// checkResult says what is wrong with a result.
func (r *rules) checkResult(result json.RawMessage) fields {
	limit := pawl.MaxPayloadBytes
	if r.Limits.MaxResultBytes > 0 {
		limit = min(limit, r.Limits.MaxResultBytes)
	}
	if len(result) > limit {
		var f fields
		f.add("/result", "has %d bytes; at most %d are allowed", len(result), limit)
		return f
	}
	return r.fits("/result", r.ResultSchema, result)
}

// checkPart says what is wrong with a part.
func (r *rules) checkPart(key string, payload json.RawMessage) fields {
	return r.fits("/payload", r.Part(key).Schema, payload)
}

func (r *rules) partKeys() []string {
	keys := make([]string, len(r.Parts))
	for i := range r.Parts {
		keys[i] = r.Parts[i].Key
	}
	return keys
}

func (r *rules) maxParts() int {
	if r.Limits.MaxParts > 0 {
		return min(r.Limits.MaxParts, pawl.MaxParts)
	}
	return pawl.MaxParts
}

// noHook is what a process answers that lacks a hook its type calls for.
func (r *rules) noHook(name string) error {
	return &pawl.Error{Code: pawl.CodeUnavailable, Message: fmt.Sprintf("the type %s needs the hook %s, which this process does not have", r.Name, name)}
}

// looksAtItems says whether a decision needs the items' results.
func (r *rules) looksAtItems() bool {
	return r.hooks.Check != nil || r.hooks.AutoApprove != nil || len(r.Approval.When) > 0 || r.Apply.Mode == pawl.ApplyGo
}

// check asks the type's check about all that was handed in.
func (r *rules) check(ctx context.Context, t pawl.Task, items []pawl.Item) (out []pawl.Complaint, err error) {
	if r.hooks.Check == nil {
		return nil, nil
	}
	err = guarded(func() (err error) {
		out, err = r.hooks.Check(ctx, t, items)
		return err
	})
	return out, err
}

// approves says whether the type's rule approves the task, without a decision by a caller.
func (r *rules) approves(ctx context.Context, t pawl.Task, items []pawl.Item) (yes bool, err error) {
	switch r.Approval.Mode {
	case "", pawl.ApprovalNone:
		return true, nil
	case pawl.ApprovalManual:
		return false, nil
	}
	for i := range items {
		if len(r.fits("", r.Approval.When, items[i].Result)) > 0 {
			return false, nil
		}
	}
	if r.hooks.AutoApprove == nil {
		return true, nil
	}
	err = guarded(func() (err error) {
		yes, err = r.hooks.AutoApprove(ctx, t, items)
		return err
	})
	return yes, err
}

// apply makes the task take effect.
func (r *rules) apply(ctx context.Context, a pawl.Application) (out pawl.Applied, err error) {
	if r.hooks.Apply == nil {
		return out, r.noHook("Apply")
	}
	err = guarded(func() error {
		if r.hooks.BeforeApply != nil {
			if err := r.hooks.BeforeApply(ctx, a); err != nil {
				return err
			}
		}
		out, err = r.hooks.Apply(ctx, a)
		return err
	})
	switch {
	case err != nil:
		return out, err
	case len(out.Result) > 0 && !json.Valid(out.Result):
		return out, errors.New("what applying returned is no JSON")
	case len(out.Result) > pawl.MaxPayloadBytes:
		return out, fmt.Errorf("what applying returned has %d bytes; at most %d are allowed", len(out.Result), pawl.MaxPayloadBytes)
	}
	return out, nil
}

// applyItem is the item that a worker applies a task by.
func (r *rules) applyItem(id, namespace, taskID string) store.NewItem {
	attempts := r.Apply.MaxAttempts
	for _, n := range []int{r.MaxAttempts, pawl.DefaultMaxAttempts} {
		if attempts == 0 {
			attempts = n
		}
	}
	return store.NewItem{ID: id, Namespace: namespace, TaskID: taskID, Type: r.Name + pawl.ApplySuffix, Kind: pawl.KindApply, Aside: true, Acceptance: true, Priority: r.Priority, MaxAttempts: attempts,
		Input: string(asJSON(map[string]string{"task_id": taskID})), Actor: system}
}
