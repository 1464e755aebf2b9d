package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// noHook returns the error of a process that lacks a hook of the type.
func (r *typeRules) noHook(name string) error {
	return &pawl.Error{
		Code:    pawl.CodeUnavailable,
		Message: fmt.Sprintf("the type %s needs the hook %s, which this process does not have", r.Name, name),
		Err:     errNoHook,
	}
}

var errNoHook = errors.New("another process may have the hook")

// lacks returns the hook of the check before an approval that another process has of the type, and this one has not; "" =
// none.
func (d *taskDecision) lacks() string {
	switch h := d.rules.hooks; {
	case d.Checks && h.Check == nil:
		return "Check"
	case d.Approves && h.AutoApprove == nil && d.rules.Approval.Mode == pawl.ApprovalAuto:
		return "AutoApprove"
	}
	return ""
}

// notedHooks are the hooks whose types the database knows.
var notedHooks = []string{"Check", "AutoApprove"}

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

// noteHooks stores which hooks this process has that others must not pass over.
func (e *Engine) noteHooks(ctx context.Context) error {
	if len(e.opts.Hooks) == 0 {
		return nil
	}
	if err := checkHooks(e.opts.Hooks); err != nil {
		return err
	}
	err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		for _, name := range slices.Sorted(maps.Keys(e.opts.Hooks)) {
			h := e.opts.Hooks[name]
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
			if _, err := store.NoteHooks(ctx, tx, name, has, gone); err != nil {
				return err
			}
		}
		return nil
	})
	if pawl.CodeOf(err) == pawl.CodeMoved { // a server starts, and says so
		return nil
	}
	return err
}

// looksAtItems reports whether a decision needs the items' results.
func (r *typeRules) looksAtItems() bool {
	return r.hooks.Check != nil || r.hooks.AutoApprove != nil || len(r.Approval.When) > 0 || r.Apply.Mode == pawl.ApplyGo
}

// check runs the hook Check on all submitted results.
func (r *typeRules) check(ctx context.Context, t pawl.Task, items []pawl.Item) (out []pawl.Complaint, err error) {
	if r.hooks.Check == nil {
		return nil, nil
	}
	err = guarded(func() (err error) {
		out, err = r.hooks.Check(ctx, t, items)
		return err
	})
	return out, err
}

// approves reports whether the type's rule, and its hook, approve the task without a
// decision by a caller.
func (r *typeRules) approves(ctx context.Context, t pawl.Task, items []pawl.Item) (yes bool, err error) {
	if yes = r.Consents(items); !yes || r.Approval.Mode != pawl.ApprovalAuto || r.hooks.AutoApprove == nil {
		return yes, nil
	}
	err = guarded(func() (err error) {
		yes, err = r.hooks.AutoApprove(ctx, t, items)
		return err
	})
	return yes, err
}

// apply carries out the task with the hooks BeforeApply and Apply.
func (r *typeRules) apply(ctx context.Context, a pawl.Application) (out pawl.Applied, err error) {
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
func (r *typeRules) planByHook(ctx context.Context, t pawl.NewTask) (items []pawl.NewItem, err error) {
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

// assemble makes an item's result from its live parts; see rules.Assemblable.
func (r *typeRules) assemble(ctx context.Context, item pawl.Item, parts []pawl.ItemPart, bestEffort bool) (out json.RawMessage, err error) {
	good, err := r.Assemblable(parts, bestEffort)
	if err != nil {
		return nil, err
	}
	if r.Assembly.Mode != pawl.AssembleGo {
		return r.Merge(good), nil
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

func complained(complaints []pawl.Complaint) pawl.Failure {
	return pawl.Failure{Code: "check_failed", Message: complaints[0].Message, Detail: rules.Encode(complaints)}
}

// maxComplaints is how many complaints are stored of a task.
const maxComplaints = 100

// allComplaints is complained for the complaints of a hook. If they do not fit, the last one says how many are left out.
func allComplaints(all []pawl.Complaint) pawl.Failure {
	return fitting(func(most int) pawl.Failure {
		n := min(len(all), maxComplaints, max(1, most/64))
		some := make([]pawl.Complaint, n, n+1)
		for i, c := range all[:n] {
			some[i] = pawl.Complaint{Code: stored(c.Code, most), Message: stored(c.Message, most), Field: stored(c.Field, most)}
		}
		if n < len(all) {
			some = append(some, pawl.Complaint{Code: "more_complaints", Message: fmt.Sprintf("%d complaints are not shown", len(all)-n)})
		}
		return complained(some)
	})
}

// hookFailure returns the failure that of makes of the text of a hook's error.
func hookFailure(err error, of func(text string) pawl.Failure) pawl.Failure {
	return fitting(func(most int) pawl.Failure { return of(stored(err.Error(), most)) })
}

// fitting returns the first failure of texts of at most so many bytes that is within the bound of the table of limits.
func fitting(of func(most int) pawl.Failure) pawl.Failure {
	for most := pawl.MaxErrorBytes / 2; ; most /= 2 {
		if f := of(most); len(rules.Encode(f)) <= pawl.MaxErrorBytes {
			return f
		}
	}
}

// stored is a text of a hook as it is stored: without what PostgreSQL does not keep, and cut.
func stored(text string, most int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
