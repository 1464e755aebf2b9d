package postgres

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl/store"
)

func urlOf(t *testing.T) string {
	url := os.Getenv("PAWL_TEST_POSTGRES")
	if url == "" {
		t.Skip("PAWL_TEST_POSTGRES is not set")
	}
	return url
}

// The wait for a connection is part of the time of the statement after it, so that a call to a
// server that does not answer ends within the limit of one statement.
func TestAWaitForAConnectionShortensTheStatement(t *testing.T) {
	const limit, held = 80 * time.Second, 300 * time.Millisecond
	opened, err := Open(t.Context(), urlOf(t), Options{MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	p := opened.(*db).hot
	if err := p.single(t.Context(), func(*session) error { return nil }); err != nil { // its session has its settings from now on
		t.Fatal(err)
	}
	p.limit = limit
	_, left, free, err := p.acquire(t.Context(), false)
	if err != nil || left != p.limit {
		t.Fatalf("with a free connection a statement has %v of %v, %v", left, p.limit, err)
	}
	time.AfterFunc(held, free)
	_, left, free, err = p.acquire(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	if left > p.limit-held/2 || left < p.limit/4 {
		t.Fatalf("after a wait of %v a statement has %v of %v", held, left, p.limit)
	}
	s := &session{pool: p, limit: left}
	ctx, end := s.bound(t.Context())
	defer end()
	if at, found := ctx.Deadline(); !found || time.Until(at) > left {
		t.Errorf("the statement ends at %v", at)
	}
	p.limit = 100 * time.Millisecond
	if _, _, _, err := p.acquire(t.Context(), false); !store.IsDown(err) || !strings.Contains(err.Error(), "hot") {
		t.Errorf("a second connection of a pool of one: %v", err)
	}
}

// A connection is free again when a call has ended. Calls in turn that find it taken open one more each, and on each
// connection all statements are planned again.
func TestCallsInTurnHaveOneConnection(t *testing.T) {
	opened, err := Open(t.Context(), urlOf(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	last, changes := "", 0
	for range 200 {
		err := opened.(*db).hot.single(t.Context(), func(s *session) error {
			var pid string
			_, err := store.Row(t.Context(), s, []any{&pid}, "SELECT pg_backend_pid()::text")
			if pid != last {
				last, changes = pid, changes+1
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if changes > 4 { // the pool looks at its idle connections once in a while
		t.Errorf("200 calls in turn changed the connection %d times", changes)
	}
}
