package pawl_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

var (
	sqlBlock = regexp.MustCompile("(?ms)^```sql\n(.*?)^```$")
	readFrom = regexp.MustCompile(`(?i)\b(?:FROM|JOIN)\s+(\w+)`)
)

// Every query of docs/sql.md reads only views, and finds something in a house
// that has something of everything.
func TestQueriesInDocsRun(t *testing.T) {
	raw, err := os.ReadFile("docs/sql.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := sqlBlock.FindAllStringSubmatch(string(raw), -1)
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		words := furnish(t, p)
		ran := 0
		for _, b := range blocks {
			query := strings.TrimSuffix(strings.TrimSpace(b[1]), ";")
			if only, rest, _ := strings.Cut(query, "\n"); strings.HasPrefix(only, "-- ") {
				if only != (map[pawltest.Database]string{pawltest.SQLite: "-- SQLite", pawltest.Postgres: "-- PostgreSQL"})[p.Database] {
					continue
				}
				query = rest
			}
			for _, m := range readFrom.FindAllStringSubmatch(strings.ReplaceAll(query, "EXTRACT(EPOCH FROM", ""), -1) {
				if !strings.HasPrefix(m[1], "v_") {
					t.Errorf("reads %s, which is no view:\n%s", m[1], query)
				}
			}
			query = regexp.MustCompile(`\bv_(\w+)`).ReplaceAllString(words.Replace(query), "pawl.v_$1")
			n := 0
			err := p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) error {
				rows, err := tx.Query(ctx, query)
				if err != nil {
					return err
				}
				defer rows.Close()
				for n = 0; rows.Next(); n++ {
				}
				return rows.Err()
			})
			if err != nil || n == 0 {
				t.Errorf("%d rows, %v:\n%s", n, err, query)
			}
			ran++
		}
		if ran < 15 {
			t.Errorf("only %d queries were found", ran)
		}
	})
}

// furnish makes something of everything, and says what TASK, ITEM and WORKER are.
func furnish(t *testing.T, p *pawltest.Pawl) *strings.Replacer {
	t.Helper()
	ctx := t.Context()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	claim := func() pawl.Lease {
		t.Helper()
		got, err := p.Service.Claim(ctx, pawl.ClaimRequest{WorkerID: "worker-abc", Limit: 1})
		ok(err)
		if len(got) != 1 {
			t.Fatal("nothing to claim")
		}
		return got[0]
	}
	_, err := pawl.Create(ctx, p.Service, pawl.NewTask{Type: "solo", Payload: []byte(`{}`), Priority: 9})
	ok(err)
	_, err = pawl.Complete(ctx, p.Service, claim().Fence(), []byte(`{"done":true}`))
	ok(err)
	task, err := pawl.Create(ctx, p.Service, pawl.NewTask{Type: "many", Items: make([]pawl.NewItem, 3)})
	ok(err)
	run := claim()
	_, err = pawl.SaveCheckpoint(ctx, p.Service, run.Fence(), pawl.NewCheckpoint{Type: pawl.IterationStart, Snapshot: []byte(`{}`)})
	ok(err)
	p.Advance(pawl.DefaultLeaseSeconds * time.Second)
	_, err = p.Service.Sweep(ctx) // a lease has expired …
	ok(err)
	held := claim()
	p.Advance(pawl.DefaultLeaseSeconds * time.Second) // … and another one is about to be swept
	ok(p.Engine.DB().Do(ctx, func(ctx context.Context, tx store.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO pawl.work_item_parts (id, namespace, item_id, part_key, payload, worker_id, attempt, created_at) VALUES ('prt_x', 'default', $1, 'p', '1', 'w', 1, 1)", held.ID)
		return err
	}))
	return strings.NewReplacer("TASK", task.ID, "ITEM", held.ID, "WORKER", "worker-abc")
}
