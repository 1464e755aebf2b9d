package tasktypes

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/jsonscan"
	"github.com/pawl-work/pawl/schema"
)

// Planned returns a task with the defaults of its type and the items of its plan. A clone
// keeps the items of the older task. Nothing is written.
func (r *Rules) Planned(ctx context.Context, t *pawl.NewTask, cloned bool, now time.Time) (*pawl.NewTask, error) {
	p := r.withDefaults(*t)
	payload, err := r.checkPayload(&p, cloned)
	if err != nil {
		return nil, err
	}
	if !r.plans() || cloned && len(p.Items) > 0 {
		return &p, r.CheckItems(p.Items, payload)
	}
	switch r.Plan.Mode {
	case pawl.PlanSplit:
		p.Items, err = r.split(payload)
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
	return &p, r.checkPlan("/items", p.Items, now)
}

// withDefaults returns a task with the type's priority and max_attempts if it names none.
func (r *Rules) withDefaults(t pawl.NewTask) pawl.NewTask {
	t.Priority, t.MaxAttempts = cmp.Or(t.Priority, r.Priority), cmp.Or(t.MaxAttempts, r.MaxAttempts)
	return t
}

// plans reports whether the type makes the items of its tasks.
func (r *Rules) plans() bool {
	return r.Plan.Mode != "" && r.Plan.Mode != pawl.PlanStatic
}

// checkPayload checks the payload of a task and returns it. The payload of a task of one
// item is its input. It refuses items if the type plans them, except in a clone, which
// has the items of the older task.
func (r *Rules) checkPayload(t *pawl.NewTask, cloned bool) (json.RawMessage, error) {
	payload := t.Payload
	if len(payload) == 0 && len(t.Items) == 1 && t.Items[0].Key == "" {
		payload = t.Items[0].Input
	}
	payload = json.RawMessage(rules.OrNull(payload))
	f := r.payloadSize("/payload", payload)
	if len(f) == 0 {
		f = r.fits("/payload", r.PayloadSchema, payload)
	}
	if r.plans() && len(t.Items) > 0 && !cloned {
		f.Add("/items", "must be left out: the type plans the items of its tasks")
	}
	return payload, f.Err("create")
}

// maxItems returns how many items a task of the type may have.
func (r *Rules) maxItems() int {
	if r.Limits.MaxItems > 0 {
		return r.Limits.MaxItems
	}
	return pawl.MaxItemsPerTask
}

// payloadSize checks a payload or input against the type's limit.
func (r *Rules) payloadSize(at string, raw json.RawMessage) (f rules.Fields) {
	if limit := r.Limits.MaxPayloadBytes; limit > 0 && len(raw) > limit {
		f.Add(at, "has %d bytes; at most %d are allowed", len(raw), limit)
	}
	return f
}

// checkPlan checks the items that a plan made. at is their pointer, and now bounds the
// times that they name.
func (r *Rules) checkPlan(at string, items []pawl.NewItem, now time.Time) error {
	var f rules.Fields
	switch {
	case len(items) == 0:
		f.Add(at, "is empty: the plan makes no items, so there would be nothing to do")
	case len(items) > r.maxItems():
		f.Add(at, "has %d items; at most %d are allowed", len(items), r.maxItems())
	default:
		f.Items(at, items, now)
	}
	if err := f.Err("plan"); err != nil {
		return err
	}
	return r.inputs(at, items).Err("plan")
}

// CheckInput checks a task as Planned does, without the items of its plan.
func (r *Rules) CheckInput(t *pawl.NewTask) error {
	payload, err := r.checkPayload(t, false)
	if err != nil {
		return err
	}
	return r.CheckItems(t.Items, payload)
}

// CheckItems checks the items that a call names. Without items, the payload is the
// input of the only one.
func (r *Rules) CheckItems(items []pawl.NewItem, payload json.RawMessage) error {
	var f rules.Fields
	if len(items) > r.maxItems() {
		f.Add("/items", "has %d items; at most %d are allowed", len(items), r.maxItems())
		return f.Err("create")
	}
	if len(items) == 0 {
		return r.fits("/payload", r.InputSchema, payload).Err("create")
	}
	return r.inputs("/items", items).Err("create")
}

// inputs checks the inputs of items against the type's input schema and limit. It
// refuses dependencies if results are accepted with the task: an item that waits would
// wait for the approval of its own task. It stops after schema.MaxErrors faults.
func (r *Rules) inputs(at string, items []pawl.NewItem) (f rules.Fields) {
	compiled, bad := r.schemas.Get(r.InputSchema)
	for _, b := range bad {
		f.Add(at+b.Pointer, "%s", b.Message)
	}
	for i := range items {
		if len(f) >= schema.MaxErrors {
			return f
		}
		if r.NeedsAcceptance() && len(items[i].After) > 0 {
			f.Add(at+"/"+strconv.Itoa(i)+"/after",
				"cannot be used: results of the type %s are accepted when their task is approved, and the task cannot be approved while an item waits",
				r.Name)
		}
		here := at + "/" + strconv.Itoa(i) + "/input"
		f = append(f, r.payloadSize(here, items[i].Input)...)
		for _, b := range compiled.Check(items[i].Input) {
			f.Add(here+b.Pointer, "%s", b.Message)
		}
	}
	return f
}

// split makes the items of a payload: one for each chunk of the list that the plan
// points to.
func (r *Rules) split(payload json.RawMessage) ([]pawl.NewItem, error) {
	p := &r.Plan
	where := "/payload" + p.Pointer
	found := jsonscan.Select(payload, []string{p.Pointer})[0]
	var elements []json.RawMessage
	if found == nil || json.Unmarshal(found, &elements) != nil || elements == nil {
		return nil, pawl.Invalid(where, "must be a list: the type splits it into items")
	}
	if len(elements) == 0 {
		return nil, pawl.Invalid(where, "is empty: there would be nothing to do")
	}
	n := (len(elements) + p.Size - 1) / p.Size
	if n > r.maxItems() {
		return nil, pawl.Invalid(where, "makes %d items of %d elements each; at most %d are allowed", n, p.Size, r.maxItems())
	}
	var members map[string]json.RawMessage
	_ = json.Unmarshal(payload, &members) // anything but an object has no members to copy
	var copied bytes.Buffer
	for _, name := range p.Keep {
		if v, ok := members[name]; ok {
			copied.Write(memberOf(name, v))
		}
	}
	size := rules.CallBytes{Op: "plan"}
	if err := size.Take(len(found) + n*copied.Len()); err != nil {
		return nil, err
	}
	items := make([]pawl.NewItem, n)
	for i := range items {
		chunk := elements[i*p.Size : min((i+1)*p.Size, len(elements))]
		var b bytes.Buffer
		if p.Number != "" {
			b.Write(memberOf(p.Number, json.RawMessage(strconv.Itoa(i+1))))
		}
		b.Write(memberOf(chunkMember(p), listOf(chunk)))
		b.Write(copied.Bytes())
		b.Bytes()[0] = '{'
		b.WriteByte('}')
		items[i] = pawl.NewItem{Input: b.Bytes()}
	}
	return items, nil
}

// memberOf returns a member of an object, with a comma before it.
func memberOf(name string, value json.RawMessage) []byte {
	key, _ := json.Marshal(name) // a string can always be encoded
	return append(append(append([]byte{','}, key...), ':'), value...)
}

// listOf returns elements as a JSON list; their bytes are unchanged.
func listOf(elements []json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, v := range elements {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(v)
	}
	b.WriteByte(']')
	return b.Bytes()
}

// ReadPlan decodes and checks the result of a plan item: {"items": [{"input": …}, …]}, or the list
// alone.
func (r *Rules) ReadPlan(raw json.RawMessage, now time.Time) ([]pawl.NewItem, error) {
	var plan struct {
		Items []pawl.NewItem `json:"items"`
	}
	into := any(&plan)
	if text := bytes.TrimLeft(raw, " \t\r\n"); len(text) > 0 && text[0] == '[' {
		into = &plan.Items
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		why := strings.TrimPrefix(err.Error(), "json: ")
		return nil, pawl.Invalid("/result", `is no plan, which is {"items": [{"input": …}, …]}: %s`, why)
	}
	return plan.Items, r.checkPlan("/result/items", plan.Items, now)
}
