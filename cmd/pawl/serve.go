package main

import (
	"context"
	"net"
	"net/http"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/mcp"
	"github.com/pawl-work/pawl/server"
)

func (a *app) serveCmd() *cobra.Command {
	cmd := a.verb("serve", "Serve the HTTP API and MCP, and sweep", cobra.NoArgs, func(cmd *cobra.Command, args []string) error {
		if a.cfg.Server != "" {
			return invalid("a server is run on a --db, not on another --server")
		}
		outs, err := a.cfg.Relay.outs()
		if err != nil {
			return err
		}
		return with(a, func(ctx context.Context, s pawl.Service, _ []string) error {
			if err := a.putTypes(ctx, s, a.cfg.Serve.Types); err != nil {
				return err
			}
			log, c, scheme := a.log(), a.cfg.Serve, "http://"
			if c.TLSCert != "" {
				scheme = "https://"
			}
			h := server.New(s, server.Options{Stopping: ctx, Log: log, Version: readVersion().Version, RequireKeys: a.cfg.Serve.RequireKeys,
				At: map[string]http.Handler{"/mcp": mcp.New(s, a.mcpOptions(ctx)).HTTP()}})
			return alongside(ctx, s, func(ctx context.Context) error {
				relaying, stop := context.WithCancel(ctx)
				var relayed sync.WaitGroup
				defer relayed.Wait()
				defer stop()
				if e, ok := s.(*engine.Engine); ok && len(outs) > 0 {
					relayed.Go(func() { _ = relays(relaying, e, outs, a.cfg.Relay.Origin, log) }) // outs are checked
				}
				return server.Serve(ctx, a.cfg.Serve.Addr, h, server.ServeOptions{Log: log, CertFile: c.TLSCert, KeyFile: c.TLSKey, Notice: c.Notice, Listening: func(at net.Addr) {
					log.Info("serving", "url", scheme+at.String(), "db", named(a.cfg.DB, a.cfg.Schema))
				}})
			})
		})(cmd, args)
	})
	cmd.Flags().String("addr", "", "where to listen, loopback only (default "+defaults().Serve.Addr+")")
	bind(cmd.Flags(), "addr", "serve.addr")
	cmd.Flags().String("types", "", "register the types in this folder of YAML and JSON files first")
	bind(cmd.Flags(), "types", "serve.types")
	cmd.Flags().StringSlice("require-keys", nil, "routes taken with an Idempotency-Key only, such as create_task; * for all")
	bind(cmd.Flags(), "require-keys", "serve.require_keys")
	cmd.Flags().StringArray("relay", nil, "send every event to NAME=URL: amqp, nats or https; see docs/relay.md")
	bind(cmd.Flags(), "relay", "relay.sinks")
	cmd.Flags().String("tls-cert", "", "speak TLS with the certificate in this PEM file, read again when it changes")
	bind(cmd.Flags(), "tls-cert", "serve.tls_cert")
	cmd.Flags().String("tls-key", "", "and its key")
	bind(cmd.Flags(), "tls-key", "serve.tls_key")
	cmd.Flags().Duration("notice", 0, "how long calls are still taken when it is to stop, while /readyz says 503")
	bind(cmd.Flags(), "notice", "serve.notice")
	sweepFlags(cmd.Flags())
	return cmd
}

// alongside runs the sweeps, if s owns any, for as long as run runs.
func alongside(ctx context.Context, s any, run func(context.Context) error) error {
	sweeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var both errgroup.Group
	both.Go(func() error {
		defer stop()
		return run(ctx)
	})
	if r, ok := s.(runner); ok {
		both.Go(func() error { return r.Run(sweeping) })
	}
	return both.Wait()
}
