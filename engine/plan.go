package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/jsonscan"
	"github.com/pawl-work/pawl/schema"
	"github.com/pawl-work/pawl/store"
)

// planned is a task with what its type says put in: defaults, and the items of
// its plan. again says that the items are those of an older task, and stay.
// Nothing is written; what does not fit is told by pointers into the call.
func (e *Engine) planned(ctx context.Context, r *rules, t *pawl.NewTask, again bool) (*pawl.NewTask, error) {
	p := *t
	if p.Priority == 0 {
		p.Priority = r.Priority
	}
	if p.MaxAttempts == 0 {
		p.MaxAttempts = r.MaxAttempts
	}
	payload := json.RawMessage(orNull(p.Payload))
	if len(p.Payload) == 0 && len(p.Items) == 1 && p.Items[0].Key == "" {
		payload = json.RawMessage(orNull(p.Items[0].Input)) // a task of one item shows its input
	}
	f := r.smallEnough("/payload", payload)
	if len(f) == 0 {
		f = r.fits("/payload", r.PayloadSchema, payload)
	}
	made := r.Plan.Mode != "" && r.Plan.Mode != pawl.PlanStatic
	if made && len(p.Items) > 0 && !again {
		f.add("/items", "must be left out: the type plans the items of its tasks")
	}
	if err := f.err("create"); err != nil {
		return nil, err
	}
	if !made || again && len(p.Items) > 0 {
		return &p, r.checkItems(p.Items, payload)
	}
	var err error
	switch r.Plan.Mode {
	case pawl.PlanSplit:
		p.Items, err = r.split(payload)
	case pawl.PlanGo:
		p.Items, err = r.ask(ctx, p)
	case pawl.PlanItem:
		return &p, nil
	}
	if err != nil {
		return nil, err
	}
	if p.Payload == nil {
		p.Payload = json.RawMessage("null") // its items are not its payload
	}
	return &p, r.checkPlan("/items", p.Items, e)
}

// maxItems is how many items a task of the type may have.
func (r *rules) maxItems() int {
	if r.Limits.MaxItems > 0 {
		return r.Limits.MaxItems
	}
	return pawl.MaxItemsPerTask
}

// smallEnough says whether a payload or input is over the type's limit.
func (r *rules) smallEnough(at string, raw json.RawMessage) (f fields) {
	if limit := r.Limits.MaxPayloadBytes; limit > 0 && len(raw) > limit {
		f.add(at, "has %d bytes; at most %d are allowed", len(raw), limit)
	}
	return f
}

// checkPlan says what is wrong with the items that a plan came to.
func (r *rules) checkPlan(at string, items []pawl.NewItem, e *Engine) error {
	var f fields
	switch {
	case len(items) == 0:
		f.add(at, "is empty: the plan makes no items, so there would be nothing to do")
	case len(items) > r.maxItems():
		f.add(at, "has %d items; at most %d are allowed", len(items), r.maxItems())
	default:
		f.items(at, items, e.ids.now())
	}
	if err := f.err("plan"); err != nil {
		return err
	}
	return r.inputs(at, items).err("plan")
}

// checkItems says what is wrong with the items that a call names; without any,
// its payload is the only one's input.
func (r *rules) checkItems(items []pawl.NewItem, payload json.RawMessage) error {
	var f fields
	if len(items) > r.maxItems() {
		f.add("/items", "has %d items; at most %d are allowed", len(items), r.maxItems())
		return f.err("create")
	}
	if len(items) == 0 {
		return r.fits("/payload", r.InputSchema, payload).err("create")
	}
	return r.inputs("/items", items).err("create")
}

// inputs checks items' inputs against the type's input schema, and that none
// waits for what only its own task's approval could bring; enough is said of the
// first few that do not fit.
func (r *rules) inputs(at string, items []pawl.NewItem) (f fields) {
	compiled, bad := r.e.schemas.Get(r.InputSchema)
	for _, b := range bad {
		f.add(at+b.Pointer, "%s", b.Message)
	}
	for i := range items {
		if len(f) >= schema.MaxErrors {
			return f
		}
		if r.NeedsAcceptance() && len(items[i].After) > 0 {
			f.add(at+"/"+number(i)+"/after", "cannot be used: results of the type %s are accepted when their task is approved, and the task cannot be approved while an item waits", r.Name)
		}
		here := at + "/" + number(i) + "/input"
		f = append(f, r.smallEnough(here, items[i].Input)...)
		for _, b := range compiled.Check(items[i].Input) {
			f.add(here+b.Pointer, "%s", b.Message)
		}
	}
	return f
}

// split cuts the list in the payload into chunks, an item each.
func (r *rules) split(payload json.RawMessage) ([]pawl.NewItem, error) {
	p := &r.Plan
	where := "/payload" + p.Pointer
	found := jsonscan.Select(payload, []string{p.Pointer})[0]
	var list []json.RawMessage
	if found == nil || json.Unmarshal(found, &list) != nil || list == nil {
		return nil, pawl.Invalid(where, "must be a list: the type splits it into items")
	}
	if len(list) == 0 {
		return nil, pawl.Invalid(where, "is empty: there would be nothing to do")
	}
	n := (len(list) + p.Size - 1) / p.Size
	if n > r.maxItems() {
		return nil, pawl.Invalid(where, "makes %d items of %d elements each; at most %d are allowed", n, p.Size, r.maxItems())
	}
	var members map[string]json.RawMessage
	_ = json.Unmarshal(payload, &members) // no object has nothing to keep
	var kept bytes.Buffer
	for _, name := range p.Keep {
		if v, ok := members[name]; ok {
			kept.Write(member(name, v))
		}
	}
	room := callBytes{op: "plan"}
	if err := room.take(len(found) + n*kept.Len()); err != nil {
		return nil, err
	}
	items := make([]pawl.NewItem, n)
	for i := range items {
		chunk := list[i*p.Size : min((i+1)*p.Size, len(list))]
		var b bytes.Buffer
		if p.Number != "" {
			b.Write(member(p.Number, json.RawMessage(number(i+1))))
		}
		b.Write(member(into(p), slice(chunk)))
		b.Write(kept.Bytes())
		b.Bytes()[0] = '{'
		b.WriteByte('}')
		items[i] = pawl.NewItem{Input: b.Bytes()}
	}
	return items, nil
}

// member writes a member of an object, with the comma before it.
func member(name string, value json.RawMessage) []byte {
	key, _ := json.Marshal(name) // a string always marshals
	return append(append(append([]byte{','}, key...), ':'), value...)
}

// slice writes elements as a list, each byte for byte as it was.
func slice(list []json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, v := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(v)
	}
	b.WriteByte(']')
	return b.Bytes()
}

// ask has the type's own function plan.
func (r *rules) ask(ctx context.Context, t pawl.NewTask) (items []pawl.NewItem, err error) {
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

// drafted puts what the type says of its items into a draft's rows.
func (r *rules) drafted(d draft) draft {
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

// planning drafts a task whose items a worker will plan: until then it has the
// plan item alone.
func (r *rules) planning(row store.NewTask, t *pawl.NewTask, itemID string) draft {
	payload := orNull(t.Payload)
	row.Payload, row.Solo, row.Items = &payload, false, 0
	it := newItem(&row, t, &pawl.NewItem{Input: json.RawMessage(payload)}, itemID, -1)
	it.Type, it.Kind, it.Aside, it.Acceptance = r.Name+pawl.PlanSuffix, pawl.KindPlan, true, true // acceptance: its end is no plain complete
	if r.Plan.MaxAttempts > 0 {
		it.MaxAttempts = r.Plan.MaxAttempts
	}
	return draft{task: row, items: []store.NewItem{it}, plans: true, ignores: r.OnItemFailure == pawl.FailureIgnore}
}

// dryRunAnswer is the answer to a dry run: the task as it would be, and its items.
func (d *draft) dryRunAnswer(now int64) pawl.Task {
	t := d.answer(now)
	t.ID, t.DryRun, t.Planned = "", true, make([]pawl.NewItem, len(d.items))
	for i := range d.items {
		it := &d.items[i]
		p := pawl.NewItem{Input: json.RawMessage(it.Input), Key: string(it.Key), MaxAttempts: it.MaxAttempts}
		if it.Type != t.Type {
			p.Type = it.Type
		}
		if it.Priority != t.Priority {
			p.Priority = &it.Priority
		}
		if it.RunAt != nil {
			at := stamp(*it.RunAt)
			p.RunAt = &at
		}
		if it.After != "" {
			_ = json.Unmarshal([]byte(it.After), &p.After) // written by us
		}
		t.Planned[i] = p
	}
	return t
}
