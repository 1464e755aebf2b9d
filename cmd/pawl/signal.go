package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
)

func (a *app) signalCmd() *cobra.Command {
	return noun("signal", "Word from outside that items wait for", a.signalSend())
}

func (a *app) signalSend() *cobra.Command {
	var call pawl.SignalCall
	var payload string
	cmd := a.verb("send NAME", "Wake who waits for a signal, and who will", cobra.ExactArgs(1), with(a, func(ctx context.Context, s pawl.Signaller, args []string) (err error) {
		call.Name = args[0]
		if call.Payload, err = a.jsonArg("payload", payload); err != nil {
			return err
		}
		rs, err := s.SendSignals(ctx, []pawl.SignalCall{call})
		return each(a, rs, err, func(w io.Writer, sent []pawl.Signalled) {
			for _, s := range sent {
				replaced := ""
				if s.Replaced {
					replaced = "the payload it was sent with before"
				}
				fields(w, "signal", printable(s.Name), "key", printable(s.Key), "sent", when(s.SentAt), "woken", fmt.Sprint(s.Woken), "replaced", replaced)
			}
		})
	}))
	cmd.Flags().StringVar(&call.Key, "signal-key", "", "tells signals of one name apart")
	cmd.Flags().StringVar(&payload, "payload", "", "what it says: JSON, @FILE or - (default null)")
	return cmd
}
