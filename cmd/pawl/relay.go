package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
)

func (a *app) relayCmd() *cobra.Command {
	return noun("relay", "The relays, which send events to other systems", a.relayList(), a.relayResume(), a.relayForget())
}

const relayHead = "SINK\tKIND\tPOSITION\tBEHIND\tSINCE\tSENT\tREFUSED\tBY\tDISABLED\tERROR"

func relayRow(r pawl.Relay) string {
	return row(r.Sink, r.Kind, r.Position, r.Lag, r.OldestAt, r.Sent, r.Refused, r.Holder, r.DisabledAt, r.Error)
}

func (a *app) relayList() *cobra.Command {
	cmd := a.verb("ls", "Where each relay stands", cobra.NoArgs, with(a, func(ctx context.Context, s pawl.RelayKeeper, _ []string) error {
		l, err := s.ListRelays(ctx)
		if err != nil {
			return err
		}
		return a.show(l, func(w io.Writer) {
			var rows []string
			for _, r := range l.Items {
				rows = append(rows, relayRow(r))
			}
			table(w, relayHead, rows)
		})
	}))
	cmd.Aliases = []string{"list"}
	return cmd
}

func (a *app) relayResume() *cobra.Command {
	return a.verb("resume SINK", "Have a disabled relay tried again", cobra.ExactArgs(1), with(a, func(ctx context.Context, s pawl.RelayKeeper, args []string) error {
		r, err := s.ResumeRelay(ctx, args[0])
		if err != nil {
			return err
		}
		return a.show(r, func(w io.Writer) { table(w, relayHead, []string{relayRow(r)}) })
	}))
}

func (a *app) relayForget() *cobra.Command {
	return a.verb("forget SINK", "Remove what is known of a relay that nobody runs any more", cobra.ExactArgs(1), with(a, func(ctx context.Context, s pawl.RelayKeeper, args []string) error {
		return s.ForgetRelay(ctx, args[0])
	}))
}
