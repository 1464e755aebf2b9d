package sweep

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// maxCounters bounds the counters that one pass reads.
const maxCounters = 100 * batch

// checkpointScan remembers where the last pass stopped among the counters. For tasks over the
// limit of which nothing could be pruned, it also remembers the number of checkpoints: a
// task with many named steps keeps more for good, and is read again only when it has new
// checkpoints.
type checkpointScan struct {
	after      string
	unprunable map[string]int64
}

// checkpoints prunes tasks that have more checkpoints than the retention limit, down to
// the limit and what a resume needs. A pass reads at most 100,000 counters; the next one
// continues there.
func (p *pass) checkpoints(ctx context.Context) error {
	if !p.Options.CleanupOldCheckpoints || p.Options.CheckpointRetentionLimit <= 0 {
		return nil
	}
	scan := &p.checkpointScan
	if scan.unprunable == nil || len(scan.unprunable) > maxCounters {
		scan.unprunable = map[string]int64{}
	}
	var over []counted
	err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		until, err := countersUntil(ctx, tx, scan.after, maxCounters)
		if err != nil {
			return err
		}
		over, err = countersOver(ctx, tx, scan.after, until, p.Options.CheckpointRetentionLimit)
		scan.after = until
		if until == store.LastTask {
			scan.after = ""
		}
		return err
	})
	if err != nil {
		return p.logError(ctx, "checkpoints", err)
	}
	for _, c := range over {
		if scan.unprunable[c.TaskID] == c.Checkpoints {
			continue
		}
		if err := p.logError(ctx, "checkpoints of "+c.TaskID, p.pruneTask(ctx, c.TaskID)); err != nil {
			return err
		}
		scan.unprunable[c.TaskID] = c.Checkpoints
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

// countersUntil returns the task id that ends the range of the n rows of task_counters above
// after, or LastTask when there are fewer.
func countersUntil(ctx context.Context, tx store.Tx, after string, n int) (string, error) {
	until := store.LastTask
	_, err := store.Row(ctx, tx, []any{(*store.TaskID)(&until)}, sweepSQL["counters until"], store.FromTask(after), n-1)
	return until, err
}

// counted is a task and the number of its newest checkpoint.
type counted struct {
	TaskID      string
	Checkpoints int64
}

// countersOver lists the tasks of a range that keep more than limit checkpoints.
func countersOver(ctx context.Context, tx store.Tx, after, until string, limit int) ([]counted, error) {
	return store.All(ctx, tx, sweepSQL["counters over"], []any{store.FromTask(after), store.TaskID(until), limit},
		func(rows store.Rows, c *counted) error {
			return rows.Scan((*store.TaskID)(&c.TaskID), &c.Checkpoints)
		})
}
