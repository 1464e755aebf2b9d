package db

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
)

// StatsCommand returns the command `pawl stats`.
func StatsCommand(a *cli.App) *cobra.Command {
	const short = "Show counts of items, tasks, leases, keys and sweeps, or what happened in each queue"
	var f seriesFlags
	cmd := a.Verb("stats", short, cobra.NoArgs, cli.With(a, func(ctx context.Context, s statsReader, _ []string) error {
		if f.given() {
			return f.show(ctx, a, s)
		}
		st, err := s.Stats(ctx)
		if err != nil {
			return err
		}
		return a.Show(st, func(w io.Writer) { statsFields(w, st) })
	}))
	f.register(cmd)
	cmd.Example = "  pawl stats\n  pawl stats --since 1h\n  pawl stats --since 24h --step 1h --type review"
	return cmd
}

type statsReader interface {
	pawl.StatsReader
	pawl.SeriesReader
}

func statsFields(w io.Writer, st pawl.Stats) {
	var rows []string
	for _, x := range pawl.ItemStates {
		if n := st.ItemsByState[pawl.ItemState(x.Name)]; n > 0 {
			rows = append(rows, terminal.Row("items "+x.Name, n))
		}
	}
	for _, x := range pawl.TaskStates {
		if n := st.TasksByState[pawl.TaskState(x.Name)]; n > 0 {
			text := fmt.Sprint(n)
			if x.Name == string(pawl.TaskQueued) {
				text += cli.Pending(&st.TasksPending)
			}
			rows = append(rows, terminal.Row("tasks "+x.Name, text))
		}
	}
	rows = append(rows,
		terminal.Row("oldest queued", st.OldestQueuedAt),
		terminal.Row("leases", fmt.Sprintf("%d, %d expired, %d stale", st.Leases, st.ExpiredLeases, st.StaleLeases)),
		terminal.Row("open messages", fmt.Sprintf("%d, %d stalled", st.Streaming, st.Stalled)),
		terminal.Row("workers", st.Workers),
		terminal.Row("checkpoints", st.Checkpoints),
		terminal.Row("events", st.Events),
		terminal.Row("keys", fmt.Sprintf("%d pending, %d completed, %d failed", st.Keys.Pending, st.Keys.Completed, st.Keys.Failed)),
		terminal.Row("key begins", fmt.Sprintf("%d hits, %d misses, %d replays", st.Keys.Hits, st.Keys.Misses, st.Keys.Replays)),
		terminal.Row("sweeps", fmt.Sprintf("%d, %d recovered, %d failed", st.Sweeps.TotalScans, st.Sweeps.TotalRecovered, st.Sweeps.TotalFailed)),
		terminal.Row("sweep running", st.Sweeps.IsRunning),
	)
	if last := st.Sweeps.LastScan; last != nil {
		rows = append(rows, terminal.Row("last sweep", last.StartedAt))
	}
	for _, name := range slices.Sorted(maps.Keys(st.Sweeps.Settings)) {
		rows = append(rows, terminal.Row(name, st.Sweeps.Settings[name]))
	}
	terminal.Table(w, "WHAT\tHOW MUCH", rows)
}
