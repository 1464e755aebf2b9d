package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// queuesOf lists the queues of a namespace that have ready rows, as type and rank.
func queuesOf(t *testing.T, p *pawltest.Pawl, namespace string) (out []string) {
	t.Helper()
	err := p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) error {
		found, err := store.Queues(ctx, tx, namespace, false)
		for _, q := range found {
			out = append(out, fmt.Sprint(q.Type, " ", q.Rank))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

// queuesByRows lists the same by a plain look at all rows.
func queuesByRows(t *testing.T, p *pawltest.Pawl, namespace string) (out []string) {
	t.Helper()
	err := p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) (err error) {
		out, err = store.Strings(ctx, tx, "SELECT DISTINCT q.type || ' ' || r.rank FROM pawl.ready r JOIN pawl.queues q "+
			"ON q.id = r.queue_id WHERE q.namespace = $1", namespace)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

// A namespace's queues with ready rows are found in time that does not grow with its queues
// without any, nor with the rows and queues of other namespaces.
func TestQueuesAreFoundAmongMany(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			p := pawltest.OpenNew(t, which, engine.Options{})
			in := func(namespace string) context.Context { return pawl.As(t.Context(), pawl.Caller{Namespace: namespace}) }
			create := func(namespace, kind string) {
				if _, err := pawl.Create(in(namespace), p.Service, pawl.NewTask{Type: kind}); err != nil {
					t.Fatal(err)
				}
			}
			create("default", "first")
			const step = 10_000 // a statement may take 24 s, also on a busy machine
			many := times(2*step, 10*step)
			each := func(queries ...string) {
				for from := 0; from < many; from += step {
					for _, q := range queries {
						if err := p.Exec(strings.ReplaceAll(q, "$from", fmt.Sprint(from))); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			numbers := fmt.Sprintf("WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < %d) ", step-1)
			each("INSERT INTO pawl.queues (namespace, type) " + numbers + "SELECT 'default', 'dead-' || (i + $from) FROM n")
			each("INSERT INTO pawl.queues (namespace, type) "+numbers+"SELECT 'other', 'busy-' || (i + $from) FROM n",
				"INSERT INTO pawl.ready (queue_id, rank, item_id, max_attempts, task_id, solo) SELECT q.id, 1, "+
					map[pawltest.Database]string{pawltest.SQLite: "randomblob(16)", pawltest.Postgres: "gen_random_uuid()"}[which]+
					", 3, t.id, 1 FROM pawl.queues q, pawl.tasks t "+
					"WHERE q.namespace = 'other' AND q.id > (SELECT MAX(m.id) FROM pawl.queues m) - "+fmt.Sprint(step))
			t.Cleanup(func() {
				each("DELETE FROM pawl.ready WHERE queue_id IN (SELECT id FROM pawl.queues WHERE namespace = 'other' ORDER BY id LIMIT " +
					fmt.Sprint(step) + " OFFSET $from)")
			})
			create("default", "last")
			want := []string{"first 1", "last 1"}
			found, read := time.Hour, time.Hour
			for range 5 {
				began := time.Now()
				if got := queuesOf(t, p, "default"); !slices.Equal(got, want) {
					t.Fatalf("%v", got)
				}
				found, began = min(found, time.Since(began)), time.Now()
				if got := queuesByRows(t, p, "default"); !slices.Equal(got, want) {
					t.Fatalf("%v", got)
				}
				read = min(read, time.Since(began))
			}
			t.Log(found, read)
			if found > read/2 {
				t.Errorf("it took %v among %d, and %v to read all rows", found, many, read)
			}
		})
	}
}

// Whatever queues there are, in whatever order their rows came, the answer is that of a plain
// look at all rows.
func TestQueuesAreThoseWithRows(t *testing.T) {
	t.Parallel()
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenWith(t, which, engine.Options{})
			for range 60 {
				namespace := []string{"default", "one", "two"}[rand.IntN(3)]
				ctx := pawl.As(t.Context(), pawl.Caller{Namespace: namespace})
				task, err := pawl.Create(ctx, p.Service, pawl.NewTask{Type: fmt.Sprint("t", rand.IntN(12)), Priority: rand.IntN(5) - 2})
				if err == nil && rand.IntN(2) == 0 {
					_, err = pawl.Cancel(ctx, p.Service, task.ID, "")
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			for _, namespace := range []string{"default", "one", "two", "none"} {
				want := queuesByRows(t, p, namespace)
				if got := queuesOf(t, p, namespace); !slices.Equal(got, want) || namespace == "default" && len(want) == 0 {
					t.Errorf("%s: %s, want %s", namespace, strings.Join(got, ", "), strings.Join(want, ", "))
				}
			}
		})
	}
}
