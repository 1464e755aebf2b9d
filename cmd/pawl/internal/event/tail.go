package event

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
)

func eventTail(a *cli.App) *cobra.Command {
	var f pawl.EventFilter
	var since string
	var lines int
	var follow bool
	cmd := a.Verb(
		"tail",
		"Print the newest events, oldest first; --follow waits for more",
		cobra.NoArgs,
		cli.With(a, func(ctx context.Context, s pawl.RecordReader, _ []string) error {
			if err := readEvents(&f, since); err != nil {
				return err
			}
			t := tail{from: s, filter: f, print: func(e pawl.Event) error { return printEvent(a, e) }}
			if !follow {
				return t.past(ctx, lines)
			}
			return t.follow(ctx, lines)
		}),
	)
	eventFlags(cmd, &f, &since)
	cmd.Flags().IntVar(&lines, "lines", 20, "number of past events, at most 1000")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "continue until interrupted")
	return cmd
}

// printEvent writes one event: a line of text, or of JSON.
func printEvent(a *cli.App, e pawl.Event) error {
	if a.Config.Output == "json" {
		return a.Encode(e, false)
	}
	_, err := fmt.Fprintln(a.Stdout, strings.ReplaceAll(eventRow(e), "\t", "  "))
	return err
}

// tail prints each event that matches a filter once.
type tail struct {
	from   pawl.RecordReader
	filter pawl.EventFilter
	print  func(pawl.Event) error
	seen   map[string]bool // of the past
}

// past prints the newest events, oldest first.
func (t *tail) past(ctx context.Context, lines int) error {
	if lines == 0 {
		return nil
	}
	f := t.filter
	f.Limit = lines
	got, err := t.from.ListEvents(ctx, f)
	if err != nil {
		return err
	}
	t.seen = make(map[string]bool, len(got.Items))
	for _, e := range slices.Backward(got.Items) {
		t.seen[e.ID] = true
		if err := t.print(e); err != nil {
			return err
		}
	}
	return nil
}

// follow prints the newest events after it has fixed its position in the feed, and
// continues from there. Events that were committed in between are in both reads and
// printed once.
func (t *tail) follow(ctx context.Context, lines int) error {
	end, begun := pawl.FeedEnd, false
	f := t.filter
	f.After = &end
	took := func(_ pawl.FeedPosition, events []pawl.Event) error {
		if !begun {
			begun = true
			if err := t.past(ctx, lines); err != nil {
				return err
			}
		}
		for _, e := range events {
			if t.seen[e.ID] {
				continue
			}
			if err := t.print(e); err != nil {
				return err
			}
		}
		return nil
	}
	for {
		err := t.from.FollowEvents(ctx, f, took)
		at, epoch := pawl.RestartOf(err)
		if !epoch {
			return err
		}
		f.After, f.Epoch = &at.Position, at.Epoch // the database went back in time: what it has now is printed
	}
}
