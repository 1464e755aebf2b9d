package engine

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-work/pawl/store"
)

// leaveTo is how long a claim that has waited leaves the items that its own worker lost to the
// claims of others.
const leaveTo = time.Second

// standBack returns the calls of a group that may claim from queues now. A worker that did not
// renew a lease may be frozen while its claim still waits at the server. Such a claim leaves the
// item to others first.
func (e *Engine) standBack(ctx context.Context, group []claimCall, queues []store.Queue) ([]claimCall, error) {
	if !slices.ContainsFunc(group, func(c claimCall) bool { return c.waited }) {
		return group, nil
	}
	var back []store.Queue
	for _, q := range queues {
		if q.Head = ""; requeued(q.Rank) && !slices.Contains(back, q) {
			back = append(back, q)
		}
	}
	if len(back) == 0 {
		return group, nil
	}
	var lost map[string]int64
	var now int64
	err := e.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		if lost, err = lostItems(ctx, tx, group[0].namespace, back); err == nil && len(lost) > 0 {
			now, err = tx.Now(ctx)
		}
		return err
	})
	if err != nil || len(lost) == 0 {
		return group, err
	}
	var calls []claimCall
	for _, c := range group {
		at := lost[c.who.WorkerID]
		if until := at + e.leaveTo.Microseconds(); c.waited && at > c.left && until > now {
			c.next.own, c.next.lost = until-now, at
		} else {
			calls = append(calls, c)
		}
	}
	return calls, nil
}
