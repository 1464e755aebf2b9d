package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/engine/internal/tasktypes"
	"github.com/pawl-work/pawl/internal/asked"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// Submit hands in results that must be accepted; see pawl.Deliverer.
func (e *Engine) Submit(ctx context.Context, calls []pawl.SubmitCall) ([]pawl.Result[pawl.Moved], error) {
	calls = idform.Calls(calls)
	if err := e.acts(ctx, "submit"); err != nil {
		return nil, err
	}
	return withProvenance(ctx, e, "submit", calls, subjectOfMove,
		eachly("submit", func(e *Engine, ctx context.Context, c *pawl.SubmitCall) (pawl.Moved, error) {
			if err := cmp.Or(checkSubmit(c), e.referItem(ctx, "submit", c.ItemID, blobsIn(c.Result))); err != nil {
				return pawl.Moved{}, err
			}
			body := submitBody{json.RawMessage(rules.OrNull(c.Result)), c.Evidence, c.Notes}
			return e.submit(ctx, c.Fence, "submit", body, func(r *tasktypes.Rules, _ store.ItemRow) (store.Submission, error) {
				parts, err := e.partsOfWhole(ctx, r, c.ItemID)
				if err != nil {
					return store.Submission{}, err
				}
				result := rules.OrNull(c.Result)
				return store.Submission{Result: result, Data: extras(c.Evidence, c.Notes), Parts: idsOf(parts)},
					r.CheckWhole("submit", []byte(result), c.Evidence, parts)
			})
		}))
}

// Finalize puts an item's parts together and submits the outcome; see pawl.Deliverer.
func (e *Engine) Finalize(ctx context.Context, calls []pawl.FinalizeCall) ([]pawl.Result[pawl.Moved], error) {
	calls = idform.Calls(calls)
	if err := e.acts(ctx, "finalize"); err != nil {
		return nil, err
	}
	return withProvenance(ctx, e, "finalize", calls, subjectOfMove,
		eachly("finalize", func(e *Engine, ctx context.Context, c *pawl.FinalizeCall) (pawl.Moved, error) {
			if err := checkFinalize(c); err != nil {
				return pawl.Moved{}, err
			}
			body := finalizeBody{c.Mode == pawl.FinalizeBestEffort, c.Evidence, c.Notes}
			return e.submit(ctx, c.Fence, "finalize", body, func(r *tasktypes.Rules, it store.ItemRow) (store.Submission, error) {
				parts, err := e.liveParts(ctx, c.ItemID)
				if err != nil {
					return store.Submission{}, err
				}
				result, err := r.Assemble(ctx, it.Item, parts, c.Mode == pawl.FinalizeBestEffort)
				if err == nil { // a hook, or the key of a part, may refer to blobs that no part refers to
					err = e.referTask(ctx, "finalize", it.TaskID, blobsIn(result))
				}
				if err != nil {
					return store.Submission{}, err
				}
				return store.Submission{
					Result:    string(result),
					Assembled: store.Text(result),
					Parts:     idsOf(parts),
					Data:      extras(c.Evidence, c.Notes),
				}, r.CheckSubmission("finalize", result, c.Evidence)
			})
		}))
}

// SubmitParts hands in parts of results; see pawl.Deliverer.
func (e *Engine) SubmitParts(ctx context.Context, calls []pawl.PartCall) ([]pawl.Result[pawl.ItemPart], error) {
	calls = idform.Calls(calls)
	if err := e.acts(ctx, "submit_parts"); err != nil {
		return nil, err
	}
	return kernel.EachIn(ctx, &kernel.Answers{Op: "part", Unbounded: true}, calls, e.putPart)
}

func (e *Engine) putPart(ctx context.Context, c *pawl.PartCall) (pawl.ItemPart, error) {
	if err := cmp.Or(checkPartCall(c), e.referItem(ctx, "part", c.ItemID, blobsIn(c.Payload))); err != nil {
		return pawl.ItemPart{}, err
	}
	_, r, err := e.accepting(ctx, c.Fence, "part")
	if err != nil {
		return pawl.ItemPart{}, err
	}
	if err := r.CheckPart(c); err != nil {
		return pawl.ItemPart{}, err
	}
	p := e.partOf(ctx, c, r)
	var refusal error
	if c.Draft {
		p.Status = pawl.PartDraft
	} else if faults := r.CheckPartPayload(c); len(faults) > 0 {
		p.Status = pawl.PartRejected
		p.Errors = store.Text(rules.Encode([]pawl.Field(faults)))
		refusal = faults.Err("part")
	}
	var out pawl.ItemPart
	locked := e.k.Held
	if refusal != nil {
		locked = e.writeRefusal
	}
	err = locked(ctx, c.Fence, "part", func(ctx context.Context, tx store.Tx, g *store.LockedItem) (err error) {
		out, err = g.PutPart(ctx, tx, p)
		return err
	})
	return out, cmp.Or(err, refusal)
}

// partOf returns the row of a part.
func (e *Engine) partOf(ctx context.Context, c *pawl.PartCall, r *tasktypes.Rules) store.Part {
	sum := sha256.Sum256(c.Payload)
	p := store.Part{
		ID:       e.k.IDs.Next("prt"),
		Key:      c.Key,
		Seq:      c.Seq,
		Status:   pawl.PartValidated,
		Payload:  string(c.Payload),
		Evidence: store.Text(c.Evidence),
		Notes:    store.Text(c.Notes),
		Checksum: hex.EncodeToString(sum[:]),
		MaxParts: r.MaxParts(),
	}
	if key := e.key(); key != "" {
		p.KeyHash = store.Text(rules.KeyHash(key))
	}
	return p
}

// ListParts lists an item's parts; see pawl.RecordReader.
func (e *Engine) ListParts(ctx context.Context, q pawl.PartFilter) (pawl.List[pawl.ItemPart], error) {
	q = idform.Call(q)
	if err := rules.CheckPage(&q.Page); err != nil {
		return pawl.List[pawl.ItemPart]{}, err
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.List[pawl.ItemPart], error) {
		if _, err := store.GetItem(ctx, tx, ns, q.ItemID, 0); err != nil {
			return pawl.List[pawl.ItemPart]{}, err
		}
		return listParts(ctx, tx, ns, q)
	})
}

func (e *Engine) liveParts(ctx context.Context, itemID string) ([]pawl.ItemPart, error) {
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) ([]pawl.ItemPart, error) {
		return liveParts(ctx, tx, ns, itemID)
	})
}

// partsOfWhole reads the parts that the type requires beside a result that is handed in
// whole; nil if it requires none.
func (e *Engine) partsOfWhole(ctx context.Context, r *tasktypes.Rules, itemID string) ([]pawl.ItemPart, error) {
	if len(r.RequiredParts()) == 0 {
		return nil, nil
	}
	return e.liveParts(ctx, itemID)
}

// idsOf returns the ids of parts; nil only if the parts are nil.
func idsOf(parts []pawl.ItemPart) (ids []string) {
	for i := range parts {
		ids = append(ids, parts[i].ID)
	}
	return ids
}

// lacksParts returns the refusal of a complete of an item whose required parts are not all
// there; refusal otherwise.
func (e *Engine) lacksParts(ctx context.Context, it *store.ItemRow, refusal error) error {
	if !it.Acceptance || pawl.CodeOf(refusal) != pawl.CodeConflict {
		return refusal
	}
	r, _, err := tasktypes.Of(e.taskTypes).OfTask(ctx, it.TaskID)
	if err != nil {
		return err
	}
	parts, err := e.partsOfWhole(ctx, r, it.ID)
	if err != nil {
		return err
	}
	f := r.CheckRequiredParts(parts)
	return cmp.Or(f.Err("complete"), refusal)
}

// accepting reads an item and the rules of its task's type. It refuses a call that the
// fence, the state or the type does not allow.
func (e *Engine) accepting(ctx context.Context, f pawl.Fence, op string) (store.ItemRow, *tasktypes.Rules, error) {
	it, now, err := e.k.Item(ctx, f.ItemID)
	if err == nil {
		err = rules.CheckFence(rules.Item(it), f, now, op)
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
		return it, nil, &pawl.Error{Code: pawl.CodeConflict, Op: op, State: string(it.State), Allowed: rules.Allowed(rules.Item(it)),
			Message: "results of this type need no acceptance: complete the item instead"}
	}
	r, _, err := tasktypes.Of(e.taskTypes).OfTask(ctx, it.TaskID)
	return it, r, err
}

// submit checks the result that an item's worker hands in and moves the item to
// submitted. The refusal of a result that does not fit is stored as the item's error; the
// lease stays. If the parts of a result changed meanwhile, they are put together again.
func (e *Engine) submit(
	ctx context.Context,
	f pawl.Fence,
	op string,
	body any,
	make func(*tasktypes.Rules, store.ItemRow) (store.Submission, error),
) (pawl.Moved, error) {
	request := requestOfBody(op, f, body)
	m, it, err := e.submitNew(ctx, f, op, request, make)
	return e.orRepeated(ctx, &it, f, request, m, err)
}

// submitNew is submit for a call that is no repeated one. It returns the item as it was before.
func (e *Engine) submitNew(
	ctx context.Context,
	f pawl.Fence,
	op string,
	request int64,
	make func(*tasktypes.Rules, store.ItemRow) (store.Submission, error),
) (pawl.Moved, store.ItemRow, error) {
	it, r, err := e.accepting(ctx, f, op)
	if err != nil {
		return pawl.Moved{}, it, err
	}
	settled := false
	var left store.LockedItem
	for try := 0; ; try++ {
		s, err := make(r, it)
		if pawl.CodeOf(err) == pawl.CodeInvalid {
			return pawl.Moved{}, it, e.complain(ctx, f, op, err)
		}
		if err != nil {
			return pawl.Moved{}, it, err
		}
		err = e.k.Held(ctx, f, op, func(ctx context.Context, tx store.Tx, g *store.LockedItem) (err error) {
			g.Request = request
			settled, err = g.Submit(ctx, tx, s)
			left = *g
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
		return pawl.Moved{}, it, err
	}
	out := movedOf(ctx, it.Item, &left)
	if settled {
		if row := e.advanceItem(ctx, it.TaskID, &left.Left); out.Item != nil {
			out.Item = itemOf(it.Item, row) // a rule may have accepted it
		}
	}
	e.k.Messages.EndOpen(ctx, e.k, []string{f.ItemID})
	return out, it, nil
}

// itemOf returns the item of a row; nil if there is no row. before is the item as it was
// read before.
func itemOf(before pawl.Item, row *store.StateRow) *pawl.Item {
	if row == nil {
		return nil // the caller reads the item itself
	}
	return store.ReturnedOf(before, *row).Item()
}

// movedOf returns the answer for an item that has left its lease g. before is the item as
// it was then.
func movedOf(ctx context.Context, before pawl.Item, g *store.LockedItem) pawl.Moved {
	m := pawl.Moved{ID: g.ItemID, TaskID: g.TaskID, State: pawl.ItemState(g.Left.State), Attempt: g.Attempt, Failures: g.Left.Failures}
	if asked.Of[bool](ctx, asked.Item) {
		m.Item = itemOf(before, &g.Left)
	}
	return m
}

// complain stores why a submission was refused, and returns that refusal.
func (e *Engine) complain(ctx context.Context, f pawl.Fence, op string, refusal error) error {
	failure := pawl.Failure{Code: "refused", Message: "the result was refused", Detail: rules.Encode(pawl.FieldsOf(refusal))}
	return cmp.Or(e.writeRefusal(ctx, f, op, func(ctx context.Context, tx store.Tx, g *store.LockedItem) error {
		return g.Complain(ctx, tx, string(rules.Encode(failure)))
	}), refusal)
}

// extras returns the data of a submission's event: evidence and notes.
func extras(evidence json.RawMessage, notes string) store.Text {
	if len(evidence) == 0 && notes == "" {
		return ""
	}
	return store.Text(rules.Encode(struct {
		Evidence json.RawMessage `json:"evidence,omitempty"`
		Notes    string          `json:"notes,omitempty"`
	}{evidence, notes}))
}
