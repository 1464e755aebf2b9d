package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
)

// late is how long after its created_at an event may still come to light: on
// PostgreSQL neither ids nor times are the order of commit, so that much is read
// again and what was seen is left out.
const late = time.Minute

func (a *app) eventTail() *cobra.Command {
	var f pawl.EventFilter
	var since string
	var lines int
	var follow bool
	var every time.Duration
	cmd := a.verb("tail", "Print the newest events, oldest first; --follow goes on", cobra.NoArgs, with(a, func(ctx context.Context, s pawl.RecordReader, _ []string) error {
		if err := readEvents(&f, since); err != nil {
			return err
		}
		t := tail{from: s, filter: f, print: a.printEvent, seen: map[string]time.Time{}}
		if err := t.start(ctx, lines); err != nil || !follow {
			return err
		}
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(every):
			}
			if err := t.next(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}))
	eventFlags(cmd, &f, &since)
	cmd.Flags().IntVar(&lines, "lines", 20, "how many of the past, at most 1000")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until interrupted")
	cmd.Flags().DurationVar(&every, "every", 500*time.Millisecond, "how often to look")
	return cmd
}

// printEvent writes one event: a line of text, or of JSON.
func (a *app) printEvent(e pawl.Event) error {
	if a.cfg.Output == "json" {
		return a.encode(e, false)
	}
	_, err := fmt.Fprintln(a.stdout, strings.ReplaceAll(eventRow(e), "\t", "  "))
	return err
}

// tail prints each event of a filter once, oldest first.
type tail struct {
	from   pawl.RecordReader
	filter pawl.EventFilter
	print  func(pawl.Event) error
	newest time.Time            // of the events printed
	seen   map[string]time.Time // ids of the last minute or two
}

// start prints the newest events, and takes those before them as seen.
func (t *tail) start(ctx context.Context, lines int) error {
	f := t.filter
	f.Limit = max(lines, 1)
	got, err := t.from.ListEvents(ctx, f)
	if err != nil || len(got.Items) == 0 {
		return err
	}
	from := got.Items[0].CreatedAt
	if lines == 0 {
		t.newest = from
	} else {
		slices.Reverse(got.Items)
		from = got.Items[0].CreatedAt
		for _, e := range got.Items {
			if err := t.take(e); err != nil {
				return err
			}
		}
	}
	return t.window(ctx, func(e pawl.Event) error {
		if e.CreatedAt.After(from) {
			return t.take(e)
		}
		t.seen[e.ID] = e.CreatedAt
		return nil
	})
}

// next prints what has come since.
func (t *tail) next(ctx context.Context) error {
	if err := t.window(ctx, t.take); err != nil {
		return err
	}
	for id, at := range t.seen {
		if t.newest.Sub(at) > 2*late {
			delete(t.seen, id)
		}
	}
	return nil
}

// window hands over the events of the last minute that were not seen yet.
func (t *tail) window(ctx context.Context, take func(pawl.Event) error) error {
	f := t.filter
	f.Asc, f.Limit = true, pawl.MaxPage
	if at := t.newest.Add(-late); !t.newest.IsZero() && at.After(f.Since) {
		f.Since = at
	}
	for {
		got, err := t.from.ListEvents(ctx, f)
		if err != nil {
			return err
		}
		for _, e := range got.Items {
			if _, known := t.seen[e.ID]; known {
				continue
			}
			if err := take(e); err != nil {
				return err
			}
		}
		if got.Next == "" {
			return nil
		}
		f.Cursor = got.Next
	}
}

func (t *tail) take(e pawl.Event) error {
	t.seen[e.ID] = e.CreatedAt
	if e.CreatedAt.After(t.newest) {
		t.newest = e.CreatedAt
	}
	return t.print(e)
}
