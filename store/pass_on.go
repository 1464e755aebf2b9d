package store

import (
	"cmp"
	"context"
	"encoding/json"
)

// PassedOn is a cancel, or a delete, that children still have to get: those of a parent or, of a
// wait, those that an item waited for.
type PassedOn struct {
	Namespace, TaskID string
	ItemID            string // of a wait; "" = of a parent
	Deletes           bool
	By                *Deletion // of the parent, which is removed after its children; nil = it stays
	listed            []string  // children of a wait that Next has listed
}

// PassOn notes that the children of a task which have not ended are to be cancelled, or also
// deleted. It reports whether the task has children.
func PassOn(ctx context.Context, tx Tx, taskID string, deletes bool) (bool, error) {
	n, err := tx.Exec(ctx, childrenSQL["pass on"], TaskID(taskID), 1+Bit(deletes))
	return n > 0, err
}

// PassOnCursor is the last parent and the last wait that ToPassOn has listed. The zero value is
// before all others.
type PassOnCursor struct{ TaskID, ItemID string }

// ToPassOn lists up to limit parents and limit waits after a cursor with children to cancel, and
// moves the cursor on.
func ToPassOn(ctx context.Context, tx Tx, after *PassOnCursor, limit int) ([]PassedOn, error) {
	var out []PassedOn
	for _, query := range []string{"cancelling waits", "cancelled parents"} {
		from := any(FromTask(after.TaskID))
		if query == "cancelling waits" {
			from = FromItem(after.ItemID)
		}
		rows, err := tx.Query(ctx, childrenSQL[query], limit, from)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for rows.Next() {
			var p PassedOn
			var todo int
			var by Text
			if err := rows.Scan(&p.Namespace, (*TaskID)(&p.TaskID), (*ItemID)(&p.ItemID), &todo, &by); err != nil {
				return nil, err
			}
			if by != "" {
				p.By = new(Deletion)
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
func (p *PassedOn) Next(ctx context.Context, tx Tx, after string, limit int) (live []string, last string, err error) {
	query, of := "children of parent", any(TaskID(p.TaskID))
	if p.ItemID != "" {
		query, of = "children of wait", ItemID(p.ItemID)
	}
	ids, err := TaskIDs(ctx, tx, childrenSQL[query], of, TaskID(cmp.Or(after, FirstTask)), limit)
	if err != nil || len(ids) == 0 {
		return nil, "", err
	}
	p.listed = append(p.listed, ids...)
	states, err := statesOfChildren(ctx, tx, ids)
	if err != nil {
		return nil, "", err
	}
	for _, id := range ids {
		if s, there := states[id]; there && !s.state.Ended() {
			live = append(live, id)
		}
	}
	if p.Deletes && len(live) > 0 {
		_, err = tx.Exec(ctx, childrenSQL["doom children"], TaskList(live))
	}
	return live, ids[len(ids)-1], err
}

// Doomed lists up to limit children of a parent, after an id, that are to be deleted.
func (p *PassedOn) Doomed(ctx context.Context, tx Tx, after string, limit int) ([]string, error) {
	return TaskIDs(ctx, tx, childrenSQL["doomed children"], TaskID(p.TaskID), FromTask(after), limit)
}

// Spare notes that a child is not to be deleted any more: it is gone.
func (p *PassedOn) Spare(ctx context.Context, tx Tx, childID string) error {
	_, err := tx.Exec(ctx, childrenSQL["spare child"], TaskID(childID))
	return err
}

// Done notes that nothing is left to pass on: of a wait, to the children that Next has listed.
func (p *PassedOn) Done(ctx context.Context, tx Tx) (err error) {
	if p.ItemID != "" {
		_, err = tx.Exec(ctx, childrenSQL["rest is cancelled"], ItemID(p.ItemID), TaskList(p.listed))
	} else {
		_, err = tx.Exec(ctx, childrenSQL["passed on"], TaskID(p.TaskID), 1+Bit(p.Deletes))
	}
	return err
}
