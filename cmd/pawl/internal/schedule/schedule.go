// Package schedule has the commands of `pawl schedule`.
package schedule

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
)

// Command returns the command and its subcommands.
func Command(a *cli.App) *cobra.Command {
	return cli.Named(a, cli.Noun("schedule", "Schedules: tasks at certain times",
		defining(a, "create NAME --type TYPE --cron EXPR", "Create a schedule", pawl.ScheduleKeeper.CreateSchedule),
		defining(a, "put NAME --type TYPE --cron EXPR", "Create a schedule, or replace its definition", pawl.ScheduleKeeper.PutSchedule),
		scheduleList(a), scheduleGet(a), scheduleFirings(a),
		changed(a, "pause NAME", "Stop a schedule", pawl.ScheduleKeeper.PauseSchedule),
		changed(a, "resume NAME", "Let a schedule go on with its next time", pawl.ScheduleKeeper.ResumeSchedule),
		changed(a, "run NAME", "Make a schedule's task now", pawl.ScheduleKeeper.RunSchedule),
		scheduleDelete(a)), func(ctx context.Context, s pawl.ScheduleReader) ([]string, error) {
		l, err := s.ListSchedules(ctx, pawl.Page{Limit: pawl.MaxPage})
		return cli.NamesOf(l, err, func(s pawl.Schedule) string { return s.Name })
	})
}

const head = "SCHEDULE\tRULE\tZONE\tTYPE\tNEXT\tLAST TASK\tPAUSED\tERROR"

func row(s pawl.Schedule) string {
	next := ""
	if len(s.Next) > 0 {
		next = terminal.Time(s.Next[0])
	}
	return terminal.Row(s.Name, rule(s.NewSchedule), s.Zone, s.Task.Type, next, s.LastTaskID, s.PausedAt, terminal.Failure(s.Error))
}

// rule returns when a schedule fires, as text.
func rule(s pawl.NewSchedule) string {
	switch {
	case s.Cron != "":
		return s.Cron
	case s.At != nil:
		return "at " + terminal.Time(*s.At)
	}
	return "every " + (time.Duration(s.EverySeconds) * time.Second).String()
}

func show(a *cli.App, s pawl.Schedule) error {
	return a.Show(s, func(w io.Writer) { terminal.Table(w, head, []string{row(s)}) })
}

// newSchedule are the flags of schedule create and put.
type newSchedule struct {
	pawl.NewSchedule
	every                 time.Duration
	at, payload, metadata string
	overlap, catchUp      string
	file                  string
}

func (n *newSchedule) read(a *cli.App, cmd *cobra.Command, args []string) (s pawl.NewSchedule, err error) {
	if n.file != "" {
		if err := cli.Alone(cmd, "file"); err != nil {
			return s, err
		}
		list, err := cli.ReadList[pawl.NewSchedule](a, n.file)
		if err == nil && (len(list) != 1 || len(args) > 0) {
			err = cli.Invalid("--file contains one whole schedule, with its name")
		}
		if err != nil {
			return s, err
		}
		return list[0], nil
	}
	if len(args) != 1 || n.Task.Type == "" {
		return s, cli.Invalid("a schedule needs a NAME and the --type of its tasks")
	}
	s = n.NewSchedule
	s.Name = args[0]
	if n.every%time.Second != 0 {
		return s, cli.Invalid("--every is %s; it must be whole seconds", n.every)
	}
	s.EverySeconds = int(n.every / time.Second)
	if s.At, err = cli.FutureTime("at", n.at); err != nil {
		return s, err
	}
	if s.Task.Payload, err = a.JsonArg("payload", n.payload); err != nil {
		return s, err
	}
	s.Task.Metadata, err = a.JsonArg("metadata", n.metadata)
	s.Overlap, s.CatchUp = pawl.Overlap(n.overlap), pawl.CatchUp(n.catchUp)
	return s, err
}

// defining returns a verb that defines a schedule.
func defining(a *cli.App, use, short string,
	call func(pawl.ScheduleKeeper, context.Context, pawl.NewSchedule) (pawl.Schedule, error)) *cobra.Command {
	var n newSchedule
	var cmd *cobra.Command
	cmd = a.Verb(use, short, cobra.MaximumNArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.ScheduleKeeper, args []string) error {
			def, err := n.read(a, cmd, args)
			if err != nil {
				return err
			}
			made, err := call(s, ctx, def)
			if err != nil {
				return err
			}
			return show(a, made)
		}))
	verb, _, _ := strings.Cut(use, " ")
	cmd.Example = strings.ReplaceAll(`  pawl schedule VERB nightly --cron '0 2 * * *' --zone Europe/Berlin --type report --payload '{"n":1}'
  pawl schedule VERB poll --every 30s --type poll --overlap queue
  pawl schedule VERB once --at 2h --type remind`, "VERB", verb)
	f := cmd.Flags()
	f.StringVar(&n.Cron, "cron", "", "a cron expression: five fields, six with seconds first, or a name such as @daily")
	f.DurationVar(&n.every, "every", 0, "the time between two tasks, in whole seconds")
	f.StringVar(&n.at, "at", "", "once: a time, or a duration from now (2h)")
	f.StringVar(&n.Zone, "zone", "", "the time zone of --cron (default UTC)")
	f.StringVarP(&n.Task.Type, "type", "t", "", "the type of its tasks")
	f.StringVar(&n.payload, "payload", "", "the payload of its tasks: JSON, @FILE or - for stdin")
	f.StringVar(&n.metadata, "metadata", "", "the metadata of its tasks: a JSON object, @FILE or -")
	f.StringVar(&n.Task.Title, "title", "", "the title of its tasks")
	f.IntVar(&n.Task.Priority, "priority", 0, "the priority of its tasks")
	f.IntVar(&n.Task.MaxAttempts, "max-attempts", 0, "attempts before an item of its tasks fails (default 3)")
	f.StringVar(&n.overlap, "overlap", "", "while an earlier task has not ended: skip, queue, replace or allow (default skip)")
	f.StringVar(&n.catchUp, "catch-up", "", "times that came while no server ran: none, last or all (default none)")
	f.IntVar(&n.JitterSeconds, "jitter-seconds", 0, "fire up to this much later")
	f.StringVar(&n.file, "file", "", "file (or -) with the whole schedule, as JSON")
	return cmd
}

func scheduleList(a *cli.App) *cobra.Command {
	var pages cli.Pages
	list := func(ctx context.Context, s pawl.ScheduleReader, _ []string) error {
		return cli.List(ctx, a, pages, head, row, s.ListSchedules)
	}
	cmd := a.Verb("ls", "List schedules with their next time", cobra.NoArgs, cli.With(a, list))
	pages.Flags(cmd)
	return cmd
}

func scheduleGet(a *cli.App) *cobra.Command {
	get := func(ctx context.Context, s pawl.ScheduleReader, args []string) error {
		v, err := s.GetSchedule(ctx, args[0])
		if err != nil {
			return err
		}
		return a.Show(v, func(w io.Writer) {
			terminal.Table(w, head, []string{row(v)})
			var next []string
			for _, at := range v.Next {
				next = append(next, terminal.Row(at))
			}
			terminal.Table(w, "NEXT", next)
		})
	}
	return a.Verb("get NAME", "Print a schedule with its next times", cobra.ExactArgs(1), cli.With(a, get))
}

func scheduleFirings(a *cli.App) *cobra.Command {
	var pages cli.Pages
	cmd := a.Verb("firings NAME", "List what became of a schedule's times, newest first", cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.ScheduleReader, args []string) error {
			line := func(f pawl.Firing) string {
				return terminal.Row(f.Tick, f.Outcome, f.TaskID, f.FiredAt, terminal.Failure(f.Error))
			}
			return cli.List(ctx, a, pages, "TICK\tOUTCOME\tTASK\tFIRED\tERROR", line,
				func(ctx context.Context, page pawl.Page) (pawl.List[pawl.Firing], error) {
					return s.ListFirings(ctx, pawl.FiringFilter{Schedule: args[0], Page: page})
				})
		}))
	pages.Flags(cmd)
	return cmd
}

func changed(a *cli.App, use, short string,
	change func(pawl.ScheduleKeeper, context.Context, string) (pawl.Schedule, error)) *cobra.Command {
	return a.Verb(use, short, cobra.ExactArgs(1), cli.With(a, func(ctx context.Context, s pawl.ScheduleKeeper, args []string) error {
		v, err := change(s, a.ByUser(ctx), args[0])
		if err != nil {
			return err
		}
		return show(a, v)
	}))
}

func scheduleDelete(a *cli.App) *cobra.Command {
	return a.Verb("delete NAME", "Delete a schedule; its tasks stay", cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.ScheduleKeeper, args []string) error {
			return a.Done(s.DeleteSchedule(ctx, args[0]), "deleted the schedule "+args[0])
		}))
}
