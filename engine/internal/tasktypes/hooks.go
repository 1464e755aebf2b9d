package tasktypes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/internal/shellwords"
	"github.com/pawl-work/pawl/store"
)

// checkHooks refuses Without with another hook, or with one that the type has, and hooks that would never be called.
func checkHooks(all map[string]pawl.Hooks) error {
	for name, h := range all {
		if h.Apply == nil && (h.BeforeApply != nil || h.AfterApply != nil) {
			return &pawl.Error{Code: pawl.CodeInvalid, Op: "open",
				Message: fmt.Sprintf("Hooks of %s: BeforeApply and AfterApply are called by the process that applies, and there is no Apply", name)}
		}
		has := map[string]bool{"Check": h.Check != nil, "AutoApprove": h.AutoApprove != nil}
		for _, gone := range h.Without {
			if has, known := has[gone]; !known || has {
				return &pawl.Error{Code: pawl.CodeInvalid, Op: "open",
					Message: fmt.Sprintf("Hooks of %s: Without names %q; it may name Check or AutoApprove, if the type has no such hook", name, gone)}
			}
		}
	}
	return nil
}

// notedHooks are the hooks whose types the database knows.
var notedHooks = []string{"Check", "AutoApprove"}

// NoteHooks stores which hooks this process has that others must not pass over.
func (r *Registry) NoteHooks(ctx context.Context) error {
	if len(r.hooks) == 0 {
		return nil
	}
	if err := checkHooks(r.hooks); err != nil {
		return err
	}
	err := r.k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		for _, name := range slices.Sorted(maps.Keys(r.hooks)) {
			h := r.hooks[name]
			var has []string
			if h.Check != nil {
				has = append(has, "Check")
			}
			if h.AutoApprove != nil {
				has = append(has, "AutoApprove")
			}
			gone := h.Without
			if reflect.ValueOf(h).IsZero() {
				gone = notedHooks
			}
			for query, hooks := range map[string][]string{"note hook": has, "forget hook": gone} {
				for _, hook := range hooks {
					if _, err := tx.Exec(ctx, texts[query], name, hook); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
	if pawl.CodeOf(err) == pawl.CodeMoved { // a server starts, and says so
		return nil
	}
	return err
}

// NotedHooks returns the hooks that processes have, each as the type, a space and the hook.
func (r *Registry) NotedHooks(ctx context.Context) (out []string, err error) {
	err = r.k.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		out, err = store.Strings(ctx, tx, texts["noted hooks"])
		return err
	})
	return out, err
}

// hookLate is longer than a process with a hook leaves a task alone.
const hookLate = 10 * time.Minute

// noHook warns of types whose tasks wait for their checks, which a process with the hook would have tried.
func noHook(ctx context.Context, tx store.Tx, now int64) ([]store.Warning, error) {
	args := []any{now - hookLate.Microseconds(), store.WarnedTypes}
	return store.All(ctx, tx, texts["unchecked"], args, func(rows store.Rows, w *store.Warning) error {
		var ns, name string
		var n, at int64
		err := rows.Scan(&ns, &name, &n, &at)
		*w = store.Warning{Code: "no_hook", Command: shellwords.Line(ns, "task list", "--type", name, "--state", "submitted"),
			Detail: fmt.Sprintf("%d tasks of type %s of namespace %s wait for their checks, one for %s: no live process with the "+
				"hook Check or AutoApprove of the type runs sweeps; start the application, or take the hook back (docs/types.md)",
				n, name, ns, (time.Duration(now-at) * time.Microsecond).Round(time.Second))}
		return err
	})
}

// LacksCheck returns the error of a process that lacks a hook which others have, for the check before an approval: those
// that the database knows of the type. nil = it lacks none.
func (r *Rules) LacksCheck(checks, approves bool) error {
	switch {
	case checks && r.hooks.Check == nil:
		return r.noHook("Check")
	case approves && r.hooks.AutoApprove == nil && r.Approval.Mode == pawl.ApprovalAuto:
		return r.noHook("AutoApprove")
	}
	return nil
}

// LacksApply returns the error of a process that lacks the hook by which tasks of the type are applied; nil = it lacks none.
func (r *Rules) LacksApply() error {
	if r.Apply.Mode == pawl.ApplyGo && r.hooks.Apply == nil {
		return r.noHook("Apply")
	}
	return nil
}

// AfterApply returns the hook AfterApply; nil = none.
func (r *Rules) AfterApply() func(ctx context.Context, t pawl.Task, done pawl.Applied) {
	return r.hooks.AfterApply
}

// noHook returns the error of a process that lacks a hook of the type.
func (r *Rules) noHook(name string) error {
	return &pawl.Error{
		Code:    pawl.CodeUnavailable,
		Message: fmt.Sprintf("the type %s needs the hook %s, which this process does not have", r.Name, name),
		Err:     kernel.ErrNoHook,
	}
}

// LooksAtItems reports whether a decision needs the items' results.
func (r *Rules) LooksAtItems() bool {
	return r.hooks.Check != nil || r.hooks.AutoApprove != nil || len(r.Approval.When) > 0 || r.Apply.Mode == pawl.ApplyGo
}

// Check runs the hook Check on all submitted results.
func (r *Rules) Check(ctx context.Context, t pawl.Task, items []pawl.Item) (out []pawl.Complaint, err error) {
	if r.hooks.Check == nil {
		return nil, nil
	}
	err = guarded(func() (err error) {
		out, err = r.hooks.Check(ctx, t, items)
		return err
	})
	return out, err
}

// Approves reports whether the type's rule, and its hook, approve the task without a
// decision by a caller.
func (r *Rules) Approves(ctx context.Context, t pawl.Task, items []pawl.Item) (yes bool, err error) {
	if yes = r.consents(items); !yes || r.Approval.Mode != pawl.ApprovalAuto || r.hooks.AutoApprove == nil {
		return yes, nil
	}
	err = guarded(func() (err error) {
		yes, err = r.hooks.AutoApprove(ctx, t, items)
		return err
	})
	return yes, err
}

// ApplyByHook carries out the task with the hooks BeforeApply and Apply.
func (r *Rules) ApplyByHook(ctx context.Context, a pawl.Application) (out pawl.Applied, err error) {
	err = guarded(func() error {
		if r.hooks.BeforeApply != nil {
			if err := r.hooks.BeforeApply(ctx, a); err != nil {
				return err
			}
		}
		out, err = r.hooks.Apply(ctx, a)
		return err
	})
	if err == nil {
		err = checkHookResult(out.Result)
	}
	return out, err
}

// planByHook returns the items of a task that the hook Plan makes.
func (r *Rules) planByHook(ctx context.Context, t pawl.NewTask) (items []pawl.NewItem, err error) {
	if r.hooks.Plan == nil {
		return nil, r.noHook("Plan")
	}
	err = guarded(func() (err error) {
		items, err = r.hooks.Plan(ctx, t)
		return err
	})
	var ours *pawl.Error
	if err != nil && !errors.As(err, &ours) {
		err = &pawl.Error{Code: pawl.CodeInternal, Op: "plan", Message: fmt.Sprintf("the plan of type %s failed: %v", r.Name, err), Err: err}
	}
	return items, err
}

// Assemble makes an item's result from its live parts; see assemblable.
func (r *Rules) Assemble(ctx context.Context, item pawl.Item, parts []pawl.ItemPart, bestEffort bool) (out json.RawMessage, err error) {
	good, err := r.assemblable(parts, bestEffort)
	if err != nil {
		return nil, err
	}
	if r.Assembly.Mode != pawl.AssembleGo {
		return r.merge(good), nil
	}
	if r.hooks.Assemble == nil {
		return nil, r.noHook("Assemble")
	}
	err = guarded(func() (err error) {
		out, err = r.hooks.Assemble(ctx, item, good)
		return err
	})
	if err == nil && !json.Valid(out) {
		err = fmt.Errorf("the hook Assemble of %s returned a value that is not JSON", r.Name)
	}
	return out, err
}

// guarded runs a hook. It returns a panic of the hook as an error.
func guarded(hook func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return hook()
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
