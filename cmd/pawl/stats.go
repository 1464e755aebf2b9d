package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
)

func (a *app) statsCmd() *cobra.Command {
	return a.verb("stats", "How things stand", cobra.NoArgs, with(a, func(ctx context.Context, s pawl.HouseReader, _ []string) error {
		st, err := s.Stats(ctx)
		if err != nil {
			return err
		}
		return a.show(st, func(w io.Writer) { statsFields(w, st) })
	}))
}

func statsFields(w io.Writer, st pawl.Stats) {
	var rows []string
	for _, x := range pawl.ItemStates {
		if n := st.ItemsByState[pawl.ItemState(x.Name)]; n > 0 {
			rows = append(rows, row("items "+x.Name, n))
		}
	}
	for _, x := range pawl.TaskStates {
		if n := st.TasksByState[pawl.TaskState(x.Name)]; n > 0 {
			text := fmt.Sprint(n)
			if x.Name == string(pawl.TaskQueued) {
				text += pending(&st.TasksPending)
			}
			rows = append(rows, row("tasks "+x.Name, text))
		}
	}
	rows = append(rows,
		row("oldest queued", st.OldestQueuedAt),
		row("leases", fmt.Sprintf("%d, %d expired, %d stale", st.Leases, st.ExpiredLeases, st.StaleLeases)),
		row("workers", st.Workers),
		row("checkpoints", st.Checkpoints),
		row("events", st.Events),
		row("keys", fmt.Sprintf("%d pending, %d completed, %d failed", st.Keys.Pending, st.Keys.Completed, st.Keys.Failed)),
		row("key begins", fmt.Sprintf("%d hits, %d misses, %d replays", st.Keys.Hits, st.Keys.Misses, st.Keys.Replays)),
		row("sweeps", fmt.Sprintf("%d, %d recovered, %d failed", st.Sweeps.TotalScans, st.Sweeps.TotalRecovered, st.Sweeps.TotalFailed)),
		row("sweep running", st.Sweeps.IsRunning),
	)
	if last := st.Sweeps.LastScan; last != nil {
		rows = append(rows, row("last sweep", last.StartedAt))
	}
	table(w, "WHAT\tHOW MUCH", rows)
}
