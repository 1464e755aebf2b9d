// Command showcase serves the dashboard of a database that is filled with the same work each
// time: for screenshots and for tests in a browser. Its first line of output is JSON with the
// address and the ids of what the screenshots show.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/dashboard"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/server"
	"github.com/pawl-work/pawl/store/sqlite"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "address to listen on")
	empty := flag.Bool("empty", false, "serve a database without any work")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx, *addr, *empty); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// past is a clock that is a settable time behind. It has no monotonic reading, so that the
// database follows its jumps.
type past struct{ behind atomic.Int64 }

func (p *past) now() time.Time           { return clock.Now().Round(0).Add(-time.Duration(p.behind.Load())) }
func (p *past) set(behind time.Duration) { p.behind.Store(int64(behind)) }

func serve(ctx context.Context, addr string, empty bool) error {
	dir, err := os.MkdirTemp("", "pawl-showcase-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	var at past
	at.set(history)
	path := filepath.Join(dir, "pawl.db")
	eng, err := engine.OpenWith(ctx, "sqlite:"+path, engine.Options{Clock: at.now, Log: log})
	if err != nil {
		return err
	}
	defer eng.Close()
	shown := map[string]string{}
	if !empty {
		if shown, err = filled(ctx, eng, path, &at); err != nil {
			return err
		}
	}
	at.set(0)
	run := eng.Start(ctx)
	defer run.Stop(true, 10*time.Second)
	gate := access.New(access.Options{Keys: eng, Log: log})
	h := server.New(eng, server.Options{Stopping: ctx, Gate: gate, Log: log,
		Front: dashboard.New(eng, dashboard.Options{Gate: gate, Log: log, Version: "0.1.0", Stopping: ctx})})
	return server.Serve(ctx, addr, h, server.ServeOptions{Log: log, Listening: func(at net.Addr) {
		shown["url"] = "http://" + at.String()
		_ = json.NewEncoder(os.Stdout).Encode(shown) // a map of texts
	}})
}

// filled fills the database at a path.
func filled(ctx context.Context, eng *engine.Engine, path string, at *past) (map[string]string, error) {
	db, err := sqlite.Open(ctx, path, sqlite.Options{Clock: at.now})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return fill(ctx, eng, db, at)
}
