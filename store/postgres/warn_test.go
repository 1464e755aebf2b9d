package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// A clock of the database's host that differs causes a warning in both directions. The
// time that the answer took does not count as a difference.
func TestWarningOfTheClock(t *testing.T) {
	asked := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	answered := asked.Add(5 * time.Second) // a slow server
	for now, want := range map[time.Time]string{
		asked.Add(-clockApart):                      "",
		asked.Add(-clockApart - time.Millisecond):   "the database's clock is 1.001s from",
		asked.Add(-time.Hour):                       "the database's clock is 1h0m0s from",
		asked.Add(2 * time.Second):                  "",
		answered.Add(clockApart):                    "",
		answered.Add(clockApart + time.Millisecond): "the database's clock is 1.001s from",
		answered.Add(90 * time.Second):              "the database's clock is 1m30s from",
	} {
		got := setup{asked: asked, now: now, answered: answered, commit: "on"}.warnings()
		switch {
		case want == "" && len(got) > 0:
			t.Errorf("%v: %+v", now.Sub(asked), got)
		case want != "" && (len(got) != 1 || got[0].Code != "clock_skew" || !strings.HasPrefix(got[0].Detail, want)):
			t.Errorf("%v: %+v, want %q", now.Sub(asked), got, want)
		}
	}
}

// A transaction that has been open for too long is named, with the command that ends it.
func TestWarningOfAnOpenTransaction(t *testing.T) {
	server, err := url.Parse(os.Getenv("PAWL_TEST_POSTGRES"))
	if err != nil || server.Host == "" {
		t.Skip("PAWL_TEST_POSTGRES names no server")
	}
	connect := func(to string) *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}
	maker, name := connect(server.String()), "pawl_warn_"+strings.ToLower(rand.Text()) // other tests have open transactions, too
	if _, err := maker.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = maker.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)") }()
	server.Path = "/" + name
	opened, err := Open(t.Context(), server.String(), Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	conn := connect(server.String())
	for _, query := range []string{"BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1"} { // which takes a snapshot
		if _, err := conn.Exec(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	command := fmt.Sprintf(`psql -c "SELECT pg_terminate_backend(%d)"`, conn.PgConn().PID())
	found, err := opened.(*db).vacuum(t.Context(), "pawl", bounds{snapshot: 0, dead: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].Code != "held_snapshot" || found[0].Command != command {
		t.Errorf("%+v, want %s", found, command)
	}
}

// An asynchronous standby beside a synchronous one is what a cluster manager sets up, and does not
// promote. Without a synchronous one, a failover loses acknowledged work.
func TestWarningOfStandbysBesideASynchronousOne(t *testing.T) {
	now := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	for sync, want := range []int{1, 0} {
		if got := (setup{asked: now, now: now, answered: now, commit: "on", async: 1, sync: sync}).warnings(); len(got) != want {
			t.Errorf("beside %d: %+v", sync, got)
		}
	}
}
