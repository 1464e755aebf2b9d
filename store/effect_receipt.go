package store

import (
	"bytes"
	"context"
	"fmt"

	"github.com/pawl-work/pawl"
)

// LoggedEvent is an event of an effect: what is hashed in the log for it, and the proof that it is there.
type LoggedEvent struct {
	EventProof
	Leaf []byte // in canonical form
}

// ProveEffect returns the events of an effect with their proofs, oldest first. all is false if some are not
// under the root. More than pawl.MaxReceiptEvents are a conflict.
func ProveEffect(ctx context.Context, tx Tx, root LogRoot, f *EffectRow) (out []LoggedEvent, all bool, err error) {
	tasks, err := f.tasks(ctx, tx)
	if err != nil {
		return nil, false, err
	}
	ids, err := Ints(ctx, tx, effectSQL["events of effect"], TaskList(tasks), `{"effect_id":"`+f.ID+`",%`,
		`{"effect_id" : "`+f.ID+`",%`, pawl.MaxReceiptEvents+1)
	if err == nil && len(ids) > pawl.MaxReceiptEvents {
		err = &pawl.Error{Code: pawl.CodeConflict, Op: "receipt", EffectID: f.ID,
			Message: fmt.Sprintf("effect %s has more than %d events", f.ID, pawl.MaxReceiptEvents)}
	}
	if err != nil {
		return nil, false, err
	}
	places, err := leafIndexes(ctx, tx, ids)
	if err != nil {
		return nil, false, err
	}
	list := make([]EventProof, 0, len(ids))
	for _, id := range ids {
		at, placed := places[id]
		if !placed || at >= root.Size {
			return nil, false, nil
		}
		list = append(list, EventProof{EventID: eventID(id), Leaf: at})
	}
	if err := prove(ctx, tx, root, list); err != nil {
		return nil, false, err
	}
	next := 0
	for _, s := range spansOf(ids) {
		err := eachLeaf(ctx, tx, s, leafDigests, func(r *leafRow, _ MoveCode, leaf []byte) {
			if next < len(ids) && ids[next] == r.id {
				out = append(out, LoggedEvent{list[next], bytes.Clone(leaf[1:])}) // without leafPrefix
				next++
			}
		})
		if err != nil {
			return nil, false, err
		}
	}
	return out, len(out) == len(ids), nil
}

// tasks returns the tasks that an effect was one of, as far as they are there and their claims are remembered.
func (f *EffectRow) tasks(ctx context.Context, tx Tx) ([]string, error) {
	items := []string{f.ItemID}
	for _, s := range append(f.openers(true), f.senders()...) {
		items = append(items, s.ItemID)
	}
	return TaskIDs(ctx, tx, effectSQL["tasks of items"], ItemList(items))
}
