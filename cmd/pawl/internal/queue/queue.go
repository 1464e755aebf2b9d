// Package queue has the commands of `pawl queue`.
package queue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/nearest"
	"github.com/pawl-work/pawl/internal/terminal"
)

// Command returns the command and its subcommands.
func Command(a *cli.App) *cobra.Command {
	noun := cli.Noun("queue", "Queues: what is claimable, by type", queueList(a), queueGet(a), queueSet(a), queuePause(a), queueResume(a),
		queueDrain(a))
	return cli.Named(a, noun, names)
}

func names(ctx context.Context, s pawl.QueueReader) ([]string, error) {
	l, err := s.ListQueues(ctx, pawl.Page{Limit: pawl.MaxPage})
	return cli.NamesOf(l, err, func(q pawl.Queue) string { return q.Type })
}

const queueHead = "TYPE\tPAUSED\tQUEUED\tLEASED\tWAITING\tSCHEDULED\tOLDEST"

func queueRow(q pawl.Queue) string {
	var oldest string
	if q.Queued > 0 {
		oldest = (time.Duration(q.OldestQueuedSeconds) * time.Second).String()
	}
	return terminal.Row(q.Type, q.Paused, q.Queued, q.Leased, q.Waiting, q.Scheduled, oldest)
}

func limitedRow(q pawl.Queue) string { return queueRow(q) + "\t" + terminal.Row(limits(q.QueueLimits)) }

// limits names the limits as the flags of `pawl queue set` do.
func limits(l pawl.QueueLimits) string {
	var out []string
	say := func(name string, value any) { out = append(out, fmt.Sprint(name, " ", value)) }
	count := func(name string, n *int) {
		if n != nil {
			say(name, *n)
		}
	}
	rate := func(name string, r *pawl.Rate) {
		if r != nil {
			burst := ""
			if r.Burst > 0 {
				burst = fmt.Sprint(",", r.Burst)
			}
			say(name, fmt.Sprintf("%d/%s%s", r.Limit, time.Duration(r.Seconds)*time.Second, burst))
		}
	}
	count("concurrency", l.Concurrency)
	count("per-worker", l.PerWorker)
	rate("rate", l.Rate)
	if k := l.PerKey; k != nil {
		say("key", k.Pointer)
		count("key-concurrency", k.Concurrency)
		rate("key-rate", k.Rate)
		if k.Order != "" {
			say("order", k.Order)
		}
	}
	return strings.Join(out, ", ")
}

func show(a *cli.App, q pawl.Queue) error {
	return a.Show(q, func(w io.Writer) {
		terminal.Table(w, queueHead, []string{queueRow(q)})
		if l := limits(q.QueueLimits); l != "" {
			fmt.Fprintln(w, "limits: "+l)
		}
	})
}

func queueList(a *cli.App) *cobra.Command {
	var pages cli.Pages
	list := func(ctx context.Context, s pawl.QueueReader, _ []string) error {
		return cli.List(ctx, a, pages, queueHead+"\tLIMITS", limitedRow, s.ListQueues)
	}
	cmd := a.Verb("ls", "List queues with what is in them", cobra.NoArgs, cli.With(a, list))
	pages.Flags(cmd)
	return cmd
}

func queueGet(a *cli.App) *cobra.Command {
	get := func(ctx context.Context, s pawl.QueueReader, args []string) error {
		q, err := s.GetQueue(ctx, args[0])
		if err != nil {
			return err
		}
		return show(a, q)
	}
	return a.Verb("get TYPE", "Print a queue", cobra.ExactArgs(1), cli.With(a, get))
}

// keeper is what the commands that change queues need.
type keeper interface {
	pawl.QueueKeeper
	pawl.QueueReader
	pawl.TypeReader
	pawl.ItemReader
}

// showChanged shows a queue that was changed. That is allowed before there is work in it, also for a name that is
// misspelt: if nothing has been made of the type, it says which ones may be meant.
func showChanged(ctx context.Context, a *cli.App, s keeper, q pawl.Queue) error {
	if q.Queued+q.Leased+q.Waiting+q.Scheduled == 0 {
		if hint := meant(ctx, s, q.Type); hint != "" {
			fmt.Fprintf(a.Stderr, "pawl: nothing has been made of the type %s yet%s\n", q.Type, hint)
		}
	}
	return show(a, q)
}

// meant asks whether another queue or type is meant; "" if none is near, or if the type is known.
func meant(ctx context.Context, s keeper, name string) string {
	items, err := s.ListItems(ctx, pawl.ItemFilter{Types: []string{name}, Page: pawl.Page{Limit: 1}})
	if err != nil || len(items.Items) > 0 { // a hint, no more
		return ""
	}
	types, err := s.ListTypes(ctx, pawl.TypeFilter{Page: pawl.Page{Limit: pawl.MaxPage}})
	known, _ := cli.NamesOf(types, err, func(t pawl.Type) string { return t.Name })
	if err != nil || slices.Contains(known, name) {
		return ""
	}
	queues, _ := names(ctx, s)
	return nearest.Question(name, slices.Compact(slices.Sorted(slices.Values(append(known, queues...)))))
}

func queuePause(a *cli.App) *cobra.Command {
	return switched(a, "pause", "Stop claims from a queue; leased items stay with their workers, and new items can be created",
		pawl.QueueKeeper.PauseQueue, pawl.QueueKeeper.PauseNamespace)
}

func queueResume(a *cli.App) *cobra.Command {
	return switched(a, "resume", "Allow claims from a queue again", pawl.QueueKeeper.ResumeQueue, pawl.QueueKeeper.ResumeNamespace)
}

// switched returns a command that changes one queue, or all of a namespace.
func switched(
	a *cli.App,
	verb, short string,
	one func(pawl.QueueKeeper, context.Context, string) (pawl.Queue, error),
	every func(pawl.QueueKeeper, context.Context) error,
) *cobra.Command {
	var all bool
	change := cli.With(a, func(ctx context.Context, s keeper, args []string) error {
		if all {
			return a.Done(every(s, ctx), verb+"d all queues of the namespace "+a.Config.Namespace)
		}
		q, err := one(s, ctx, args[0])
		if err != nil {
			return err
		}
		return showChanged(ctx, a, s, q)
	})
	cmd := a.Verb(verb+" TYPE", short, cobra.MaximumNArgs(1), func(cmd *cobra.Command, args []string) error {
		if all == (len(args) == 1) {
			return cli.Usage(cmd, errors.New("name one TYPE, or --all for the whole namespace"))
		}
		return change(cmd, args)
	})
	cmd.Flags().BoolVar(&all, "all", false, "the whole namespace, with the types that come later")
	return cmd
}

// drainPoll is how often a drain that waits looks.
const drainPoll = 500 * time.Millisecond

func queueDrain(a *cli.App) *cobra.Command {
	var wait bool
	cmd := a.Verb("drain TYPE", "Pause a queue, and with --wait wait until nothing of it is leased", cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s keeper, args []string) error {
			q, err := s.PauseQueue(ctx, args[0])
			for quiet := 0; err == nil && wait && quiet < 2; quiet++ { // a claim that began before the pause may show its leases late
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(drainPoll):
				}
				if q, err = s.GetQueue(ctx, args[0]); q.Leased > 0 {
					quiet = -1
				}
			}
			if err != nil {
				return err
			}
			return showChanged(ctx, a, s, q)
		}))
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until no worker holds an item of it")
	return cmd
}
