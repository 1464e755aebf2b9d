package server

import (
	"context"

	"github.com/pawl-work/pawl"
)

// signals registers what tells items what they wait for.
func (s *server) signals() {
	add(s, "send_signal", func(ctx context.Context, in *body[pawl.SignalCall]) (*answer[pawl.Signalled], error) {
		return reply(one(s.svc.SendSignals(ctx, []pawl.SignalCall{in.Body})))
	})
	batch(s, "send_signals", is200[pawl.Signalled], s.svc.SendSignals)
}
