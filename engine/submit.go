package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// Submit hands results in that are to be accepted; see pawl.Deliverer.
func (e *Engine) Submit(ctx context.Context, calls []pawl.SubmitCall) ([]pawl.Result[pawl.Moved], error) {
	return withProvenance(ctx, e, "submit", calls, subjectOfMove, eachly("submit", func(e *Engine, ctx context.Context, c *pawl.SubmitCall) (pawl.Moved, error) {
		var f fields
		f.fence(c.Fence)
		f.json("/result", c.Result, pawl.MaxPayloadBytes)
		f.extras(c.Evidence, c.Notes)
		if err := f.err("submit"); err != nil {
			return pawl.Moved{}, err
		}
		return e.submit(ctx, c.Fence, "submit", func(r *rules, _ store.ItemRow) (store.Submission, error) {
			result := orNull(c.Result)
			bad := r.checkResult([]byte(result))
			bad.evidence(r, c.Evidence)
			return store.Submission{Result: result, Data: extras(c.Evidence, c.Notes)}, bad.err("submit")
		})
	}))
}

// Finalize puts an item's parts together and submits what comes of it; see
// pawl.Deliverer.
func (e *Engine) Finalize(ctx context.Context, calls []pawl.FinalizeCall) ([]pawl.Result[pawl.Moved], error) {
	return withProvenance(ctx, e, "finalize", calls, subjectOfMove, eachly("finalize", func(e *Engine, ctx context.Context, c *pawl.FinalizeCall) (pawl.Moved, error) {
		var f fields
		f.fence(c.Fence)
		f.extras(c.Evidence, c.Notes)
		if c.Mode != "" && c.Mode != pawl.FinalizeStrict && c.Mode != pawl.FinalizeBestEffort {
			f.add("/mode", "is %q; possible: %s, %s", c.Mode, pawl.FinalizeStrict, pawl.FinalizeBestEffort)
		}
		if err := f.err("finalize"); err != nil {
			return pawl.Moved{}, err
		}
		return e.submit(ctx, c.Fence, "finalize", func(r *rules, it store.ItemRow) (store.Submission, error) {
			parts, err := e.liveParts(ctx, c.ItemID)
			if err != nil {
				return store.Submission{}, err
			}
			result, err := r.assemble(ctx, it.Item, parts, c.Mode == pawl.FinalizeBestEffort)
			if err != nil {
				return store.Submission{}, err
			}
			bad := r.checkResult(result)
			bad.evidence(r, c.Evidence)
			ids := make([]string, len(parts))
			for i := range parts {
				ids[i] = parts[i].ID
			}
			return store.Submission{Result: string(result), Assembled: store.Text(result), Parts: ids, Data: extras(c.Evidence, c.Notes)}, bad.err("finalize")
		})
	}))
}

// SubmitParts hands pieces of results in; see pawl.Deliverer.
func (e *Engine) SubmitParts(ctx context.Context, calls []pawl.PartCall) ([]pawl.Result[pawl.ItemPart], error) {
	return each(ctx, "part", calls, e.putPart)
}

func (e *Engine) putPart(ctx context.Context, c *pawl.PartCall) (pawl.ItemPart, error) {
	var f fields
	f.fence(c.Fence)
	f.text("/key", c.Key, 1, pawl.MaxPartKeyLen)
	if c.Seq != nil {
		f.number("/seq", *c.Seq, 0, 1<<31-1)
	}
	if len(c.Payload) == 0 {
		f.add("/payload", "is required")
	}
	f.json("/payload", c.Payload, pawl.MaxPayloadBytes)
	f.extras(c.Evidence, c.Notes)
	if err := f.err("part"); err != nil {
		return pawl.ItemPart{}, err
	}
	_, r, err := e.accepting(ctx, c.Fence, "part")
	if err != nil {
		return pawl.ItemPart{}, err
	}
	rule := r.Part(c.Key)
	switch {
	case rule == nil:
		f.add("/key", "is %q, which the type %s has no part for%s", c.Key, r.Name, oneOf(r.partKeys()))
	case c.Seq != nil && !rule.Repeatable:
		f.add("/seq", "must be absent: there is one part %s", c.Key)
	case c.Seq == nil && rule.Repeatable:
		f.add("/seq", "is required: parts %s are numbered from 0", c.Key)
	}
	if limit := r.Limits.MaxPartBytes; limit > 0 && len(c.Payload) > limit {
		f.add("/payload", "has %d bytes; at most %d are allowed", len(c.Payload), limit)
	}
	if !c.Draft {
		f.evidence(r, c.Evidence)
	}
	if err := f.err("part"); err != nil {
		return pawl.ItemPart{}, err
	}
	p := e.partOf(ctx, c, r)
	var refusal error
	if c.Draft {
		p.Status = pawl.PartDraft
	} else if bad := r.checkPart(c.Key, c.Payload); len(bad) > 0 {
		p.Status = pawl.PartRejected
		p.Errors = store.Text(asJSON([]pawl.Field(bad)))
		refusal = bad.err("part")
	}
	var out pawl.ItemPart
	grip := e.withLockedItem
	if refusal != nil {
		grip = e.kept
	}
	err = grip(ctx, c.Fence, "part", func(ctx context.Context, tx store.Tx, g *store.LockedItem) (err error) {
		out, err = g.PutPart(ctx, tx, p)
		return err
	})
	return out, cmp.Or(err, refusal)
}

// partOf is the row of a part that fits.
func (e *Engine) partOf(ctx context.Context, c *pawl.PartCall, r *rules) store.Part {
	sum := sha256.Sum256(c.Payload)
	p := store.Part{ID: e.ids.next("prt"), Key: c.Key, Seq: c.Seq, Status: pawl.PartValidated, Payload: string(c.Payload), Evidence: store.Text(c.Evidence),
		Notes: store.Text(c.Notes), Checksum: hex.EncodeToString(sum[:]), MaxParts: r.maxParts()}
	if key := e.key(); key != "" {
		p.KeyHash = store.Text(keyHash(key))
	}
	return p
}

// ListParts lists an item's parts; see pawl.RecordReader.
func (e *Engine) ListParts(ctx context.Context, q pawl.PartFilter) (pawl.List[pawl.ItemPart], error) {
	if err := page(&q.Page); err != nil {
		return pawl.List[pawl.ItemPart]{}, err
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.List[pawl.ItemPart], error) {
		if _, err := store.GetItem(ctx, tx, ns, q.ItemID, 0); err != nil {
			return pawl.List[pawl.ItemPart]{}, err
		}
		return store.ListParts(ctx, tx, ns, q)
	})
}

func (e *Engine) liveParts(ctx context.Context, itemID string) ([]pawl.ItemPart, error) {
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) ([]pawl.ItemPart, error) {
		return store.LiveParts(ctx, tx, ns, itemID)
	})
}

// accepting reads an item and the rules of its task's type, and refuses what
// the fence, the state or the type does not allow.
func (e *Engine) accepting(ctx context.Context, f pawl.Fence, op string) (store.ItemRow, *rules, error) {
	it, now, err := e.look(ctx, f.ItemID)
	if err == nil {
		err = checkFence(it, f, now, op)
	}
	if err == nil {
		var others map[pawl.Fence]error
		others, err = e.leasesOfOtherKeys(ctx, pawl.CallerOf(ctx), []pawl.Fence{f})
		err = cmp.Or(err, others[f])
	}
	if err != nil {
		return it, nil, err
	}
	if !it.Acceptance || it.Kind != pawl.KindWork {
		return it, nil, &pawl.Error{Code: pawl.CodeConflict, Op: op, State: string(it.State), Allowed: allowed(it),
			Message: "results of this type need no acceptance: complete the item instead"}
	}
	r, _, err := e.rulesOfTask(ctx, it.TaskID)
	return it, r, err
}

// submit checks what an item's worker hands in and moves the item to submitted.
// What does not fit is kept as the item's error; the lease stays. A result whose
// parts changed meanwhile is put together again.
func (e *Engine) submit(ctx context.Context, f pawl.Fence, op string, make func(*rules, store.ItemRow) (store.Submission, error)) (pawl.Moved, error) {
	it, r, err := e.accepting(ctx, f, op)
	if err != nil {
		return pawl.Moved{}, err
	}
	settled := false
	out := pawl.Moved{ID: f.ItemID, TaskID: it.TaskID, State: pawl.ItemSubmitted, Attempt: f.Attempt, Failures: it.Failures}
	for try := 0; ; try++ {
		s, err := make(r, it)
		if pawl.CodeOf(err) == pawl.CodeInvalid {
			return pawl.Moved{}, e.complain(ctx, f, op, err)
		}
		if err != nil {
			return pawl.Moved{}, err
		}
		err = e.withLockedItem(ctx, f, op, func(ctx context.Context, tx store.Tx, g *store.LockedItem) (err error) {
			settled, err = g.Submit(ctx, tx, s)
			return err
		})
		if err == nil {
			break
		}
		if changed := errors.Is(err, store.ErrPartsChanged); changed && try == 10 {
			err = &pawl.Error{Code: pawl.CodeUnavailable, Op: op, Message: "the item's parts keep changing; try again", Err: err}
		} else if changed {
			continue
		}
		return pawl.Moved{}, err
	}
	if settled {
		e.advanceSoon(ctx, it.TaskID)
	}
	e.endOpenMessages(ctx, []string{f.ItemID})
	return out, nil
}

// complain keeps why a submission was refused, and answers with it.
func (e *Engine) complain(ctx context.Context, f pawl.Fence, op string, refusal error) error {
	failure := pawl.Failure{Code: "refused", Message: "the result was refused", Detail: asJSON(pawl.FieldsOf(refusal))}
	return cmp.Or(e.kept(ctx, f, op, func(ctx context.Context, tx store.Tx, g *store.LockedItem) error {
		return g.Complain(ctx, tx, string(asJSON(failure)))
	}), refusal)
}

// withLockedItem runs fn under an item's lease, or says why there is none.
func (e *Engine) withLockedItem(ctx context.Context, f pawl.Fence, op string, fn func(ctx context.Context, tx store.Tx, g *store.LockedItem) error) error {
	for range 3 {
		held := false
		err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
			g, ok, err := store.LockFenced(ctx, tx, fenceRow(pawl.CallerOf(ctx), f))
			if held = ok; err != nil || !ok {
				return err
			}
			g.By = actor(pawl.CallerOf(ctx), g.By.Type, g.By.ID)
			return fn(ctx, tx, &g)
		})
		if err != nil || held {
			return err
		}
		it, now, err := e.look(ctx, f.ItemID)
		if err == nil {
			err = checkFence(it, f, now, op)
		}
		if err != nil {
			return err
		}
	}
	return &pawl.Error{Code: pawl.CodeUnavailable, Op: op, Message: "the item is being moved; try again"}
}

// each answers every call of a batch on its own.
func each[C, R any](ctx context.Context, op string, calls []C, one func(context.Context, *C) (R, error)) ([]pawl.Result[R], error) {
	if err := tooMany(op, len(calls)); err != nil {
		return nil, err
	}
	out := make([]pawl.Result[R], len(calls))
	for i := range calls {
		out[i].Value, out[i].Err = one(ctx, &calls[i])
	}
	return out, nil
}

// eachly is each, to be called later.
func eachly[C, R any](op string, one func(*Engine, context.Context, *C) (R, error)) func(*Engine, context.Context, []C) ([]pawl.Result[R], error) {
	return func(e *Engine, ctx context.Context, calls []C) ([]pawl.Result[R], error) {
		return each(ctx, op, calls, func(ctx context.Context, c *C) (R, error) { return one(e, ctx, c) })
	}
}

// extras checks evidence and notes.
func (f *fields) extras(evidence json.RawMessage, notes string) {
	f.json("/evidence", evidence, pawl.MaxErrorBytes)
	f.text("/notes", notes, 0, pawl.MaxReasonLen)
}

// evidence asks for evidence where the type does.
func (f *fields) evidence(r *rules, evidence json.RawMessage) {
	if r.EvidenceRequired && (len(evidence) == 0 || string(evidence) == "null") {
		f.add("/evidence", "is required by the type %s", r.Name)
	}
}

// extras is the data of an event: what came with a submission.
func extras(evidence json.RawMessage, notes string) store.Text {
	if len(evidence) == 0 && notes == "" {
		return ""
	}
	return store.Text(asJSON(struct {
		Evidence json.RawMessage `json:"evidence,omitempty"`
		Notes    string          `json:"notes,omitempty"`
	}{evidence, notes}))
}

// asJSON encodes what always can be.
func asJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("engine: %T does not encode: %v", v, err))
	}
	return b
}

// oneOf lists what is possible.
func oneOf(names []string) string {
	if len(names) == 0 {
		return "; it has none"
	}
	out := "; possible:"
	for i, n := range names {
		if i > 0 {
			out += ","
		}
		out += " " + n
	}
	return out
}
