package server

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// signals registers the calls that send signals.
func (s *server) signals() {
	change(s, "send_signal", func(ctx context.Context, svc pawl.Service, in *body[pawl.SignalCall]) (*answer[pawl.Signalled], error) {
		return reply(one(svc.SendSignals(ctx, []pawl.SignalCall{in.Body})))
	})
	batch(s, api.SendSignals)
}
