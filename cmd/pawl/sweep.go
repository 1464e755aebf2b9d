package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
)

// sweepFlags are the options of a pass and the ages of retention.
func sweepFlags(f *pflag.FlagSet) {
	d := defaults().Sweep
	f.Bool("create-checkpoints", d.CreateCheckpoints, "leave an error_boundary for each expired lease")
	f.Bool("cleanup-old-checkpoints", d.CleanupOldCheckpoints, "prune checkpoints beyond the limit")
	f.Int("checkpoint-retention-limit", d.CheckpointRetentionLimit, "checkpoints kept per task, besides what a resume needs")
	f.Duration("bury-after", d.BuryAfter, "failed items are set aside after this; 0 never")
	f.Duration("stale-after", d.StaleAfter, "tasks nobody touched get one event; 0 never")
	retentionFlags(f)
	for flag, key := range map[string]string{
		"create-checkpoints": "create_checkpoints", "cleanup-old-checkpoints": "cleanup_old_checkpoints",
		"checkpoint-retention-limit": "checkpoint_retention_limit", "bury-after": "bury_after", "stale-after": "stale_after",
	} {
		bind(f, flag, "sweep."+key)
	}
}

func retentionFlags(f *pflag.FlagSet) {
	d := defaults().Sweep
	f.Duration("retain-tasks", d.RetainTasks, "how long ended tasks are kept before they are archived and removed; 0 for ever")
	f.Duration("retain-failed", d.RetainFailed, "how long failed tasks are kept after their last change; 0 for ever")
	f.Duration("retain-dead-lettered", d.RetainDead, "how long dead-lettered tasks are kept after their last change; 0 for ever")
	f.Duration("retain-keys", d.RetainKeys, "how long completed keys without expiry are kept; 0 for ever")
	f.Duration("retain-sweeps", d.RetainSweeps, "how long statistics of sweeps are kept; 0 for ever")
	f.Duration("retain-chunks", d.RetainChunks, "how long chunks of messages that ended are kept; 0 for ever")
	f.String("archive-dir", "", "where archives go (default beside the database, or in it)")
	for flag, key := range map[string]string{
		"retain-tasks": "retain_tasks", "retain-failed": "retain_failed", "retain-dead-lettered": "retain_dead_lettered",
		"retain-keys": "retain_keys", "retain-sweeps": "retain_sweeps", "retain-chunks": "retain_chunks", "archive-dir": "archive_dir",
	} {
		bind(f, flag, "sweep."+key)
	}
}

// runner owns the sweeps until its context ends: the engine.
type runner interface {
	Run(ctx context.Context) error
}

func (a *app) sweepCmd() *cobra.Command {
	var every time.Duration
	cmd := a.verb("sweep", "One pass over what time moves; --every makes it the watchdog", cobra.NoArgs, func(cmd *cobra.Command, args []string) error {
		if every == 0 {
			return with(a, a.sweepOnce)(cmd, args)
		}
		if every < time.Second {
			return invalid("--every is a second or more, not %s", every)
		}
		a.cfg.Sweep.ScanIntervalSeconds = int(every / time.Second)
		return with(a, func(ctx context.Context, s pawl.Sweeper, _ []string) error { return a.watch(ctx, s, every) })(cmd, args)
	})
	cmd.Flags().DurationVar(&every, "every", 0, "go on, with at most this between passes (woken for the next expiry)")
	sweepFlags(cmd.Flags())
	return cmd
}

// watch sweeps until it is told to stop. The engine does that by itself, and is
// woken for the next expiry; a server, which does too, is asked for passes.
func (a *app) watch(ctx context.Context, s pawl.Sweeper, every time.Duration) error {
	if r, ok := s.(runner); ok {
		return r.Run(ctx)
	}
	for ctx.Err() == nil {
		if err := a.sweepOnce(ctx, s, nil); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
	}
	return nil
}

func (a *app) sweepOnce(ctx context.Context, s pawl.Sweeper, _ []string) error {
	st, err := s.Sweep(ctx)
	if err != nil {
		return err
	}
	return a.show(st, func(w io.Writer) { sweepFields(w, st) })
}

func sweepFields(w io.Writer, st pawl.SweepStats) {
	fields(w,
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
		"took", fmt.Sprintf("%d ms", st.ScanDurationMS),
		"next at", when(st.NextExpiryAt),
	)
}

func (a *app) pruneCmd() *cobra.Command {
	var dry bool
	cmd := a.verb("prune", "Archive and remove what is past its age, now", cobra.NoArgs, with(a, func(ctx context.Context, s pawl.Sweeper, args []string) error {
		if !dry {
			return a.sweepOnce(ctx, s, args)
		}
		eng, ok := s.(*engine.Engine)
		if !ok {
			return invalid("--dry-run reads the database: name it with --db")
		}
		p, err := eng.Prunable(ctx)
		if err != nil {
			return err
		}
		return a.show(p, func(w io.Writer) {
			for _, id := range p.Tasks {
				fmt.Fprintln(w, id)
			}
			fmt.Fprintf(w, "%d tasks would be archived and removed, and %d keys removed\n", len(p.Tasks), p.Keys)
		})
	}))
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would be removed, and change nothing")
	cmd.Long = "A pass of the sweep with the ages given here: ended, failed and dead-lettered tasks are archived as compressed JSONL, then removed with all that hangs on them."
	retentionFlags(cmd.Flags())
	return cmd
}
