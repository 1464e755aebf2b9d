package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/testserver"
)

// admin creates and drops databases. Every measurement gets a fresh one, copied from a
// template that was migrated once.
type admin struct {
	conn   *pgx.Conn
	server *testserver.Server
	made   int
}

// These are the templates, one for each system.
const (
	forPawl   = "template_pawl"
	forRiver  = "template_river"
	forLimit  = "template_limit"
	forOthers = "template1" // they migrate it themselves
)

func newAdmin(ctx context.Context, s *testserver.Server) (*admin, error) {
	conn, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		return nil, err
	}
	a := &admin{conn: conn, server: s}
	for name, fill := range map[string]func(ctx context.Context, url string) error{
		forPawl: migratePawl, forRiver: migrateRiver, forLimit: migrateLimit,
	} {
		if _, err := conn.Exec(ctx, text("new database", name, "template1")); err != nil {
			return nil, err
		}
		if err := fill(ctx, a.url(name)); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return a, nil
}

func (a *admin) close(ctx context.Context) { _ = a.conn.Close(context.WithoutCancel(ctx)) }

// url returns the URL of a database of the server.
func (a *admin) url(database string) string {
	u, err := url.Parse(a.server.URL)
	if err != nil {
		panic(err) // it is the server's own URL
	}
	u.Path = "/" + database
	return u.String()
}

// fresh creates a database and makes a checkpoint, so that every measurement starts from the
// same state of the log. The caller drops it at the end.
func (a *admin) fresh(ctx context.Context, template string) (url string, drop func(), err error) {
	a.made++
	name := fmt.Sprintf("bench_%d", a.made)
	if _, err := a.conn.Exec(ctx, text("new database", name, template)); err != nil {
		return "", nil, err
	}
	if err := a.checkpoint(ctx); err != nil {
		return "", nil, err
	}
	drop = func() { _, _ = a.conn.Exec(context.WithoutCancel(ctx), text("drop database", name)) } // removed with the server anyway
	return a.url(name), drop, nil
}

func (a *admin) checkpoint(ctx context.Context) error {
	_, err := a.conn.Exec(ctx, text("checkpoint"))
	return err
}

// wal returns how many bytes the server has logged so far.
func (a *admin) wal(ctx context.Context) (n int64, err error) {
	err = a.conn.QueryRow(ctx, text("wal")).Scan(&n)
	return n, err
}

// one reads one number from a database.
func one(ctx context.Context, url, name string) (n int64, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, text(name)).Scan(&n)
	return n, err
}

// poolOf returns a pool of at most n connections.
func poolOf(ctx context.Context, url string, n int32) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = n
	return pgxpool.NewWithConfig(ctx, cfg)
}

func migratePawl(ctx context.Context, url string) error {
	e, err := engine.Open(ctx, url)
	if err != nil {
		return err
	}
	return e.Close()
}

// cpu returns the processor time that this process and the server's processes have used so
// far, in seconds, those included that have ended. On systems other than Linux it returns 0.
func (a *admin) cpu() float64 {
	parent := strconv.Itoa(a.server.PID())
	ticks := ticksOf("self") + ticksAt(parent, 13)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, s := range stats {
		pid := filepath.Base(filepath.Dir(s))
		if f := statOf(pid); len(f) > 14 && (f[1] == parent || pid == parent) {
			ticks += ticksOf(pid)
		}
	}
	return float64(ticks) / 100 // USER_HZ
}

// statOf returns the fields of a process's stat, from its state on: state, parent, …
func statOf(pid string) []string {
	raw, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	return strings.Fields(rest)
}

func ticksOf(pid string) int64 { return ticksAt(pid, 11) }

// ticksAt returns the sum of two fields of a process's stat: its own time is at 11, that of its ended children at 13.
func ticksAt(pid string, i int) int64 {
	f := statOf(pid)
	if len(f) < i+2 {
		return 0
	}
	user, _ := strconv.ParseInt(f[i], 10, 64)
	system, _ := strconv.ParseInt(f[i+1], 10, 64)
	return user + system
}
