package db

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/clock"
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
			if err := onceOnly(a, cmd.Flags()); err != nil {
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

// onceOnly refuses settings of sweeps beside a server, and says that they are not stored.
func onceOnly(a *cli.App, flags *pflag.FlagSet) error {
	err := a.NotOfServer(flags, "sweep.")
	if names := a.Config.SweepFlags; err == nil && len(names) > 0 {
		a.Log().Info("settings of flags count for this command alone; for all processes they are those of `pawl serve`", "settings", names)
	}
	return err
}

// watch sweeps until it is stopped. The engine does that by itself and wakes for the
// next expiry. A server does so too, and is asked for additional passes.
func watch(ctx context.Context, a *cli.App, s pawl.Sweeper, every time.Duration) error {
	each := &passes{app: a}
	if r, ok := s.(interface {
		cli.Runner
		Observe(pawl.Observer)
	}); ok {
		r.Observe(each)
		return r.Run(ctx)
	}
	for ctx.Err() == nil {
		st, err := s.Sweep(ctx)
		if err != nil {
			return err
		}
		each.Swept(st)
		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
	}
	return nil
}

// passes prints a line, or a JSON object, for each pass that did something.
type passes struct {
	app *cli.App
	mu  sync.Mutex // a timer's pass and a whole one may end at once
}

// Swept implements pawl.Observer.
func (p *passes) Swept(st pawl.SweepStats) {
	if !st.Did() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.app.Config.Output == "json" {
		_ = p.app.Encode(st, false) // the sweep goes on without its reader
		return
	}
	line := clock.Now().UTC().Format(time.RFC3339)
	for _, n := range sweepNumbers(st) {
		if n.count > 0 {
			line += fmt.Sprintf("  %s %d", n.name, n.count)
		}
	}
	fmt.Fprintf(p.app.Stdout, "%s  took %d ms\n", line, st.ScanDurationMS)
}

// Counted implements pawl.Observer.
func (*passes) Counted(pawl.CountedEvents) {}

// Took implements pawl.Observer.
func (*passes) Took(string, string, []string, time.Duration) {}

// Committed implements pawl.Observer.
func (*passes) Committed(string, int) {}

func sweepOnce(ctx context.Context, a *cli.App, s pawl.Sweeper) error {
	st, err := s.Sweep(ctx)
	if err != nil {
		return err
	}
	return a.Show(st, func(w io.Writer) { SweepFields(w, st) })
}

type sweepNumber struct {
	name  string
	count int64
}

// sweepNumbers are the counters of a pass, with the words of the command line.
func sweepNumbers(st pawl.SweepStats) []sweepNumber {
	return []sweepNumber{{"expired found", st.ExpiredFound}, {"recovered", st.Recovered}, {"failed", st.Failed},
		{"checkpoints created", st.CheckpointsCreated}, {"errors", st.Errors}, {"became due", st.Due}, {"given up", st.GivenUp},
		{"buried", st.Buried}, {"stale", st.Stale}, {"tasks pruned", st.TasksPruned}, {"keys pruned", st.KeysPruned},
		{"checkpoints pruned", st.Checkpoints}, {"signals pruned", st.SignalsPruned}}
}

// SweepFields prints the numbers of a pass.
func SweepFields(w io.Writer, st pawl.SweepStats) {
	var fields []string
	for _, n := range sweepNumbers(st) {
		fields = append(fields, n.name, fmt.Sprint(n.count))
	}
	terminal.Fields(w, append(fields, "took", fmt.Sprintf("%d ms", st.ScanDurationMS), "next at", terminal.Time(st.NextExpiryAt))...)
}

// PruneCommand returns the command `pawl prune`.
func PruneCommand(a *cli.App) *cobra.Command {
	var dry bool
	cmd := a.Verb(
		"prune",
		"Archive and remove tasks and keys whose retention has passed",
		cobra.NoArgs,
		func(cmd *cobra.Command, args []string) error {
			if err := onceOnly(a, cmd.Flags()); err != nil {
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
