package task

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
)

// changes are the flags that change a task, or that replace values in a clone.
type changes struct {
	title, metadata string
	priority        int
}

func (c *changes) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.title, "title", "", `title, for people; "" removes it`)
	cmd.Flags().IntVar(&c.priority, "priority", 0, "−32768…32767, higher first; also of items that have the task's priority")
	cmd.Flags().StringVar(&c.metadata, "metadata", "", "members to set, as a JSON object, @FILE or -; null removes a member")
}

// read returns the values of the flags that were given.
func (c *changes) read(a *cli.App, cmd *cobra.Command) (u pawl.TaskUpdate, err error) {
	if cmd.Flags().Changed("title") {
		u.Title = &c.title
	}
	if cmd.Flags().Changed("priority") {
		u.Priority = &c.priority
	}
	u.Metadata, err = a.JsonArg("metadata", c.metadata)
	return u, err
}

func taskUpdate(a *cli.App) *cobra.Command {
	var c changes
	var version int
	var cmd *cobra.Command
	cmd = a.Verb(
		"update TASK…",
		"Change title, priority or metadata of tasks that have not ended",
		cobra.MinimumNArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.TaskMaker, args []string) error {
			u, err := c.read(a, cmd)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("version") {
				u.Version = &version
			}
			calls := make([]pawl.TaskUpdate, len(args))
			for i, id := range args {
				calls[i] = u
				calls[i].TaskID = id
			}
			rs, err := s.UpdateTasks(a.ByUser(ctx), calls)
			return cli.ShowEach(a, rs, err, showTasks)
		}),
	)
	c.flags(cmd)
	cmd.Flags().IntVar(&version, "version", 0, "only if the task still has this version")
	return cmd
}

func taskClone(a *cli.App) *cobra.Command {
	var c changes
	var payload, runAt, key string
	var whole bool
	var cmd *cobra.Command
	cmd = a.Verb(
		"clone TASK…",
		"Create copies of existing tasks",
		cobra.MinimumNArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.TaskMaker, args []string) error {
			u, err := c.read(a, cmd)
			if err != nil {
				return err
			}
			like := pawl.TaskClone{Title: u.Title, Priority: u.Priority, Metadata: u.Metadata, Checkpoints: whole}
			if key != "" {
				like.Unique = &pawl.Unique{By: pawl.UniqueByKey, Key: key, OnConflict: pawl.OnConflictReturn}
			}
			if like.Payload, err = a.JsonArg("payload", payload); err != nil {
				return err
			}
			if like.RunAt, err = cli.FutureTime("run-at", runAt); err != nil {
				return err
			}
			calls := make([]pawl.TaskClone, len(args))
			for i, id := range args {
				calls[i] = like
				calls[i].TaskID = id
			}
			rs, err := s.CloneTasks(ctx, calls)
			return cli.ShowEach(a, rs, err, showTasks)
		}),
	)
	c.flags(cmd)
	cmd.Flags().BoolVar(&whole, "checkpoints", false, "with all its checkpoints, as a fork at the newest one")
	cmd.Flags().StringVar(&key, "unique-key", "", "the unique key of the clone: if a task has it, that task is returned")
	cmd.Flags().StringVar(&payload, "payload", "", "replaces the payload: JSON, @FILE or - for stdin")
	cmd.Flags().StringVar(&runAt, "run-at", "", "earliest start: a time, or a duration from now (10m)")
	return cmd
}

func taskFork(a *cli.App) *cobra.Command {
	var at int64
	cmd := a.Verb(
		"fork TASK",
		"Create a task that goes on from a checkpoint of another one",
		cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.TaskForker, args []string) error {
			rs, err := s.ForkTasks(ctx, []pawl.TaskFork{{TaskID: args[0], Checkpoint: at}})
			return cli.ShowEach(a, rs, err, showTasks)
		}),
	)
	cmd.Flags().Int64Var(&at, "checkpoint", 0, "the number of the checkpoint; 0 begins anew")
	_ = cmd.MarkFlagRequired("checkpoint")
	return cmd
}
