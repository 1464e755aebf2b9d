package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/cmd/pawl/internal/db"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/terminal"
	"github.com/pawl-work/pawl/relay"
)

// TickCommand returns the command `pawl tick`.
func TickCommand(a *cli.App) *cobra.Command {
	cmd := a.Verb("tick", "Do once what a running server does all the time, and say when to call again", cobra.NoArgs,
		func(cmd *cobra.Command, args []string) error {
			for _, settings := range []string{"sweep.", "relay."} {
				if err := a.NotOfServer(cmd.Flags(), settings); err != nil {
					return err
				}
			}
			sinks, err := parseSinks(a.Config.Relay)
			if err != nil {
				return err
			}
			return cli.With(a, func(ctx context.Context, s pawl.Service, _ []string) error {
				out, err := tick(ctx, a, s, sinks)
				if err != nil {
					return err
				}
				return a.Show(out, func(w io.Writer) {
					db.SweepFields(w, out.Did.SweepStats)
					next := "-"
					if out.NextAt != nil {
						next = terminal.Time(*out.NextAt)
					}
					terminal.Fields(w, "fired", fmt.Sprint(out.Did.Fired), "relayed", fmt.Sprint(out.Did.Relayed), "pushed",
						fmt.Sprint(out.Did.Pushed), "call again at", next)
				})
			})(cmd, args)
		})
	cli.SettingFlags(cmd.Flags(), "sweep.", "relay.")
	return cmd
}

func tick(ctx context.Context, a *cli.App, s pawl.Service, sinks []relay.SinkOptions) (pawl.Ticked, error) {
	out, err := s.Tick(ctx)
	e, own := s.(*engine.Engine)
	if err != nil || !own { // a server has called its own
		return out, err
	}
	calls, err := pusher(a, s)
	if err == nil && calls != nil {
		var again time.Time
		out.Did.Pushed, again, err = calls.Once(ctx)
		out.Again(again)
	}
	if len(sinks) == 0 {
		return out, err
	}
	deliver := onceRelayed(a, e, sinks)
	sent, again, failed := deliver(ctx)
	out.Did.Relayed = sent
	out.Again(again)
	for _, sink := range sinks {
		_ = sink.Sink.Close() // what it has confirmed is stored
	}
	return out, errors.Join(err, failed)
}

// onceRelayed delivers once to the configured sinks. There is none: it is nil.
func onceRelayed(a *cli.App, e *engine.Engine, sinks []relay.SinkOptions) func(context.Context) (int64, time.Time, error) {
	if len(sinks) == 0 {
		return nil
	}
	return func(ctx context.Context) (int64, time.Time, error) { return relay.Once(ctx, relayOptions(a, e, sinks)) }
}
