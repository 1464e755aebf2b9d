package hot

import (
	"context"
	"maps"
	"slices"

	"github.com/pawl-work/pawl/store"
)

var (
	settle          = read("settle.sql")
	settleCount     = settle.get("Count")
	settleSubmitted = settle.get("Submitted")
	settleTask      = settle.get("Settle")
	settleLeft      = settle.get("Left")
	settleFree      = settle.get("FreeInputHash")
)

// tally counts, for each task of many items, the items of a batch that have no work left.
type tally map[store.TaskID]*counts

type counts struct {
	out, failed int64
	acceptance  bool
	feeds       bool
	settled     bool
	submitted   bool
	left        bool // open without an open item: see store.LeftOpen
}

// left counts an item that moved from its lease to state.
func (t *tally) left(l *lease, state string) {
	if l.Solo != 0 || store.HasWork(state) {
		return
	}
	if *t == nil {
		*t = tally{}
	}
	c := (*t)[l.taskID]
	if c == nil {
		c = &counts{}
		(*t)[l.taskID] = c
	}
	c.out++
	if state == "failed" {
		c.failed++
	}
	c.acceptance = c.acceptance || l.Acceptance == 1
	c.feeds = c.feeds || state == "completed" && l.FeedsItems()
}

// settle writes the counters in the order of task ids, settles the tasks that have no open
// item left, and marks them in moved.
func (t tally) settle(ctx context.Context, tx store.Tx, moved []store.Moved, now int64) error {
	for _, id := range slices.Sorted(maps.Keys(t)) {
		if err := t[id].write(ctx, tx, id, now); err != nil {
			return err
		}
	}
	for i := range moved {
		if c := t[store.TaskID(moved[i].TaskID)]; c != nil && !store.HasWork(moved[i].State) {
			moved[i].Settled, moved[i].Owed, moved[i].Fed = moved[i].Settled || c.settled, c.submitted, moved[i].Fed || c.left
		}
	}
	return nil
}

func (c *counts) write(ctx context.Context, tx store.Tx, taskID store.TaskID, now int64) error {
	var namespace, state string
	var open, todo int64
	var n store.Counts
	found, err := store.Row(ctx, tx, []any{&namespace, &state, &n.Items, &open, &n.Failed, &n.Dead, &n.Cancelled, &n.Ignores, &todo},
		settleCount, taskID, c.out, c.failed)
	if err != nil || !found || state != "open" {
		return err
	}
	left := n.Failed > 0 && n.Ignores == 1 && (c.feeds || todo == 1)
	if left && todo == 0 {
		_, err = tx.Exec(ctx, settleLeft, taskID) // see store.LeftOpen
	}
	c.left = left && open == 0
	if err != nil || left || open > 0 {
		return err
	}
	if !c.acceptance {
		if _, err := store.Row(ctx, tx, []any{&c.acceptance}, settleSubmitted, taskID); err != nil {
			return err
		}
	}
	n.Acceptance = c.acceptance
	to := n.Settled()
	var completed any = now
	if to == "submitted" {
		completed = nil
	}
	if _, err := tx.Exec(ctx, settleTask, taskID, to, completed, now); err != nil {
		return err
	}
	if store.FreesInput(to) {
		if _, err := tx.Exec(ctx, settleFree, taskID); err != nil {
			return err
		}
	}
	c.settled, c.submitted = true, to == "submitted"
	e := event{namespace: namespace, taskID: taskID, name: to, from: "open", to: store.Text(to), by: system}
	return e.write(ctx, tx, now)
}
