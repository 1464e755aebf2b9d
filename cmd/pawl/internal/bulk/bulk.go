// Package bulk has the commands of `pawl bulk`.
package bulk

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/cmd/pawl/internal/task"
)

// Command returns the command and its subcommands.
func Command(a *cli.App) *cobra.Command {
	return cli.Noun("bulk", "One verb for every task that a filter selects",
		verb(a, pawl.BulkRetry, "Queue failed and dead-lettered items of tasks again"),
		verb(a, pawl.BulkCancel, "Cancel tasks"),
		verb(a, pawl.BulkBury, "Dead-letter failed items of tasks"),
		verb(a, pawl.BulkDelete, "Delete tasks"),
		verb(a, pawl.BulkUpdate, "Change title, priority or metadata of tasks"))
}

// service is what the commands need.
type service interface {
	pawl.BulkOperator
	pawl.TaskReader
}

// runner is a service that works on a database: it carries bulk calls out itself.
type runner interface {
	RunBulks(ctx context.Context) error
}

// flags are the flags of a verb.
type flags struct {
	call                  pawl.BulkCall
	state                 *cli.Choice[pawl.TaskState]
	status                *cli.Choice[pawl.Status]
	since, until, changed string
	minPriority           int
	maxPriority           int
	available             bool
	title, metadata       string
	values                map[string]string
	priority              int
	wait                  bool
}

func verb(a *cli.App, name, short string) *cobra.Command {
	f := &flags{call: pawl.BulkCall{Verb: name}}
	var cmd *cobra.Command
	cmd = a.Verb(name, short, cobra.NoArgs, cli.With(a, func(ctx context.Context, s service, _ []string) error {
		if err := f.read(a, cmd); err != nil {
			return err
		}
		return f.run(a.ByUser(ctx), a, s)
	}))
	f.add(cmd)
	return cmd
}

func (f *flags) add(cmd *cobra.Command) {
	fs, q := cmd.Flags(), &f.call.Filter
	fs.StringSliceVarP((*[]string)(&q.Type), "type", "t", nil, "of these types")
	fs.StringSliceVar((*[]string)(&q.ID), "id", nil, "only these")
	f.state = cli.Choose[pawl.TaskState](cmd, "state", "in these states", cli.ShownStates(pawl.TaskStates))
	f.status = cli.Choose[pawl.Status](cmd, "status", "with these statuses", cli.Strings(pawl.TaskStatuses))
	fs.StringVar(&f.since, "since", "", "created at or after this time; a duration counts back from now")
	fs.StringVar(&f.until, "until", "", "created before this time; a duration counts back from now")
	fs.StringVar(&f.changed, "updated-since", "", "changed at or after this time; a duration counts back from now")
	fs.StringVar(&q.RequestedBy, "requested-by", "", "requested by this id")
	fs.StringVar(&q.InputHash, "input-hash", "", "with this input hash")
	fs.IntVar(&f.minPriority, "min-priority", 0, "of this priority or higher")
	fs.IntVar(&f.maxPriority, "max-priority", 0, "of this priority or lower")
	fs.StringVar(&q.Search, "search", "", "with an id, a type or a title that begins so")
	fs.StringVar(&q.TitlePrefix, "title", "", "with a title that begins so")
	fs.StringVar(&q.Error, "error", "", "with this text in the last error of an item that has not ended")
	fs.StringVar(&q.Failure, "failure", "", "with items of this group of failures; retry, cancel and bury apply to these items alone")
	fs.StringToStringVar(&f.values, "metadata", nil, "with these members in their metadata: repo=x")
	fs.BoolVar(&f.available, "available", false, "with items that can be claimed now; =false: without such items")
	fs.StringVar(&f.call.Reason, "reason", "", "reason, stored in the events")
	fs.BoolVar(&f.call.DryRun, "dry-run", false, "count the tasks and change nothing")
	fs.BoolVar(&f.wait, "wait", false, "wait until it has ended, and print its result")
	switch f.call.Verb {
	case pawl.BulkDelete:
		fs.BoolVar(&f.call.Force, "force", false, "also tasks that have not ended")
	case pawl.BulkUpdate:
		fs.StringVar(&f.title, "set-title", "", "the new title")
		fs.IntVar(&f.priority, "set-priority", 0, "the new priority")
		fs.StringVar(&f.metadata, "set-metadata", "", "a JSON object, merged into the metadata; null removes a member")
	}
}

// read completes the call from the flags that were given.
func (f *flags) read(a *cli.App, cmd *cobra.Command) (err error) {
	q, given := &f.call.Filter, cmd.Flags().Changed
	q.Metadata = f.values
	states, err := f.state.Read()
	if err != nil {
		return err
	}
	for _, s := range states {
		q.State = append(q.State, string(s))
	}
	statuses, err := f.status.Read()
	if err != nil {
		return err
	}
	for _, s := range statuses {
		q.Status = append(q.Status, string(s))
	}
	for _, at := range []struct {
		name, text string
		into       *time.Time
	}{{"since", f.since, &q.Since}, {"until", f.until, &q.Until}, {"updated-since", f.changed, &q.UpdatedSince}} {
		if *at.into, err = cli.TimeArg(at.name, at.text, -1); err != nil {
			return err
		}
	}
	if given("min-priority") {
		q.MinPriority = &f.minPriority
	}
	if given("max-priority") {
		q.MaxPriority = &f.maxPriority
	}
	if given("available") {
		q.HasAvailableItems = &f.available
	}
	if f.call.Verb != pawl.BulkUpdate {
		return nil
	}
	f.call.Update = &pawl.BulkPatch{}
	if given("set-title") {
		f.call.Update.Title = &f.title
	}
	if given("set-priority") {
		f.call.Update.Priority = &f.priority
	}
	f.call.Update.Metadata, err = a.JsonArg("set-metadata", f.metadata)
	return err
}

func (f *flags) run(ctx context.Context, a *cli.App, s service) error {
	if f.call.DryRun {
		n, err := s.CountBulk(ctx, f.call)
		if err != nil {
			return err
		}
		return a.Show(map[string]int64{"count": n}, func(w io.Writer) { fmt.Fprintln(w, n) })
	}
	t, err := s.Bulk(ctx, f.call)
	if err != nil {
		return err
	}
	if r, ok := s.(runner); ok {
		if err := r.RunBulks(ctx); err != nil {
			return err
		}
		if t, err = s.GetTask(ctx, t.ID); err != nil {
			return err
		}
	}
	if !f.wait {
		return a.Show(t, func(w io.Writer) { task.ShowTask(w, t) })
	}
	for !t.State.Ended() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(poll):
		}
		if t, err = s.GetTask(ctx, t.ID); err != nil {
			return err
		}
	}
	r, err := s.TaskResult(ctx, t.ID)
	if err != nil {
		return err
	}
	return a.Show(r, func(w io.Writer) { fmt.Fprintf(w, "%s\n", r.Payload) })
}

// poll is how often a command that waits looks.
const poll = 200 * time.Millisecond
