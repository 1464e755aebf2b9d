package sweep

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// stretch bounds the counters that one pass looks at.
const stretch = 100 * batch

// examined remembers where the last pass stopped among the counters, and of the
// tasks that keep more than the limit how many checkpoints they had when nothing
// could be pruned: many named steps keep more for good, and are not looked at
// again before they have new ones.
type examined struct {
	after string
	tasks map[string]int64
}

// checkpoints prunes tasks that keep more checkpoints than the retention limit,
// down to that and what a resume needs. A pass looks at 100,000 counters at
// most, the next one goes on from there.
func (p *pass) checkpoints(ctx context.Context) error {
	if !p.Options.CleanupOldCheckpoints || p.Options.CheckpointRetentionLimit <= 0 {
		return nil
	}
	x := &p.examined
	if x.tasks == nil || len(x.tasks) > stretch {
		x.tasks = map[string]int64{}
	}
	var over []store.Counted
	err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		until, err := store.CountersUntil(ctx, tx, x.after, stretch)
		if err != nil {
			return err
		}
		over, err = store.CountersOver(ctx, tx, x.after, until, p.Options.CheckpointRetentionLimit)
		x.after = until
		if until == store.EndOfTime {
			x.after = ""
		}
		return err
	})
	if err != nil {
		return p.mishap(ctx, "checkpoints", err)
	}
	for _, c := range over {
		if x.tasks[c.TaskID] == c.Checkpoints {
			continue
		}
		if err := p.mishap(ctx, "checkpoints of "+c.TaskID, p.pruneTask(ctx, c.TaskID)); err != nil {
			return err
		}
		x.tasks[c.TaskID] = c.Checkpoints
	}
	return nil
}

func (p *pass) pruneTask(ctx context.Context, taskID string) error {
	for {
		var n int
		err := p.do(ctx, func(ctx context.Context, tx store.Tx, _ int64) (err error) {
			n, err = store.PruneCheckpoints(ctx, tx, taskID, p.Options.CheckpointRetentionLimit, batch)
			return err
		})
		if err != nil {
			return err
		}
		p.stats.Checkpoints += int64(n)
		if n < batch {
			return nil
		}
	}
}
