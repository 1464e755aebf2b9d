package db

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
)

// SweepCommand returns the command `pawl sweep`.
func SweepCommand(a *cli.App) *cobra.Command {
	var every time.Duration
	cmd := a.Verb(
		"sweep",
		"Run one sweep: expired leases, due items, retention; --every repeats it",
		cobra.NoArgs,
		func(cmd *cobra.Command, args []string) error {
			if err := a.NotOfServer(cmd.Flags(), "sweep."); err != nil {
				return err
			}
			if every == 0 {
				return cli.With(a, func(ctx context.Context, s pawl.Sweeper, _ []string) error { return sweepOnce(ctx, a, s) })(cmd, args)
			}
			if every < time.Second {
				return cli.Invalid("--every must be at least one second, not %s", every)
			}
			a.Config.Sweep.ScanIntervalSeconds = int(every / time.Second)
			return cli.With(a, func(ctx context.Context, s pawl.Sweeper, _ []string) error { return watch(ctx, a, s, every) })(cmd, args)
		},
	)
	cmd.Flags().DurationVar(&every, "every", 0, "repeat, with at most this time between passes; the next expiry starts one earlier")
	cli.SettingFlags(cmd.Flags(), "sweep.")
	return cmd
}

// watch sweeps until it is stopped. The engine does that by itself and wakes for the
// next expiry. A server does so too, and is asked for additional passes.
func watch(ctx context.Context, a *cli.App, s pawl.Sweeper, every time.Duration) error {
	if r, ok := s.(cli.Runner); ok {
		return r.Run(ctx)
	}
	for ctx.Err() == nil {
		if err := sweepOnce(ctx, a, s); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
	}
	return nil
}

func sweepOnce(ctx context.Context, a *cli.App, s pawl.Sweeper) error {
	st, err := s.Sweep(ctx)
	if err != nil {
		return err
	}
	return a.Show(st, func(w io.Writer) { sweepFields(w, st) })
}

func sweepFields(w io.Writer, st pawl.SweepStats) {
	terminal.Fields(w,
		"expired found", fmt.Sprint(st.ExpiredFound),
		"recovered", fmt.Sprint(st.Recovered),
		"failed", fmt.Sprint(st.Failed),
		"checkpoints created", fmt.Sprint(st.CheckpointsCreated),
		"errors", fmt.Sprint(st.Errors),
		"became due", fmt.Sprint(st.Due),
		"given up", fmt.Sprint(st.GivenUp),
		"buried", fmt.Sprint(st.Buried),
		"stale", fmt.Sprint(st.Stale),
		"tasks pruned", fmt.Sprint(st.TasksPruned),
		"keys pruned", fmt.Sprint(st.KeysPruned),
		"checkpoints pruned", fmt.Sprint(st.Checkpoints),
		"signals pruned", fmt.Sprint(st.SignalsPruned),
		"took", fmt.Sprintf("%d ms", st.ScanDurationMS),
		"next at", terminal.Time(st.NextExpiryAt),
	)
}

// PruneCommand returns the command `pawl prune`.
func PruneCommand(a *cli.App) *cobra.Command {
	var dry bool
	cmd := a.Verb(
		"prune",
		"Archive and remove tasks and keys whose retention has passed",
		cobra.NoArgs,
		func(cmd *cobra.Command, args []string) error {
			if err := a.NotOfServer(cmd.Flags(), "sweep."); err != nil {
				return err
			}
			return cli.With(a, func(ctx context.Context, s pawl.Sweeper, _ []string) error {
				if !dry {
					return sweepOnce(ctx, a, s)
				}
				p, err := s.Prunable(ctx)
				if err != nil {
					return err
				}
				return a.Show(p, func(w io.Writer) { prunableLines(w, p) })
			})(cmd, args)
		},
	)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "count what would be removed, and change nothing")
	cmd.Long = "Runs a pass of the sweep with the retention given here, or with that of the named server:\n" +
		"ended, failed and dead-lettered tasks are archived as compressed JSONL and then removed\n" +
		"with all their rows."
	cli.SettingFlags(cmd.Flags(), "sweep.retain_", "sweep.archive_dir")
	return cmd
}

func prunableLines(w io.Writer, p pawl.Prunable) {
	for _, id := range p.TaskIDs {
		fmt.Fprintln(w, id)
	}
	if rest := p.Tasks - int64(len(p.TaskIDs)); rest > 0 {
		fmt.Fprintf(w, "and %d more\n", rest)
	}
	least := ""
	if p.More {
		least = "at least "
	}
	fmt.Fprintf(w, "%s%d tasks would be archived and removed, and %d keys removed\n", least, p.Tasks, p.Keys)
}
