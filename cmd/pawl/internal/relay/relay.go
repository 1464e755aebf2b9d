// Package relay has the commands of `pawl relay`.
package relay

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
)

// Command returns the command and its subcommands.
func Command(a *cli.App) *cobra.Command {
	noun := cli.Noun("relay", "Relays, which send events to other systems", relayList(a), relayResume(a), relayForget(a))
	return cli.Named(a, noun, func(ctx context.Context, s pawl.RelayKeeper) ([]string, error) {
		l, err := s.ListRelays(ctx)
		return cli.NamesOf(l, err, func(r pawl.Relay) string { return r.Sink })
	})
}

const relayHead = "SINK\tKIND\tPOSITION\tBEHIND\tSINCE\tSENT\tREFUSED\tBY\tDISABLED\tERROR"

func relayRow(r pawl.Relay) string {
	return terminal.Row(r.Sink, r.Kind, r.Position, r.Lag, r.OldestAt, r.Sent, r.Refused, r.Holder, r.DisabledAt, r.Error)
}

func relayList(a *cli.App) *cobra.Command {
	const short = "List relays with their position and lag"
	cmd := a.Verb("ls", short, cobra.NoArgs, cli.With(a, func(ctx context.Context, s pawl.RelayKeeper, _ []string) error {
		l, err := s.ListRelays(ctx)
		if err != nil {
			return err
		}
		return a.Show(l, func(w io.Writer) {
			var rows []string
			for _, r := range l.Items {
				rows = append(rows, relayRow(r))
			}
			terminal.Table(w, relayHead, rows)
		})
	}))
	return cmd
}

func relayResume(a *cli.App) *cobra.Command {
	var from string
	cmd := a.Verb(
		"resume SINK",
		"Enable a disabled relay",
		cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.RelayKeeper, args []string) error {
			r, err := s.ResumeRelay(ctx, args[0], from)
			if err != nil {
				return err
			}
			return a.Show(r, func(w io.Writer) { terminal.Table(w, relayHead, []string{relayRow(r)}) })
		}),
	)
	cmd.Flags().StringVar(&from, "from", pawl.RelayFromStored,
		"send what follows the stored position, the newest event (now), or a position of the feed")
	return cmd
}

func relayForget(a *cli.App) *cobra.Command {
	return a.Verb(
		"forget SINK",
		"Remove the stored state of a relay that no server runs any more",
		cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.RelayKeeper, args []string) error {
			return a.Done(s.ForgetRelay(ctx, args[0]), "forgot the relay "+args[0])
		}),
	)
}
