package checkpoints

import (
	"context"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// countersRead bounds the counters that one pass reads, in sizes of a transaction.
const countersRead = 100

// scan remembers where the last pass stopped among the counters. For tasks over the
// limit of which nothing could be pruned, it also remembers the number of checkpoints: a
// task with many named steps keeps more for good, and is read again only when it has new
// checkpoints.
type scan struct {
	after      string
	unprunable map[string]int64
}

// prune is a step of the sweep: it prunes tasks that have more checkpoints than the retention limit, down to
// the limit and what a resume needs. A pass reads at most 100,000 counters; the next one
// continues there.
func (scan *scan) prune(ctx context.Context, p store.Sweeping) error {
	if !p.Options.CleanupOldCheckpoints || p.Options.CheckpointRetentionLimit <= 0 {
		return nil
	}
	if scan.unprunable == nil || len(scan.unprunable) > countersRead*p.Limit {
		scan.unprunable = map[string]int64{}
	}
	var over []counted
	err := p.View(ctx, func(ctx context.Context, tx store.Tx) error {
		until, err := countersUntil(ctx, tx, scan.after, countersRead*p.Limit)
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
		return err
	}
	for _, c := range over {
		if scan.unprunable[c.TaskID] == c.Checkpoints {
			continue
		}
		if err := p.Failed(ctx, "checkpoints of "+c.TaskID, pruneTask(ctx, p, c.TaskID)); err != nil {
			return err
		}
		scan.unprunable[c.TaskID] = c.Checkpoints
	}
	return nil
}

func pruneTask(ctx context.Context, p store.Sweeping, taskID string) error {
	n, err := p.Repeat(ctx, func(ctx context.Context, tx store.Tx, _ int64, limit int) (int64, error) {
		return pruneOldest(ctx, tx, taskID, p.Options.CheckpointRetentionLimit, limit)
	})
	p.Stats.Checkpoints += n
	return err
}

// pruneOldest removes up to batch of a task's checkpoints, oldest first. It keeps the
// newest keep checkpoints and those that a resume needs.
func pruneOldest(ctx context.Context, tx store.Tx, taskID string, keep, batch int) (int64, error) {
	var counter int64
	if found, err := store.Row(ctx, tx, []any{&counter}, texts["hold counters"], store.TaskID(taskID)); err != nil || !found {
		return 0, err
	}
	ids, err := store.Strings(ctx, tx, texts["prunable"], store.TaskID(taskID), keep, batch)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	if err := remove(ctx, tx, ids); err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, texts["count pruned"], store.TaskID(taskID), len(ids))
	return int64(len(ids)), err
}

func remove(ctx context.Context, tx store.Tx, ids []string) error {
	return store.Gated(ctx, tx, "checkpoints", func() error {
		_, err := tx.Exec(ctx, texts["remove"], store.List(ids))
		return err
	})
}

// countersUntil returns the task id that ends the range of the n rows of task_counters above
// after, or LastTask when there are fewer.
func countersUntil(ctx context.Context, tx store.Tx, after string, n int) (string, error) {
	until := store.LastTask
	_, err := store.Row(ctx, tx, []any{(*store.TaskID)(&until)}, texts["counters until"], store.FromTask(after), n-1)
	return until, err
}

// counted is a task and the number of its newest checkpoint.
type counted struct {
	TaskID      string
	Checkpoints int64
}

// countersOver lists the tasks of a range that keep more than limit checkpoints.
func countersOver(ctx context.Context, tx store.Tx, after, until string, limit int) ([]counted, error) {
	return store.All(ctx, tx, texts["counters over"], []any{store.FromTask(after), store.TaskID(until), limit},
		func(rows store.Rows, c *counted) error {
			return rows.Scan((*store.TaskID)(&c.TaskID), &c.Checkpoints)
		})
}

// pruneOnly carries out the rules alone, on a task in any state.
func (a *appending) pruneOnly(ctx context.Context, tx store.Tx, now int64) (out pawl.CheckpointsPruned, err error) {
	kept, err := store.TaskIDs(ctx, tx, texts["kept task"], store.TaskID(a.TaskID), a.Namespace)
	if err != nil {
		return out, err
	}
	if len(kept) == 0 {
		return out, pawl.NotFound("task", a.TaskID)
	}
	var newest int64
	if found, err := store.Row(ctx, tx, []any{&newest}, texts["hold counters"], store.TaskID(a.TaskID)); err != nil || !found {
		return out, err
	}
	if out.Pruned, out.More, err = pruneByRules(ctx, tx, now, a.TaskID, a.Prune); err != nil || out.Pruned == 0 {
		return out, err
	}
	data := map[string]any{"rules": a.Prune, "checkpoints": out.Pruned}
	return out, store.Record(ctx, tx, now, []store.Event{a.event("pruned", data)})
}

// pruneByRules removes checkpoints that a locked task itself has and that the rules do not keep, at
// most pawl.MaxPrunedCheckpoints. more says that there may be others.
func pruneByRules(ctx context.Context, tx store.Tx, now int64, taskID string, rules []pawl.PruneRule) (n int, more bool, err error) {
	var ids []string
	for _, r := range rules {
		left := pawl.MaxPrunedCheckpoints - len(ids)
		if left <= 0 {
			more = true
			break
		}
		from, to := nameRange(r.Prefix)
		// One more shows that there are others. Another one may be the newest of the task, which stays.
		found, err := store.Strings(ctx, tx, texts["beyond rule"], store.TaskID(taskID), from, to, r.Keep, left+2)
		if err != nil {
			return 0, false, err
		}
		if len(found) > left {
			found, more = found[:left], true
		}
		ids = append(ids, found...)
	}
	if len(ids) == 0 {
		return 0, more, nil
	}
	slices.Sort(ids) // rules may overlap
	ids = slices.Compact(ids)
	err = remove(ctx, tx, ids)
	if err == nil {
		_, err = tx.Exec(ctx, texts["count removed"], store.TaskID(taskID), len(ids), now)
	}
	return len(ids), more, err
}
