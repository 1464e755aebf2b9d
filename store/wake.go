package store

import (
	"context"
	"encoding/json"
)

// wakeBatch is how many items that wait for a signal are queued in one transaction.
const wakeBatch = 1000

// waking is what a signal that was sent to more than wakeBatch items has left to do.
type waking struct {
	By    Actor `json:"by"`
	Until int64 `json:"until"` // the newest of the items has waited since then
	After int64 `json:"after"` // the events of the sending have greater numbers
}

// leave notes that the items which still wait for the signal are to be queued, and returns how many they are.
func (s Signal) leave(ctx context.Context, tx Tx, w waking) (n int, err error) {
	if _, err = Row(ctx, tx, []any{&n, &w.Until}, signalSQL["count waiting"], s.Namespace, s.Name, s.Key); err != nil || n == 0 {
		return 0, err
	}
	text, err := json.Marshal(w)
	if err == nil {
		_, err = tx.Exec(ctx, signalSQL["note waking"], s.Namespace, s.Name, s.Key, Text(text))
	}
	return n, err
}

// NextToWake returns the next signal after this one that has items left to queue; found = there is one.
func (s Signal) NextToWake(ctx context.Context, tx Tx) (next Signal, found bool, err error) {
	found, err = Row(ctx, tx, []any{&next.Namespace, &next.Name, &next.Key}, signalSQL["next to wake"], s.Namespace, s.Name, s.Key)
	return next, found, err
}

// WakeRest queues the next items that the signal has left to queue, without those that other transactions lock. more reports
// whether the next call has others to queue.
func (s Signal) WakeRest(ctx context.Context, tx Tx) (woken []DueItem, more bool, err error) {
	sent, err := s.lock(ctx, tx)
	if err != nil {
		return nil, false, err
	}
	var text Text
	found, err := Row(ctx, tx, []any{&text}, signalSQL["waking"], s.Namespace, s.Name, s.Key)
	if err != nil || !found {
		_, err := tx.Exec(ctx, signalSQL["forget signal"], s.Namespace, s.Name, s.Key)
		return nil, false, err
	}
	var w waking
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return nil, false, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, false, err
	}
	ids, err := ItemIDs(ctx, tx, signalSQL["left to wake"], s.Namespace, s.Name, s.Key, w.Until, wakeBatch)
	if err != nil {
		return nil, false, err
	}
	told, err := s.told(ctx, tx, ids, w.After)
	if err == nil {
		woken, err = wake(ctx, tx, max(now, sent), ids, told, &w.By)
	}
	if err == nil {
		_, err = tx.Exec(ctx, signalSQL["nothing to wake"], s.Namespace, s.Name, s.Key, w.Until)
	}
	return woken, len(ids) == wakeBatch, err
}

// told returns the tasks of items that have their event of this sending already.
func (s Signal) told(ctx context.Context, tx Tx, ids []string, after int64) (map[signalledTask]bool, error) {
	told := map[signalledTask]bool{}
	text, err := s.data()
	if err != nil || len(ids) == 0 {
		return told, err
	}
	tasks, err := TaskIDs(ctx, tx, signalSQL["told tasks"], ItemList(ids), text, after)
	for _, id := range tasks {
		told[signalledTask{id, Text(s.Name), Text(s.Key)}] = true
	}
	return told, err
}
