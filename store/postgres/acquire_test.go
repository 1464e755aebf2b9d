package postgres

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl/store"
)

// The wait for a connection is part of the time of the statement after it, so that a call to a
// server that does not answer ends within the limit of one statement.
func TestAWaitForAConnectionShortensTheStatement(t *testing.T) {
	url := os.Getenv("PAWL_TEST_POSTGRES")
	if url == "" {
		t.Skip("PAWL_TEST_POSTGRES is not set")
	}
	const limit, held = 80 * time.Second, 300 * time.Millisecond
	opened, err := Open(t.Context(), url, Options{MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	p := opened.(*db).hot
	p.limit = limit
	_, left, free, err := p.acquire(t.Context(), false)
	if err != nil || left != p.limit {
		t.Fatalf("with a free connection a statement has %v of %v, %v", left, p.limit, err)
	}
	time.AfterFunc(held, free)
	_, left, free, err = p.acquire(t.Context(), false)
	if err != nil || left > p.limit-held/2 || left < p.limit/4 {
		t.Fatalf("after a wait of %v a statement has %v of %v, %v", held, left, p.limit, err)
	}
	defer free()
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
