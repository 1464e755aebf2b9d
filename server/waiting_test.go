package server_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// A waiting caller keeps the stack of the wait, not that of the call's way through the server.
// The runtime shrinks a stack by half as long as a quarter of it is enough. The test measures
// in a process of its own, because the stacks that other tests used decide how large new ones
// begin.
func TestWhoWaitsKeepsLittleStack(t *testing.T) {
	if alone := "PAWL_TEST_STACKS"; os.Getenv(alone) == "" {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		c.Env = append(os.Environ(), alone+"=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	bare := stackOfWaiting(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var way [1200]byte // as many as net/http itself keeps
		_, _ = r.Body.Read(way[:])
		<-r.Context().Done()
	}))
	ours := stackOfWaiting(t, server.New(pawltest.Open(t, pawltest.SQLite).Service, server.Options{}))
	t.Logf("%d bytes, a handler that does nothing else %d", ours, bare)
	if most := 3*bare + 2<<10; ours > most { // under the race detector all frames are larger
		t.Errorf("%d bytes, at most %d; of a handler that does nothing else %d", ours, most, bare)
	}
}

// stackOfWaiting returns how much stack each of many waiting claims keeps.
func stackOfWaiting(t *testing.T, h http.Handler) int {
	t.Helper()
	const callers = 200
	ts := httptest.NewServer(h)
	defer ts.Close()
	before, goroutines := stacks(), runtime.NumGoroutine()
	for i := range callers {
		c, err := net.Dial("tcp", ts.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		body := fmt.Sprintf(`{"worker_id":"w%d","types":["rare"],"wait_seconds":60}`, i)
		fmt.Fprintf(c, "POST /v1/claims HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			len(body), body)
	}
	for end := time.Now().Add(30 * time.Second); runtime.NumGoroutine() < goroutines+2*callers; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("they do not come")
		}
	}
	time.Sleep(100 * time.Millisecond) // the last ones may still be on their way
	return (stacks() - before) / callers
}

func stacks() int {
	for range 6 { // each collection gives back half
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.StackInuse)
}

// A waiting claim whose connection to the database is cut, at its first try or later, keeps
// waiting, also with an idempotency key.
func TestAWaitingClaimOutlivesItsConnection(t *testing.T) {
	p := pawltest.OpenReal(t, pawltest.Postgres)
	srv := serve(t, p.Engine, server.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	connect := func() *pgx.Conn {
		conn, err := pgx.Connect(ctx, p.URL)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(context.Background()) })
		return conn
	}
	blocker, killer := connect(), connect()
	for _, headers := range [][]string{nil, {api.KeyHeader, "k"}} {
		tx, err := blocker.Begin(ctx)
		if err == nil {
			_, err = tx.Exec(ctx, "LOCK TABLE "+pgx.Identifier{p.Schema, "ready"}.Sanitize()+" IN ACCESS EXCLUSIVE MODE")
		}
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan reply, 1)
		go func() {
			got <- ask(t, srv, "POST", "/v1/claims", `{"worker_id":"w","types":["t"],"wait_seconds":60}`, headers...)
		}()
		for cut := 0; cut < 3; {
			var n int
			if err := killer.QueryRow(ctx, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
				WHERE application_name = 'pawl' AND wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'`, p.Schema).Scan(&n); err != nil {
				t.Fatal(err)
			}
			cut += n
			select {
			case r := <-got:
				t.Fatalf("%v: after %d cuts: %d %s", headers, cut, r.StatusCode, r.text)
			case <-time.After(10 * time.Millisecond):
			}
		}
		if err := tx.Rollback(ctx); err != nil {
			t.Fatal(err)
		}
		create(t, p.Engine, 1)
		if r := <-got; r.StatusCode != 200 || !strings.Contains(r.text, `"itm_`) {
			t.Errorf("%v: %d %s", headers, r.StatusCode, r.text)
		}
	}
}
