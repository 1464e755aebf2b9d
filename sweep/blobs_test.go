package sweep_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// countingDB counts the transactions that may write.
type countingDB struct {
	store.DB
	writes int
	refuse int // of the first writes, as if a move had begun meanwhile
}

func (c *countingDB) Do(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	c.writes++
	if c.writes <= c.refuse {
		return store.ErrFenced
	}
	return c.DB.Do(ctx, fn)
}

// Blobs are looked at in transactions that read. Only those that nothing refers to are removed
// in one that writes.
func TestTheSweepOfBlobsWritesOnlyWhatItFinds(t *testing.T) {
	t.Parallel()
	each(t, func(h *fixture) {
		blobs := func() (n int64) {
			h.OK(h.Engine.DB().View(h.Context(), func(ctx context.Context, tx store.Tx) error {
				_, err := store.Row(ctx, tx, []any{&n}, "SELECT COUNT(*) FROM pawl.blobs")
				return err
			}))
			return n
		}
		task, err := pawl.Create(h.Context(), h.Service, pawl.NewTask{Type: "a"})
		h.OK(err)
		ls, err := h.Service.Claim(h.Context(), pawl.ClaimRequest{WorkerID: "w", Limit: 1, LeaseSeconds: pawl.MaxLeaseSeconds})
		h.OK(err)
		for _, of := range []string{"x", "y"} {
			_, err = pawl.SaveCheckpoint(h.Context(), h.Service, ls[0].Fence(), pawl.NewCheckpoint{Type: "custom",
				Snapshot: []byte(`"` + strings.Repeat(of, 2*pawl.MinBlobBytes) + `"`)})
			h.OK(err)
		}
		if n := blobs(); n != 2 {
			t.Fatalf("%d blobs", n)
		}
		refuse := 0
		pass := func() int {
			h.Advance(2 * 24 * time.Hour)
			db := &countingDB{DB: h.DB, refuse: refuse}
			h.OK(h.server(db).Blobs(h.Context()))
			return db.writes
		}
		if writes := pass(); writes != 0 || blobs() != 2 {
			t.Errorf("blobs in use: %d transactions that write, %d blobs are left", writes, blobs())
		}
		_, err = h.Service.DeleteTasks(h.Context(), []pawl.TaskCall{{TaskID: task.ID, Force: true}})
		h.OK(err)
		for _, move := range []string{"'target', 'default', 'copying'", "'source', '', 'flipped'"} {
			h.exec("INSERT INTO pawl.relocations (id, side, namespace, step, peer, created_at, changed_at) VALUES ('m', " + move + ", 'p', 0, 0)")
			if writes := pass(); writes != 0 || blobs() != 2 {
				t.Errorf("beside a move (%s): %d transactions that write, %d blobs are left", move, writes, blobs())
			}
			h.exec("DELETE FROM pawl.relocations")
		}
		refuse = 1
		if writes := pass(); writes != 3 || blobs() != 0 {
			t.Errorf("a move began meanwhile: %d transactions that write, %d blobs are left", writes, blobs())
		}
	})
}
