package children

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/pawl-work/pawl/store"
)

// passedOn is a cancel, or a delete, that children still have to get: those of a parent or, of a
// wait, those that an item waited for.
type passedOn struct {
	Namespace, TaskID string
	ItemID            string // of a wait; "" = of a parent
	Deletes           bool
	By                *store.Deletion // of the parent, which is removed after its children; nil = it stays
	listed            []string        // children of a wait that Next has listed
}

// passOnCursor is the last parent and the last wait that toPassOn has listed. The zero value is
// before all others.
type passOnCursor struct{ TaskID, ItemID string }

// toPassOn lists up to limit parents and limit waits after a cursor with children to cancel, and
// moves the cursor on.
func toPassOn(ctx context.Context, tx store.Tx, after *passOnCursor, limit int) ([]passedOn, error) {
	var out []passedOn
	for _, query := range []string{"cancelling waits", "cancelled parents"} {
		from := any(store.FromTask(after.TaskID))
		if query == "cancelling waits" {
			from = store.FromItem(after.ItemID)
		}
		rows, err := tx.Query(ctx, texts[query], limit, from)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for rows.Next() {
			var p passedOn
			var todo int
			var by store.Text
			if err := rows.Scan(&p.Namespace, (*store.TaskID)(&p.TaskID), (*store.ItemID)(&p.ItemID), &todo, &by); err != nil {
				return nil, err
			}
			if by != "" {
				p.By = new(store.Deletion)
				_ = json.Unmarshal([]byte(by), p.By) // written by us
			}
			p.Deletes = todo > 1
			out = append(out, p)
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
		rows.Close()
	}
	for i := range out {
		if p := &out[i]; p.ItemID != "" {
			after.ItemID = p.ItemID
		} else {
			after.TaskID = p.TaskID
		}
	}
	return out, nil
}

// Next lists the next children after an id that have not ended, out of up to limit. last is the
// last one that was looked at; "" = there are no more. Children that are to be deleted are
// marked, so that a deletion goes on after they were cancelled.
func (p *passedOn) Next(ctx context.Context, tx store.Tx, after string, limit int) (live []string, last string, err error) {
	query, of := "children of parent", any(store.TaskID(p.TaskID))
	if p.ItemID != "" {
		query, of = "children of wait", store.ItemID(p.ItemID)
	}
	ids, err := store.TaskIDs(ctx, tx, texts[query], of, store.TaskID(cmp.Or(after, store.FirstTask)), limit)
	if err != nil || len(ids) == 0 {
		return nil, "", err
	}
	p.listed = append(p.listed, ids...)
	states, err := store.StatesOfChildren(ctx, tx, ids)
	if err != nil {
		return nil, "", err
	}
	for _, id := range ids {
		if s, there := states[id]; there && !s.State.Ended() {
			live = append(live, id)
		}
	}
	if p.Deletes && len(live) > 0 {
		_, err = tx.Exec(ctx, texts["doom children"], store.TaskList(live))
	}
	return live, ids[len(ids)-1], err
}

// Doomed lists up to limit children of a parent, after an id, that are to be deleted.
func (p *passedOn) Doomed(ctx context.Context, tx store.Tx, after string, limit int) ([]string, error) {
	return store.TaskIDs(ctx, tx, texts["doomed children"], store.TaskID(p.TaskID), store.FromTask(after), limit)
}

// Spare notes that a child is not to be deleted any more: it is gone.
func (p *passedOn) Spare(ctx context.Context, tx store.Tx, childID string) error {
	_, err := tx.Exec(ctx, texts["spare child"], store.TaskID(childID))
	return err
}

// Done notes that nothing is left to pass on: of a wait, to the children that Next has listed.
func (p *passedOn) Done(ctx context.Context, tx store.Tx) (err error) {
	if p.ItemID != "" {
		_, err = tx.Exec(ctx, texts["rest is cancelled"], store.ItemID(p.ItemID), store.TaskList(p.listed))
	} else {
		_, err = tx.Exec(ctx, texts["passed on"], store.TaskID(p.TaskID), 1+store.Bit(p.Deletes))
	}
	return err
}
