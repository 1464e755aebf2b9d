package sweep_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// bodiesDB counts the bytes of archives that one statement stores.
type bodiesDB struct {
	store.DB
	most int
}

func (d *bodiesDB) Do(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return d.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error { return fn(ctx, &bodiesTx{tx, d}) })
}

type bodiesTx struct {
	store.Tx
	db *bodiesDB
}

func (t *bodiesTx) ExecEach(ctx context.Context, query string, rows [][]any) error {
	size := 0
	for _, row := range rows {
		for _, v := range row {
			if body, is := v.([]byte); is {
				size += len(body)
			}
		}
	}
	t.db.most = max(t.db.most, size)
	return t.Tx.ExecEach(ctx, query, rows)
}

// Without a directory the archives of tasks that have ones of their own are held in memory, some MiB at a time.
func TestArchivesInTheTableAreHeldInParts(t *testing.T) {
	each(t, func(h *fixture) {
		const n = 24
		random := make([]byte, 600<<10)
		for range n {
			_, _ = rand.Read(random)
			payload, err := json.Marshal(random)
			h.OK(err)
			id := h.Create(pawl.NewTask{Type: "a", Payload: payload}).ID
			h.exec("INSERT INTO pawl.parents (task_id, namespace, depth, children, todo) VALUES ($1, 'default', 1, 1, 0)", store.TaskID(id))
		}
		h.complete(h.claim(n)...)
		h.Advance(31 * day)
		db := &bodiesDB{DB: h.DB}
		s, err := h.server(db).Pass(h.Context())
		h.OK(err)
		h.same([]int64{s.TasksPruned, s.Errors}, []int64{n, 0}, "pruned, and errors")
		if db.most == 0 || db.most > 12<<20 { // each of 4 writers may pass the bound by one archive
			t.Errorf("%d bytes were held together", db.most)
		}
	})
}
