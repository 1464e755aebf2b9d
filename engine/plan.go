package engine

import (
	"encoding/json"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/engine/internal/tasktypes"
	"github.com/pawl-work/pawl/store"
)

// drafted fills in the fields of a draft that the type sets.
func drafted(r *tasktypes.Rules, d draft) draft {
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
func planning(r *tasktypes.Rules, row store.NewTask, t *pawl.NewTask, itemID string) draft {
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
