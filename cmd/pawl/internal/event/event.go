// Package event has the commands of `pawl event`.
package event

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
)

// Command returns the command and its subcommands.
func Command(a *cli.App) *cobra.Command {
	return cli.Noun("event", "Events, one for each change", eventList(a), eventTail(a))
}

// eventFlags are the filters of both commands.
func eventFlags(cmd *cobra.Command, e *pawl.EventFilter, since *string) {
	f := cmd.Flags()
	f.StringVar(&e.TaskID, "task", "", "of this task")
	f.StringVar(&e.ItemID, "item", "", "of this item")
	f.StringVarP(&e.Event, "event", "e", "", "of this name")
	f.StringVar(since, "since", "", "at or after this time; a duration counts back from now")
	_ = cmd.RegisterFlagCompletionFunc("event", cobra.FixedCompletions(eventNames(), cobra.ShellCompDirectiveNoFileComp))
}

func eventNames() []string {
	names := make([]string, len(pawl.Events))
	for i, e := range pawl.Events {
		names[i] = e.Name
	}
	return names
}

// readEvents checks the values of eventFlags.
func readEvents(f *pawl.EventFilter, since string) (err error) {
	if err := cli.OneOf("--event", f.Event, eventNames()); err != nil {
		return err
	}
	f.Since, err = cli.TimeArg("since", since, -1)
	return err
}

func eventList(a *cli.App) *cobra.Command {
	var f pawl.EventFilter
	var p cli.Pages
	var since, until string
	cmd := a.Verb(
		"list",
		"List events, newest first",
		cobra.NoArgs,
		cli.With(a, func(ctx context.Context, s pawl.RecordReader, _ []string) (err error) {
			if err := readEvents(&f, since); err != nil {
				return err
			}
			if f.Until, err = cli.TimeArg("until", until, -1); err != nil {
				return err
			}
			return cli.List(ctx, a, p, eventHeader, eventRow, func(ctx context.Context, page pawl.Page) (pawl.List[pawl.Event], error) {
				f.Page = page
				return s.ListEvents(ctx, f)
			})
		}),
	)
	p.Flags(cmd)
	eventFlags(cmd, &f, &since)
	cmd.Flags().StringVar(&until, "until", "", "before this time; a duration counts back from now")
	cmd.Flags().BoolVar(&f.Asc, "asc", false, "oldest first")
	return cmd
}

const eventHeader = "TIME\tEVENT\tTASK\tITEM\tATTEMPT\tCHANGE\tACTOR\tMESSAGE"

func eventRow(e pawl.Event) string {
	return terminal.Row(e.CreatedAt, e.Event, e.TaskID, e.ItemID, attempt(e), change(e), actor(e), e.Message)
}

func attempt(e pawl.Event) any {
	if e.Attempt == 0 {
		return ""
	}
	return e.Attempt
}

func change(e pawl.Event) string {
	switch {
	case e.ToState == "":
		return ""
	case e.FromState == "":
		return e.ToState
	}
	return e.FromState + " > " + e.ToState
}

func actor(e pawl.Event) string {
	who := e.ActorType
	for _, x := range []string{e.ActorID, e.KeyID} {
		if x != "" {
			who += " " + x
		}
	}
	return who
}
