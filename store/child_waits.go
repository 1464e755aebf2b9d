package store

import (
	"context"
	"encoding/json"
)

// ChildWait is a wait of an item for children.
type ChildWait struct {
	Name      Text
	IDs       []string // in order, each once
	Need      int      // how many have to end
	OnFailure string
}

// put stores the wait of an item that was suspended in this transaction. No child counts as
// ended yet: EndChildren counts those that have. None of them is removed before the commit.
func (w *ChildWait) put(ctx context.Context, tx Tx, l *Leave, taskID string) error {
	item := ItemID(l.ItemID)
	if err := ownChildren(ctx, tx, "keep children", taskID, w.IDs); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, childrenSQL["put wait"], item, l.Namespace, TaskID(taskID), l.Attempt, w.Name, w.Need,
		w.OnFailure, len(w.IDs)); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, childrenSQL["forget awaited"], item); err != nil {
		return err
	}
	rows := make([][]any, len(w.IDs))
	for i, id := range w.IDs {
		rows[i] = []any{TaskID(id), item}
	}
	if err := tx.ExecEach(ctx, childrenSQL["put awaited"], rows); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, childrenSQL["hold item"], item)
	return err
}

// awaitedNamed bounds the children that an event names.
const awaitedNamed = 20

// Awaits returns which children a suspend waits for, as JSON for its event; "" = none. All are
// counted, and the first are named.
func (l *Leave) Awaits() string {
	w := l.Children
	if w == nil {
		return ""
	}
	b, _ := json.Marshal(struct { // plain values
		Name      Text     `json:"name,omitempty"`
		Need      int      `json:"need"`
		OnFailure string   `json:"on_failure"`
		Count     int      `json:"count"`
		IDs       []string `json:"ids"`
	}{w.Name, w.Need, w.OnFailure, len(w.IDs), w.IDs[:min(awaitedNamed, len(w.IDs))]})
	return string(b)
}

// Await is the hot verb Leave for suspends when some of them wait for children.
func Await(ctx context.Context, tx Tx, hot Hot, calls []Leave) ([]Moved, error) {
	moved, err := hot.Leave(ctx, tx, calls)
	if err != nil {
		return nil, err
	}
	waits := map[int]*Leave{}
	for i := range calls {
		if calls[i].Children != nil {
			waits[calls[i].Ord] = &calls[i]
		}
	}
	for i := range moved {
		if l := waits[moved[i].Ord]; l != nil {
			if err := l.Children.put(ctx, tx, l, moved[i].TaskID); err != nil {
				return nil, err
			}
		}
	}
	return moved, nil
}

// EndedAwaited returns those of the tasks that are awaited and have ended, and have not been
// counted: by the items that wait for them.
func EndedAwaited(ctx context.Context, tx Tx, ids []string) (map[string][]string, error) {
	ends, err := awaitedEnds(ctx, tx, ids)
	if err != nil || len(ends) == 0 {
		return nil, err
	}
	out := map[string][]string{}
	for _, a := range ends {
		out[a.item] = append(out[a.item], a.child)
	}
	return out, nil
}
