package sweep

import (
	"context"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// entry is what the sweep reads of an event. TaskTo is the state that the event moved its
// task to, or "" when it did not move it. Newest says that the event is the task's newest.
type entry struct {
	ID, At            int64
	TaskID, Namespace string
	Event             string
	TaskTo            store.Text
	Newest            bool
}

// recordAfter reads up to limit events after an id, in order. It returns none when the
// first of them is not older than before, unless its time is after ahead: the clock was wrong when it was written.
// Without newest it does not say which are the newest of their tasks.
func recordAfter(ctx context.Context, tx store.Tx, id, before, ahead int64, limit int, newest bool) ([]entry, error) {
	query := "record after"
	if !newest {
		query = "moves after"
	}
	return entries(ctx, tx, sweepSQL[query], id, limit, before, ahead)
}

// timeAfter returns the time of the first event after an id whose time is not after ahead; 0 = there is none.
func timeAfter(ctx context.Context, tx store.Tx, id, ahead int64) (at int64, err error) {
	_, err = store.Row(ctx, tx, []any{&at}, sweepSQL["time after"], id, ahead)
	return at, err
}

// recordAmong reads the events of ranges of numbers, in order.
func recordAmong(ctx context.Context, tx store.Tx, ranges []unseen) ([]entry, error) {
	if len(ranges) == 0 {
		return nil, nil
	}
	list := make([][]any, len(ranges))
	for i, l := range ranges {
		list[i] = []any{l.Low, l.High}
	}
	return entries(ctx, tx, sweepSQL["record among"], store.Table(list))
}

func entries(ctx context.Context, tx store.Tx, query string, args ...any) ([]entry, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []entry
	var moves []int
	var e entry
	var move, newest int
	for rows.Next() {
		if err := rows.Scan(&e.ID, &e.At, (*store.TaskID)(&e.TaskID), &e.Namespace, &move, &newest); err != nil {
			return nil, err
		}
		e.Newest = newest == 1
		if len(out) == cap(out) {
			out, moves = slices.Grow(out, max(16, len(out))), slices.Grow(moves, max(16, len(out)))
		}
		out, moves = append(out, e), append(moves, move)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	rows.Close()
	for i, move := range moves {
		m, err := store.MoveFrom(ctx, tx, move)
		if err != nil {
			return nil, err
		}
		out[i].Event, out[i].TaskTo = m.Event, store.Text(m.TaskTo)
		if m.Class == pawl.MoveOfTask {
			out[i].TaskTo = store.Text(m.To)
		}
	}
	return out, nil
}

// markStale records an event `stale` for the task of an event. It does so if that event is
// the task's newest, the task is open, and nothing will happen to the task by itself.
func markStale(ctx context.Context, tx store.Tx, now int64, e entry) (bool, error) {
	var namespace string
	found, err := store.Row(ctx, tx, []any{&namespace}, sweepSQL["forgotten"], store.TaskID(e.TaskID), e.ID)
	if err != nil || !found {
		return false, err
	}
	return true, store.Record(ctx, tx, now, []store.Event{{Namespace: namespace, TaskID: e.TaskID, Event: "stale",
		Actor: store.Actor{Type: pawl.ActorSystem}}})
}
