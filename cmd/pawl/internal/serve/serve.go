// Package serve has the commands `pawl serve` and `pawl mcp`.
package serve

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/access/signin"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/cmd/pawl/internal/key"
	"github.com/pawl-work/pawl/cmd/pawl/internal/tasktype"
	"github.com/pawl-work/pawl/dashboard"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/inbound"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/internal/gctune"
	"github.com/pawl-work/pawl/internal/push"
	"github.com/pawl-work/pawl/internal/testclock"
	"github.com/pawl-work/pawl/mcp"
	"github.com/pawl-work/pawl/relay"
	"github.com/pawl-work/pawl/server"
)

// Command returns the command and its subcommands.
func Command(a *cli.App) *cobra.Command {
	start := ""
	cmd := a.Verb("serve", "Serve the HTTP API and MCP, and sweep", cobra.NoArgs, func(cmd *cobra.Command, args []string) error {
		if a.Config.Server != "" {
			return cli.Invalid("a server needs a database: use --db instead of --server")
		}
		if err := server.CheckRequireKeys(a.Config.Serve.RequireKeys); err != nil {
			return err
		}
		sinks, err := parseSinks(a.Config.Relay)
		if err != nil {
			return err
		}
		hooks, err := sources(a)
		if err != nil {
			return err
		}
		o := a.Config.Serve
		users, err := o.SignIn(guarded(o.Auth, o.Addr), o.Hosts)
		if err != nil {
			return err
		}
		stands, err := testClock(a, start)
		if err != nil {
			return err
		}
		a.Serves = true
		return cli.Traced(a, cli.WithCreate(a, func(ctx context.Context, s pawl.Service, _ []string) error {
			return serve(ctx, a, s, sinks, hooks, users, stands)
		}))(cmd, args)
	})
	cmd.Flags().StringVar(&start, "test-clock", "", "for tests: the clock of a new SQLite database stands at this time (RFC 3339), and POST "+
		testclock.Path+" moves it")
	_ = cmd.Flags().MarkHidden("test-clock") // it was just defined
	cli.SettingFlags(cmd.Flags(), "serve.", "blobs.", "relay.", "record.", "sweep.", "trace.")
	return cmd
}

// testClock returns the clock that stands at start until a test moves it; nil without a start. It is no setting, so that
// neither a variable nor a file can stop the clock of a server.
func testClock(a *cli.App, start string) (*testclock.Clock, error) {
	if start == "" {
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339, start)
	if err != nil {
		return nil, cli.Invalid("--test-clock: %q is no time of RFC 3339, such as 2026-01-29T10:00:00Z", start)
	}
	if guarded(a.Config.Serve.Auth, a.Config.Serve.Addr) {
		return nil, cli.Invalid("--test-clock is for a loopback address without API keys: who may call may move the clock")
	}
	c, err := testclock.Open(a.Config.DB, at)
	if err == nil {
		a.Clock = c.Now
	}
	return c, err
}

// guarded reports whether every call needs an API key, or what stands for it.
func guarded(auth, addr string) bool { return auth == "required" || server.Public(addr) }

func serve(ctx context.Context, a *cli.App, s pawl.Service, sinks []relay.SinkOptions, hooks map[string]*inbound.Source,
	users cli.SignIn, stands *testclock.Clock) error {
	gctune.Limit(gctune.ServerGarbage)
	if err := cli.HasBlobStores(ctx, s); err != nil {
		return err
	}
	if err := tasktype.PutTypes(ctx, a, s, a.Config.Serve.Types); err != nil {
		return err
	}
	o, log, notices, scheme := a.Config.Serve, a.Log(), a.Notices(), "http://"
	if o.TLSCert != "" {
		scheme = "https://"
	}
	guarded := guarded(o.Auth, o.Addr)
	if guarded && !users.Users {
		if err := anyKey(ctx, s, o.Addr); err != nil {
			return err
		}
	}
	keys, _ := s.(access.Keys)
	checks := access.Options{
		Keys: keys, Proxy: users.Proxy, Required: guarded, RatePerKey: o.RatePerKey, RatePerAgent: o.RatePerAgent, Log: log,
	}
	if users.Verifier != nil {
		checks.Tokens = users.Verifier
	}
	gate := access.New(checks)
	defer gate.Flush(ctx)
	effects, err := effectGate(ctx, a, s, gate)
	if err != nil {
		return err
	}
	calls, err := pusher(a, s)
	if err != nil {
		return err
	}
	h := handler(ctx, a, s, gate, hooks, users.Provider, effects, sinks, calls, stands)
	return cli.WithSweeps(ctx, s, func(ctx context.Context) error {
		relaying, stop := context.WithCancel(ctx)
		var relayed sync.WaitGroup
		defer relayed.Wait()
		defer stop()
		if e, ok := s.(*engine.Engine); ok && len(sinks) > 0 {
			relayed.Go(func() { _ = relay.Run(relaying, relayOptions(a, e, sinks)) }) // the sinks were checked
		}
		if calls != nil {
			relayed.Go(func() { calls.Run(relaying) })
		}
		so := server.ServeOptions{Log: log, Guarded: guarded, CertFile: o.TLSCert, KeyFile: o.TLSKey, Notice: o.Notice}
		so.Listening = func(at net.Addr) {
			if at.Network() == "unix" {
				scheme = "unix:"
			}
			notices.Info("serving", "url", scheme+at.String(), "db", cli.ShownURL(a.Config.DB, a.Config.Schema), "keys_required", guarded,
				"version", cli.ReadVersion().Version)
		}
		return a.UntilStopped(ctx, func() error { return server.Serve(ctx, o.Addr, h, so) })
	})
}

// handler returns the HTTP handler: the API with MCP and the dashboard.
func handler(ctx context.Context, a *cli.App, s pawl.Service, gate *access.Gate, hooks map[string]*inbound.Source,
	provider *signin.Provider, effects func(http.Handler) http.Handler, sinks []relay.SinkOptions, calls *push.Pusher,
	stands *testclock.Clock) http.Handler {
	e, _ := s.(*engine.Engine)
	o, log, version := a.Config.Serve, a.Log(), cli.ReadVersion().Version
	agents := mcpOptions(ctx, a)
	agents.Gate, agents.Tools = gate, o.MCPTools
	pages := dashboard.New(s, dashboard.Options{
		Gate: gate, Log: log, Version: version, SessionIdle: o.SessionIdle, SessionLength: o.SessionEnd,
		Stopping: ctx, SignIn: provider,
	})
	doors := map[string]http.Handler{"/mcp": mcp.New(s, agents).HTTP()}
	if stands != nil {
		doors[testclock.Path] = stands.Handler(s)
	}
	return server.New(s, server.Options{
		Stopping:    ctx,
		Log:         log,
		Version:     version,
		RequireKeys: o.RequireKeys,
		Hosts:       o.Hosts,
		Gate:        gate,
		Inbound:     hooks,
		Relay:       onceRelayed(a, e, sinks),
		Push:        oncePushed(calls),
		Limits:      server.Limits(o.ServerLimits),

		TracerProvider: a.Traces,
		At:             doors,
		Front:          func(api http.Handler) http.Handler { return effects(pages(api)) },
	})
}

// anyKey returns an error if keys are required and none exists.
func anyKey(ctx context.Context, s any, addr string) error {
	m, ok := s.(key.Manager)
	if !ok {
		return key.NeedsDatabase()
	}
	keys, err := m.ListAPIKeys(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(keys, func(k pawl.APIKey) bool {
		return k.RevokedAt == nil && (k.ExpiresAt == nil || k.ExpiresAt.After(clock.Now()))
	}) {
		why := "every call needs an API key (serve.auth is required)"
		if server.Public(addr) {
			why = strconv.Quote(addr) + " can be reached from other machines, so every call needs an API key"
		}
		return cli.Invalid("%s, but none exists: create the first with `pawl key bootstrap`, or listen on loopback without serve.auth", why)
	}
	return nil
}
