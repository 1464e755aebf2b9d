package push

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-work/pawl"
)

// away is a database that does not answer until a time.
type away struct {
	pawl.Service
	until time.Time
	done  int
}

func (a *away) Complete(context.Context, []pawl.CompleteCall) ([]pawl.Result[pawl.Moved], error) {
	if time.Now().Before(a.until) {
		return nil, pawl.ErrUnavailable
	}
	a.done++
	return make([]pawl.Result[pawl.Moved], 1), nil
}

// A result is reported until the lease has run out, and for a short time only when the server stops.
func TestAResultOutlivesAFailover(t *testing.T) {
	for name, c := range map[string]struct {
		away  time.Duration
		stops bool
		done  int
	}{"a failover": {30 * time.Second, false, 1}, "a long outage": {2 * time.Minute, false, 0}, "a stop": {30 * time.Second, true, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &away{until: time.Now().Add(c.away)}
				p := &Pusher{o: Options{Service: s, Log: slog.New(slog.DiscardHandler)}}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				if c.stops {
					stop()
				}
				lease := pawl.Lease{LeaseSeconds: 60}
				ctx, done := reporting(ctx, lease)
				defer done()
				p.complete(ctx, lease, []byte(`1`))
				if s.done != c.done {
					t.Errorf("%d results were reported, want %d", s.done, c.done)
				}
			})
		})
	}
}
