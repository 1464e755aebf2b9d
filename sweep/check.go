package sweep

import (
	"context"
	"math"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

const (
	// checkedTasks bounds the tasks that one read of the check of retention covers.
	checkedTasks = 20_000
)

// Check searches for tasks that no pass of retention will find, among those in db: the cursors have passed them.
func (s *Sweeper) Check(ctx context.Context, db store.DB, breach func(store.Breach)) error {
	report := func(taskID, found string) { breach(store.BreachOf(store.RuleRetention, taskID, found)) }
	p := s.pass(nil)
	p.preview = &preview{}
	own, err := p.retentions(ctx)
	if err == nil {
		err = p.settle(ctx)
	}
	if err != nil {
		return err
	}
	type tried struct{ cursor, taskID string }
	cursors, again, furthest := map[string]recordCursor{}, map[tried]bool{}, int64(0)
	spans := retentionSpans(p.Options, own)
	err = s.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		for _, x := range spans {
			lists, err := listsOf(ctx, tx, x.cursor, math.MaxInt32)
			if err != nil {
				return err
			}
			for _, name := range append(lists, x.cursor) {
				at, err := cursorOf(ctx, tx, name)
				if err != nil {
					return err
				}
				for _, id := range at.Again {
					again[tried{x.cursor, id}] = true
				}
				cursors[name], furthest = at, max(furthest, at.Position)
			}
		}
		return nil
	})
	states := append(slices.Clone(ended), string(pawl.TaskFailed), string(pawl.TaskDeadLettered))
	for after := ""; err == nil && furthest > 0 && after != store.LastTask; {
		err = db.View(ctx, func(ctx context.Context, tx store.Tx) error {
			tasks, end, err := atRestBefore(ctx, tx, after, furthest, states, checkedTasks)
			after = end
			for _, t := range tasks {
				for _, x := range spans {
					at := cursors[x.cursor]
					if slices.Contains(x.states, t.State) && x.own(own[t.Type]) == x.seconds && at.Position >= t.Last &&
						!again[tried{x.cursor, t.TaskID}] && !at.Has(t.Last) {
						report(t.TaskID, "it is "+t.State+", and the cursor "+x.cursor+" has passed its events")
					}
				}
			}
			return err
		})
	}
	return err
}
