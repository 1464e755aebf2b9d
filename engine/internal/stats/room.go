// Package stats is the room of statistics: how many tasks and items there are, by state and by queue, what happened in each
// minute, and which workers are alive. What the feed counts is added up in store, with the positions of the events.
package stats

import (
	"context"
	"embed"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

//go:embed stats.sql
var sqlFile embed.FS

var texts = store.Texts(sqlFile, "stats.sql")

// Stats are the statistics of a database. Its methods are those of pawl.Service.
type Stats struct {
	k *kernel.Kernel
	*state
}

// state is what all Stats of a process share.
type state struct {
	seen   seenWorkers
	stored storedStats
}

// New returns the statistics of a database, and gives the kernel what others do with them.
func New(k *kernel.Kernel) *Stats {
	r := &Stats{k, &state{}}
	k.Seen = func(ctx context.Context, at *kernel.Kernel, namespace, workerID string) {
		r.seen.called(ctx, k, at, namespace, workerID)
	}
	k.WriteSeen, k.Named = r.seen.write, namedTypes
	b := &backlog{k: k}
	k.Often = append(k.Often, func(ctx context.Context) {
		if err := r.seen.write(ctx, k); err != nil {
			k.LogError(ctx, unwritten, err)
		}
		if err := b.keep(ctx); err != nil {
			k.LogError(ctx, "counting the backlog failed; retrying", err)
		}
	})
	return r
}

// Over returns the statistics over another Kernel of the database.
func Over(r *Stats, k *kernel.Kernel) *Stats { return &Stats{k, r.state} }

// Declared is the declaration of the room. Its rows are of no task.
func Declared() kernel.Room {
	return kernel.Room{
		Name: "stats",
		Tables: []kernel.Table{
			{Name: "workers", Key: "namespace", Plain: []string{"namespace", "worker_id", "name", "version", "types"},
				Changes: "when the worker calls; no event tells of it"},
			{Name: "queue_minutes", Key: "queue", Plain: []string{"namespace"}, Changes: "with each event that is given its position"},
			{Name: "totals", Key: "namespace", Plain: []string{"namespace", "type"}, Changes: "with each event that is given its position"},
		},
		Steps: []store.Step{{Name: "workers", Run: store.Repeat(forgetWorkers)}, {Name: "counters", Run: removeOldMinutes}},
		Rules: []store.RuleSearch{{Rule: store.Rule{Name: "totals",
			Says:   "the totals say how many items are in each state, and how many events there are",
			Repair: "remove the member counting from the detail of the row feed in relay_cursors: the events are counted again"},
			Find: wrongTotals}},
		Gauges: gauges,
	}
}

// forgetWorkers removes workers that were not seen for long, and those beyond the bound of a namespace, because a claimer can
// invent any number of worker ids.
func forgetWorkers(ctx context.Context, tx store.Tx, now int64, limit int) (int64, error) {
	return tx.Exec(ctx, texts["forget workers"], now-pawl.RetainWorkers.Microseconds(), pawl.MaxWorkers, limit)
}

// removeOldMinutes removes counters of minutes that are older than RetainCounters.
func removeOldMinutes(ctx context.Context, p store.Sweeping) error {
	if p.Options.RetainCounters <= 0 {
		return nil
	}
	_, err := p.Repeat(ctx, func(ctx context.Context, tx store.Tx, now int64, limit int) (int64, error) {
		before := now - p.Options.RetainCounters.Microseconds()
		return tx.Exec(ctx, texts["remove old"], before/time.Minute.Microseconds(), limit)
	})
	return err
}
