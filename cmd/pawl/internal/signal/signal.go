// Package signal has the commands of `pawl signal`.
package signal

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
)

// Command returns the command and its subcommands.
func Command(a *cli.App) *cobra.Command {
	return cli.Noun("signal", "Signals, which items can wait for", signalSend(a))
}

func signalSend(a *cli.App) *cobra.Command {
	var call pawl.SignalCall
	var payload string
	cmd := a.Verb(
		"send NAME",
		"Send a signal: items that wait for it now or later continue",
		cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.Signaller, args []string) (err error) {
			call.Name = args[0]
			if call.Payload, err = a.JsonArg("payload", payload); err != nil {
				return err
			}
			rs, err := s.SendSignals(ctx, []pawl.SignalCall{call})
			return cli.ShowEach(a, rs, err, func(w io.Writer, sent []pawl.Signalled) {
				for _, s := range sent {
					replaced := ""
					if s.Replaced {
						replaced = "the payload it was sent with before"
					}
					terminal.Fields(
						w,
						"signal",
						terminal.Printable(s.Name),
						"key",
						terminal.Printable(s.Key),
						"sent",
						terminal.Time(s.SentAt),
						"woken",
						fmt.Sprint(s.Woken),
						"replaced",
						replaced,
					)
				}
			})
		}),
	)
	cmd.Flags().StringVar(&call.Key, "signal-key", "", "distinguishes signals of the same name")
	cmd.Flags().StringVar(&payload, "payload", "", "payload of the signal: JSON, @FILE or - (default null)")
	return cmd
}
