package cli

import (
	"context"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
)

// WithSweeps runs the sweeps, if s owns any, for as long as run runs. It ends when
// they fail: a migration has excluded this program.
func WithSweeps(ctx context.Context, s any, run func(context.Context) error) error {
	sweeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ctx, halt := context.WithCancel(ctx)
	defer halt()
	var both errgroup.Group
	both.Go(func() error {
		defer stop()
		return run(ctx)
	})
	if r, ok := s.(Runner); ok {
		both.Go(func() error {
			err := r.Run(sweeping)
			if err != nil {
				halt()
			}
			return err
		})
	}
	return both.Wait()
}

// SweepFlags are the options of a pass and the ages of retention.
func SweepFlags(f *pflag.FlagSet) {
	d := Defaults().Sweep
	f.Bool("create-checkpoints", d.CreateCheckpoints, "leave an error_boundary for each expired lease")
	f.Bool("cleanup-old-checkpoints", d.CleanupOldCheckpoints, "prune checkpoints beyond the limit")
	f.Int("checkpoint-retention-limit", d.CheckpointRetentionLimit, "checkpoints kept per task, besides what a resume needs")
	f.Duration("bury-after", d.BuryAfter, "failed items are set aside after this; 0 never")
	f.Duration("stale-after", d.StaleAfter, "tasks nobody touched get one event; 0 never")
	RetentionFlags(f)
	for flag, key := range map[string]string{
		"create-checkpoints": "create_checkpoints", "cleanup-old-checkpoints": "cleanup_old_checkpoints",
		"checkpoint-retention-limit": "checkpoint_retention_limit", "bury-after": "bury_after", "stale-after": "stale_after",
	} {
		Bind(f, flag, "sweep."+key)
	}
}

// RetentionFlags adds the flags of the retention settings.
func RetentionFlags(f *pflag.FlagSet) {
	d := Defaults().Sweep
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
		Bind(f, flag, "sweep."+key)
	}
}

// Runner owns the sweeps until its context ends: the engine.
type Runner interface {
	Run(ctx context.Context) error
}
