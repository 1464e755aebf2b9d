package tasktypes

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/schema"
	"github.com/pawl-work/pawl/store"
)

// Rules are the rules of a version of a type, and its hooks, which are code of the application.
type Rules struct {
	*pawl.Type
	schemas *schema.Cache
	hooks   pawl.Hooks
}

func (r *Registry) ruled(t *pawl.Type) *Rules { return &Rules{t, &r.schemas, r.hooks[t.Name]} }

// In returns the rules of a version of a type, which it may read in a transaction.
func (r *Registry) In(ctx context.Context, tx store.Tx, namespace, name string, version int) (*Rules, error) {
	if i := slices.IndexFunc(r.own, func(t *pawl.Type) bool { return t.Name == name }); i >= 0 {
		return r.ruled(r.own[i]), nil
	}
	if version == 0 {
		return r.ruled(&pawl.Type{Name: name}), nil // unregistered
	}
	v := store.TypeVersion{Namespace: namespace, Name: name, Version: version}
	if t := r.cache.get(v); t != nil {
		return r.ruled(t), nil
	}
	row, err := get(ctx, tx, namespace, name, version)
	if err != nil {
		return nil, err
	}
	if row.Version == 0 {
		return nil, pawl.NotFound("type", fmt.Sprintf("%s version %d", name, version))
	}
	t, err := row.parsed(name)
	if err != nil {
		return nil, err
	}
	if !r.k.InTx() { // inside a transaction the type may be uncommitted
		r.keep(v, &t)
	}
	return r.ruled(&t), nil
}

// At returns the rules of a version of a type.
func (r *Registry) At(ctx context.Context, namespace, name string, version int) (of *Rules, err error) {
	if t := r.cache.get(store.TypeVersion{Namespace: namespace, Name: name, Version: version}); t != nil {
		return r.ruled(t), nil
	}
	err = r.k.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		of, err = r.In(ctx, tx, namespace, name, version)
		return err
	})
	return of, err
}

// OfTask returns the rules of a task's version of its type, and the priority of the task.
func (r *Registry) OfTask(ctx context.Context, taskID string) (of *Rules, priority int, err error) {
	of, err = kernel.Read(ctx, r.k, func(ctx context.Context, tx store.Tx, ns string) (*Rules, error) {
		name, version, its, err := store.TypeOfTask(ctx, tx, ns, taskID)
		if err != nil {
			return nil, err
		}
		priority = its
		return r.In(ctx, tx, ns, name, version)
	})
	return of, priority, err
}

// fits checks a value against a schema, with pointers below at. Without a schema every
// value fits.
func (r *Rules) fits(at string, schema, value json.RawMessage) rules.Fields {
	if len(schema) == 0 {
		return nil
	}
	compiled, bad := r.schemas.Get(schema)
	if len(bad) == 0 {
		bad = compiled.Check(value)
	}
	var f rules.Fields
	for _, x := range bad {
		f.Add(at+x.Pointer, "%s", x.Message)
	}
	return f
}

// CheckWhole checks a result that is handed in whole: as CheckSubmission, and that the
// required parts are there.
func (r *Rules) CheckWhole(op string, result, evidence json.RawMessage, parts []pawl.ItemPart) error {
	f := append(r.CheckRequiredParts(parts), r.submission(result, evidence)...)
	return f.Err(op)
}

// CheckSubmission checks a result that is handed in for acceptance, and its evidence.
func (r *Rules) CheckSubmission(op string, result, evidence json.RawMessage) error {
	f := r.submission(result, evidence)
	return f.Err(op)
}

func (r *Rules) submission(result, evidence json.RawMessage) rules.Fields {
	f := r.result(result)
	r.evidence(&f, evidence)
	return f
}

// result checks a result against the type's limit and schema.
func (r *Rules) result(result json.RawMessage) rules.Fields {
	limit := pawl.MaxPayloadBytes
	if r.Limits.MaxResultBytes > 0 {
		limit = min(limit, r.Limits.MaxResultBytes)
	}
	if len(result) > limit {
		var f rules.Fields
		f.Add("/result", "has %d bytes; at most %d are allowed", len(result), limit)
		return f
	}
	return r.fits("/result", r.ResultSchema, result)
}

// evidence requires evidence if the type does.
func (r *Rules) evidence(f *rules.Fields, evidence json.RawMessage) {
	if r.EvidenceRequired && (len(evidence) == 0 || string(evidence) == "null") {
		f.Add("/evidence", "is required by the type %s", r.Name)
	}
}

// judgesWork reports whether the type has rules for input or results, as opposed to
// when and how often an item runs.
func (r *Rules) judgesWork() bool {
	return r.NeedsAcceptance() || r.EvidenceRequired || len(r.PayloadSchema)+len(r.InputSchema)+len(r.ResultSchema) > 0 ||
		r.plans() || r.Limits != pawl.TypeLimits{}
}

// EscalationWidens reports whether more actors may decide about a task once its approval
// is escalated.
func (r *Rules) EscalationWidens() bool {
	return len(r.Approval.By) > 0 && r.Approval.OnExpiry == pawl.ExpiryEscalate
}

// CheckDecider refuses an actor that may not decide about tasks of the type. escalated
// says that the approval of the task was escalated. An actor that states its own name must
// not state it as a type and id: it would count as another one than that of the id.
func (r *Rules) CheckDecider(verb string, by rules.Actor, escalated bool) error {
	if by.Key == "" && strings.Contains(by.ID, "/") {
		return pawl.Invalid("/actor_id", "is %q; the name of an actor has no slash", by.ID)
	}
	allowed := r.Approval.By
	if escalated {
		allowed = append(slices.Clip(allowed), r.Approval.EscalateTo...)
	}
	who := by.Type + "/" + by.ID
	if len(allowed) > 0 && !slices.Contains(allowed, who) && !slices.Contains(allowed, by.Type+"/*") {
		return &pawl.Error{
			Code:    pawl.CodeForbidden,
			Op:      verb,
			Message: fmt.Sprintf("%s may not decide about tasks of type %s; %s may", who, r.Name, strings.Join(allowed, ", ")),
		}
	}
	return nil
}

// consents reports whether the type's rule approves submitted items without a decision.
// With the mode auto, the hook AutoApprove has to consent as well, if there is one.
func (r *Rules) consents(items []pawl.Item) bool {
	switch r.Approval.Mode {
	case "", pawl.ApprovalNone:
		return true
	case pawl.ApprovalManual:
		return false
	}
	for i := range items {
		if len(r.fits("", r.Approval.When, items[i].Result)) > 0 {
			return false
		}
	}
	return true
}

// ApplyAttempts returns the max_attempts of the item that applies a task of the type.
func (r *Rules) ApplyAttempts() int {
	return cmp.Or(r.Apply.MaxAttempts, r.MaxAttempts, pawl.DefaultMaxAttempts)
}
