// Package task has the commands of `pawl task`.
package task

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
)

// Command returns the command and its subcommands.
func Command(a *cli.App) *cobra.Command {
	return cli.Noun("task", "Requests for work: create, read, change, retry",
		taskCreate(a), taskList(a), taskGet(a), taskResult(a), taskAddItems(a),
		operate(a, "cancel TASK…", "Cancel tasks, or some items of one", pawl.TaskMaker.CancelTasks),
		operate(a, "retry TASK…", "Queue failed and dead-lettered items again", pawl.TaskOperator.RetryTasks),
		operate(a, "bury TASK…", "Dead-letter failed items", pawl.TaskOperator.BuryTasks),
		taskApprove(a), taskReject(a), taskUpdate(a), taskClone(a), taskFork(a), taskDelete(a), taskCheckpoint(a))
}

func taskList(a *cli.App) *cobra.Command {
	var f pawl.TaskFilter
	var p cli.Pages
	var state *cli.Choice[pawl.TaskState]
	var status *cli.Choice[pawl.Status]
	var since, until, changed string
	cmd := a.Verb(
		"list",
		"List tasks, newest first",
		cobra.NoArgs,
		cli.With(a, func(ctx context.Context, s pawl.TaskReader, _ []string) (err error) {
			if f.States, err = state.Read(); err != nil {
				return err
			}
			if f.Statuses, err = status.Read(); err != nil {
				return err
			}
			if f.Since, err = cli.TimeArg("since", since, -1); err != nil {
				return err
			}
			if f.Until, err = cli.TimeArg("until", until, -1); err != nil {
				return err
			}
			if f.Changed, err = cli.TimeArg("updated-since", changed, -1); err != nil {
				return err
			}
			return cli.List(ctx, a, p, taskHeader, taskRow, func(ctx context.Context, page pawl.Page) (pawl.List[pawl.Task], error) {
				f.Page = page
				return s.ListTasks(ctx, f)
			})
		}),
	)
	p.Flags(cmd)
	cmd.Flags().StringSliceVarP(&f.Types, "type", "t", nil, "of these types")
	cmd.Flags().StringSliceVar(&f.IDs, "id", nil, "only these")
	state = cli.Choose[pawl.TaskState](cmd, "state", "in these states", cli.ShownStates(pawl.TaskStates))
	status = cli.Choose[pawl.Status](cmd, "status", "with these statuses", cli.Strings(pawl.TaskStatuses))
	cmd.Flags().StringVar(&since, "since", "", "created at or after this time; a duration counts back from now")
	cmd.Flags().StringVar(&until, "until", "", "created before this time; a duration counts back from now")
	cmd.Flags().StringVar(&changed, "updated-since", "", "changed at or after this time; a duration counts back from now")
	cmd.Flags().StringSliceVar(&f.ParentIDs, "parent", nil, "the children of any of these tasks")
	cmd.Flags().StringVar(&f.RequestedBy, "requested-by", "", "requested by this id")
	cmd.Flags().StringVar(&f.InputHash, "input-hash", "", "with this input hash")
	cmd.Flags().StringVar(&f.Search, "search", "", "with an id, a type or a title that begins so")
	cmd.Flags().StringVar(&f.TitlePrefix, "title", "", "with a title that begins so")
	cmd.Flags().StringVar(&f.Error, "error", "", "with this text in the last error of an item that has not ended")
	cmd.Flags().StringVar(&f.Failure, "failure", "", "with items of this group of failures: see pawl failures")
	cmd.Flags().BoolVar(&f.Asc, "asc", false, "oldest first; with --by-priority lowest first, with --by-update longest unchanged first")
	cmd.Flags().BoolVar(&f.ByPriority, "by-priority", false, "highest first")
	cmd.Flags().BoolVar(&f.ByUpdate, "by-update", false, "last updated first")
	cmd.Flags().StringToStringVar(&f.Metadata, "metadata", nil, "with these members in their metadata: repo=x")
	available := cmd.Flags().Bool("available", false, "with items that can be claimed now; =false: without such items")
	cmd.PreRun = func(cmd *cobra.Command, _ []string) {
		if cmd.Flags().Changed("available") {
			f.Available = available
		}
	}
	return cmd
}

func taskGet(a *cli.App) *cobra.Command {
	var wait time.Duration
	cmd := a.Verb(
		"get TASK",
		"Show a task",
		cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.Reader, args []string) error {
			t, err := waited(ctx, s, args[0], wait)
			if err != nil {
				return err
			}
			return a.Show(t, func(w io.Writer) {
				ShowTask(w, t)
				a.ShowBlobs(ctx, w, s, t.Payload)
			})
		}),
	)
	waitFlag(cmd, &wait)
	return cmd
}

func waitFlag(cmd *cobra.Command, wait *time.Duration) {
	cmd.Flags().DurationVar(wait, "wait", 0, "wait so long at most until the task has ended or failed, such as 30s")
}

// waited reads a task once it has ended or failed, or after a time at most as it is then.
func waited(ctx context.Context, s pawl.TaskReader, id string, most time.Duration) (pawl.Task, error) {
	if most < 0 {
		return pawl.Task{}, cli.Invalid("--wait is a duration from 0s on")
	}
	if most > 0 {
		ctx, cancel := context.WithTimeout(ctx, most)
		defer cancel()
		if t, err := pawl.Await(ctx, s, id); err == nil || ctx.Err() == nil {
			return t, err
		}
	}
	return s.GetTask(ctx, id)
}

func taskResult(a *cli.App) *cobra.Command {
	var partial bool
	var wait time.Duration
	cmd := a.Verb(
		"result TASK",
		"Print the result of a completed task, as JSON",
		cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.TaskReader, args []string) error {
			if wait != 0 {
				if _, err := waited(ctx, s, args[0], wait); err != nil {
					return err
				}
			}
			read := s.TaskResult
			if partial {
				read = s.PartialResult
			}
			r, err := read(ctx, args[0])
			if err != nil {
				return err
			}
			return a.Show(r, func(w io.Writer) { fmt.Fprintf(w, "%s\n", r.Payload) })
		}),
	)
	cmd.Flags().BoolVar(&partial, "partial", false, "for a failed or cancelled task: the results of its completed items")
	waitFlag(cmd, &wait)
	return cmd
}

// operate returns a verb that changes tasks, or some items of one. R is the role it
// needs.
func operate[R any](
	a *cli.App,
	use, short string,
	call func(R, context.Context, []pawl.TaskCall) ([]pawl.Result[pawl.Task], error),
) *cobra.Command {
	var like pawl.TaskCall
	cmd := a.Verb(use, short, cobra.MinimumNArgs(1), cli.With(a, func(ctx context.Context, s R, args []string) error {
		if len(args) > 1 && len(like.ItemIDs) > 0 {
			return cli.Invalid("--item requires exactly one task")
		}
		rs, err := call(s, a.ByUser(ctx), taskCalls(args, like))
		return cli.ShowEach(a, rs, err, showTasks)
	}))
	cmd.Flags().StringSliceVar(&like.ItemIDs, "item", nil, "only these items")
	cmd.Flags().StringVar(&like.Reason, "reason", "", "reason, stored in the event")
	return cmd
}

func taskDelete(a *cli.App) *cobra.Command {
	var like pawl.TaskCall
	cmd := a.Verb(
		"delete TASK…",
		"Remove ended tasks with all their data",
		cobra.MinimumNArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.TaskOperator, args []string) error {
			rs, err := s.DeleteTasks(a.ByUser(ctx), taskCalls(args, like))
			return cli.ShowEach(a, rs, err, func(w io.Writer, ids []string) {
				for _, id := range ids {
					fmt.Fprintln(w, id)
				}
			})
		}),
	)
	cmd.Flags().BoolVar(&like.Force, "force", false, "also if the task has not ended")
	cmd.Flags().StringVar(&like.Reason, "reason", "", "reason, stored in the event")
	return cmd
}

func taskCalls(ids []string, like pawl.TaskCall) []pawl.TaskCall {
	calls := make([]pawl.TaskCall, len(ids))
	for i, id := range ids {
		calls[i] = like
		calls[i].TaskID = id
	}
	return calls
}

const taskHeader = "TASK\tTYPE\tSTATE\tWHY\tDUE\tDONE\tITEMS\tPRIORITY\tAGE\tTITLE"

func taskRow(t pawl.Task) string {
	return terminal.Row(
		t.ID,
		t.Type,
		t.State,
		cli.Why(t.BlockedBy, t.Error),
		cli.Due(t.BlockedBy),
		fmt.Sprintf("%d%%", t.Progress),
		t.Items,
		t.Priority,
		terminal.Age(t.CreatedAt),
		t.Title,
	)
}

func showTasks(w io.Writer, ts []pawl.Task) {
	if len(ts) == 1 && ts[0].DryRun {
		rows := make([]string, len(ts[0].Planned))
		for i, it := range ts[0].Planned {
			rows[i] = terminal.Row(i+1, cmp.Or(it.Type, ts[0].Type), it.Key, terminal.Clip(terminal.Printable(string(it.Input)), 100))
		}
		terminal.Table(w, "ITEM\tTYPE\tKEY\tINPUT", rows)
		return
	}
	if len(ts) == 1 {
		ShowTask(w, ts[0])
		return
	}
	rows := make([]string, len(ts))
	for i, t := range ts {
		rows[i] = taskRow(t)
	}
	terminal.Table(w, taskHeader, rows)
}

// ShowTask prints a task.
func ShowTask(w io.Writer, t pawl.Task) {
	by := ""
	if t.RequestedBy != nil {
		by = t.RequestedBy.Type + " " + t.RequestedBy.ID
	}
	found := ""
	if t.Deduplicated {
		found = "an older task with this input"
	}
	children := ""
	if t.Children > 0 {
		children = fmt.Sprint(t.Children)
	}
	terminal.Fields(w,
		"task", t.ID,
		"found", found,
		"namespace", t.Namespace,
		"type", terminal.Printable(t.Type),
		"title", terminal.Printable(t.Title),
		"state", string(t.State),
		"status", string(t.Status),
		"stage", terminal.Printable(t.Stage),
		"blocked by", cli.Blocked(t.BlockedBy),
		"progress", fmt.Sprintf("%d%%", t.Progress),
		"priority", fmt.Sprint(t.Priority),
		"items", fmt.Sprintf("%d, %d open", t.Items, t.ItemsOpen)+cli.Pending(t.ItemsPending),
		"parent", t.ParentID,
		"children", children,
		"retries", fmt.Sprint(t.RetryCount),
		"error", terminal.Failure(t.Error),
		"requested by", terminal.Printable(by),
		"payload", terminal.Clip(terminal.Printable(string(t.Payload)), 200),
		"metadata", terminal.Clip(terminal.Printable(string(t.Metadata)), 200),
		"version", fmt.Sprint(t.Version),
		"created", terminal.Time(t.CreatedAt),
		"updated", terminal.Time(t.UpdatedAt),
		"completed", terminal.OptionalTime(t.CompletedAt),
	)
}
