package serve

import (
	"context"
	"net/http"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/gate"
)

// effectGate returns what puts the gate before the API. Without upstreams that is nothing.
func effectGate(ctx context.Context, a *cli.App, s pawl.Service, keys *access.Gate) (func(http.Handler) http.Handler, error) {
	upstreams := map[string]gate.Upstream{}
	for name, u := range a.Config.Gate.Upstreams {
		upstreams[name] = u.Upstream()
	}
	if len(upstreams) == 0 {
		return func(next http.Handler) http.Handler { return next }, nil
	}
	ledger, ok := s.(gate.Ledger)
	if !ok {
		return nil, cli.Invalid("gate.upstreams need a database: serve it with --db")
	}
	g, err := gate.New(gate.Options{Ledger: ledger, Upstreams: upstreams, Getenv: a.Getenv, Keys: keys, Stopping: ctx, Log: a.Log()})
	if err != nil {
		return nil, err
	}
	return g.Before, nil
}
