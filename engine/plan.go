package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// planned returns a task with the defaults of its type and the items of its plan. A clone
// keeps the items of the older task. Nothing is written.
func (e *Engine) planned(ctx context.Context, r *typeRules, t *pawl.NewTask, cloned bool, now time.Time) (*pawl.NewTask, error) {
	p := r.WithDefaults(*t)
	payload, err := r.CheckPayload(&p, cloned)
	if err != nil {
		return nil, err
	}
	if !r.Plans() || cloned && len(p.Items) > 0 {
		return &p, r.CheckItems(p.Items, payload)
	}
	switch r.Plan.Mode {
	case pawl.PlanSplit:
		p.Items, err = r.Split(payload)
	case pawl.PlanGo:
		p.Items, err = r.planByHook(ctx, p)
	case pawl.PlanItem:
		return &p, nil
	}
	if err != nil {
		return nil, err
	}
	if p.Payload == nil {
		p.Payload = json.RawMessage("null") // so that the task does not count as a task of one item
	}
	return &p, r.CheckPlan("/items", p.Items, now)
}

// drafted fills in the fields of a draft that the type sets.
func (r *typeRules) drafted(d draft) draft {
	if r == nil {
		return d
	}
	for i := range d.items {
		d.items[i].Acceptance = r.NeedsAcceptance()
	}
	d.ignores = r.OnItemFailure == pawl.FailureIgnore
	if keys := r.RequiredParts(); len(keys) > 0 {
		d.parts = store.List(keys)
	}
	return d
}

// planning drafts a task whose items a worker will plan. Until then the task has only the
// plan item.
func (r *typeRules) planning(row store.NewTask, t *pawl.NewTask, itemID string) draft {
	payload := rules.OrNull(t.Payload)
	row.Payload, row.Solo, row.Items = &payload, false, 0
	it := newItem(&row, t, &pawl.NewItem{Input: json.RawMessage(payload)}, itemID, -1)
	it.Type, it.Kind, it.Aside = r.Name+pawl.PlanSuffix, pawl.KindPlan, true
	if r.Plan.MaxAttempts > 0 {
		it.MaxAttempts = r.Plan.MaxAttempts
	}
	return draft{task: row, items: []store.NewItem{it}, plans: true, ignores: r.OnItemFailure == pawl.FailureIgnore}
}

// dryRunAnswer returns the answer to a dry run: the task and the items that would be
// created.
func (d *draft) dryRunAnswer(now int64) pawl.Task {
	t := d.Answer(now)
	t.ID, t.DryRun, t.Planned = "", true, make([]pawl.NewItem, len(d.items))
	for i := range d.items {
		p := d.items[i].Planned()
		if p.Type == t.Type {
			p.Type = ""
		}
		if *p.Priority == t.Priority {
			p.Priority = nil
		}
		t.Planned[i] = p
	}
	return t
}
