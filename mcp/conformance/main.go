// Conformance serves what the Model Context Protocol's conformance suite asks
// of a server (tools, prompts and resources with names that the suite knows) on
// Pawl's own MCP layer, over an engine on a throw-away SQLite. It is a test
// program: it keeps nothing and knows no keys. `make conformance` runs the suite
// against it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/mcp"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "where to listen, loopback only")
	gate := flag.Bool("gate", false, "put the gate between clients and the server")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addr, *gate); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, addr string, gate bool) error {
	dir, err := os.MkdirTemp("", "pawl-conformance-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	eng, err := engine.Open(ctx, "sqlite:"+filepath.Join(dir, "work.db"))
	if err != nil {
		return err
	}
	defer eng.Close()
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	if at, ok := ln.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		return fmt.Errorf("%s is not loopback; there are no keys here", addr)
	}
	h := handler(ctx, eng)
	if gate {
		h = gated(eng, "http://"+ln.Addr().String(), h)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	fmt.Printf("http://%s/mcp\n", ln.Addr())
	running := make(chan error, 2)
	go func() { running <- eng.Run(ctx) }()
	go func() { running <- work(ctx, eng) }()
	select {
	case err = <-served:
	case <-ctx.Done():
		err = srv.Close()
		<-served
		<-running
		<-running
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// handler is the server with its fixtures at /mcp, and /readyz.
func handler(ctx context.Context, eng *engine.Engine) http.Handler {
	s := mcp.New(eng, mcp.Options{Stopping: ctx, Sessions: true, Tools: mcp.ToolsAll, Tune: func(o *sdk.ServerOptions) {
		o.Capabilities = logging()
		o.CompletionHandler = func(context.Context, *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
			return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{}}}, nil
		}
		o.SubscribeHandler = func(context.Context, *sdk.SubscribeRequest) error { return nil }
		o.UnsubscribeHandler = func(context.Context, *sdk.UnsubscribeRequest) error { return nil }
	}})
	contents(s.SDK())
	asks(s.SDK())
	answers(s.SDK())
	rounds(s.SDK())
	offers(s.SDK())
	lasting(s)
	mux := http.NewServeMux()
	mux.Handle("/mcp", http.NewCrossOriginProtection().Handler(s.HTTP()))
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if _, err := eng.Stats(r.Context()); err != nil {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
		}
	})
	return mux
}
