package engine_test

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// A login that may not ask which server answers has the feed of events: only failovers are found later.
func TestALoginThatMayNotAskForTheServer(t *testing.T) {
	server := need[*url.URL](t)(url.Parse(pawltest.Server(t)))
	name := "pawl_plain_" + strings.ToLower(rand.Text())
	run := func(queries ...string) {
		t.Helper()
		conn, err := pgx.Connect(context.Background(), server.String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		for _, query := range queries {
			if _, err := conn.Exec(context.Background(), query); err != nil {
				t.Fatalf("%s: %v", query, err)
			}
		}
	}
	first := *server
	run("CREATE ROLE "+name+" LOGIN PASSWORD 'plain'", "CREATE DATABASE "+name+" OWNER "+name)
	defer func() { server = &first; run("DROP DATABASE "+name+" WITH (FORCE)", "DROP ROLE "+name) }()
	own := first
	own.Path = "/" + name
	server = &own
	run("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
	own.User = url.UserPassword(name, "plain")
	e := need[*engine.Engine](t)(engine.Open(t.Context(), own.String()))
	defer func() { _ = e.Close() }()
	need[pawl.Task](t)(pawl.Create(t.Context(), e, pawl.NewTask{Type: "a"}))
	if head := need[int64](t)(e.Feed().Head(t.Context())); head == 0 {
		t.Error("the feed has no event")
	}
}
