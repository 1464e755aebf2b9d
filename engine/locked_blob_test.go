package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// An open transaction that refers to a blob stops no other call that refers to it, also if the blob
// was used long ago.
func TestABlobOfAnOpenTransactionStopsNoCreate(t *testing.T) {
	for _, old := range []bool{false, true} {
		t.Run(fmt.Sprint(old), func(t *testing.T) {
			p := pawltest.Open(t, pawltest.Postgres)
			ctx := t.Context()
			blob := need[pawl.Blob](t)(p.Engine.PutBlob(ctx, pawl.BlobUpload{Content: noise(1, 100)}))
			if old {
				ok(t, p.Exec("UPDATE pawl.uploaded_blobs SET used_at = 1"))
			}
			task := pawl.NewTask{Type: "a", Payload: fmt.Appendf(nil, `{%q:%q}`, pawl.BlobMember, blob.Address)}
			tx, commit := transaction(t, p)
			need[pawl.Task](t)(p.Engine.In(tx).Create(ctx, task))
			need[pawl.Task](t)(pawl.Create(ctx, p.Engine, task))
			commit()
			leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Limit: 9}, 2)
		})
	}
}

// An open transaction that saves a large snapshot holds up no other call that saves the same bytes, also if they are
// stored already and were not used for long.
func TestASnapshotOfAnOpenTransactionStopsNoOther(t *testing.T) {
	for _, old := range []bool{false, true} {
		t.Run(fmt.Sprint(old), func(t *testing.T) {
			p := pawltest.Open(t, pawltest.Postgres)
			ctx := t.Context()
			var tasks []string
			for range 5 {
				tasks = append(tasks, need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a"})).ID)
			}
			ls := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Limit: 9}, 5)
			large := fmt.Appendf(nil, "%q", strings.Repeat("words ", pawl.MinBlobBytes))
			if old {
				saved(t, p.Engine, ls[4], "state", large)
				ok(t, p.Exec("UPDATE pawl.blobs SET used_at = 1"))
			}
			tx, commit := transaction(t, p)
			saved(t, p.Engine.In(tx), ls[0], "state", large)
			saved(t, p.Engine.In(tx), ls[0], "again", large)
			saved(t, p.Engine, ls[1], "state", large)
			if old {
				need[pawl.Task](t)(forked(ctx, p.Engine, ls[4].TaskID, 1))
			}
			need[[]pawl.Result[pawl.CheckpointsAppended]](t)(p.Engine.AppendCheckpoints(ctx, []pawl.CheckpointAppend{{TaskID: tasks[2],
				Checkpoints: []pawl.AppendedCheckpoint{{NewCheckpoint: pawl.NewCheckpoint{
					Type: pawl.CustomCheckpoint, Name: "state", Snapshot: large}}}}}))
			commit()
			saved(t, p.Engine, ls[3], "state", large)
			for i, id := range tasks {
				cs := need[pawl.List[pawl.Checkpoint]](t)(p.Engine.ListCheckpoints(ctx, pawl.CheckpointFilter{TaskID: id})).Items
				if (old || i < 4) && (len(cs) == 0 || !bytes.Equal(cs[0].Snapshot, large)) {
					t.Errorf("task %d: %d checkpoints", i+1, len(cs))
				}
			}
			if n := queried(t, p, "SELECT COUNT(*) FROM pawl.blobs"); n != 1 {
				t.Errorf("%d blobs", n)
			}
		})
	}
}

// An open transaction that forks an archived task holds up no call that saves the same bytes.
func TestAForkOfAnOpenTransactionStopsNoSnapshot(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	ctx := t.Context()
	of := need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a"})).ID
	l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0]
	large := fmt.Appendf(nil, "%q", strings.Repeat("words ", pawl.MinBlobBytes))
	saved(t, p.Engine, l, "state", large)
	need[pawl.Moved](t)(first(p.Engine.Complete(ctx, []pawl.CompleteCall{{Fence: l.Fence()}})))
	p.Advance(pawl.DefaultRetainTasks + time.Hour)
	for range 3 {
		need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
	}
	if n := queried(t, p, "SELECT COUNT(*) FROM pawl.blobs"); n != 0 {
		t.Fatalf("%d blobs of an archived task", n)
	}
	need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a"}))
	l = leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0]
	tx, commit := transaction(t, p)
	copied := need[pawl.Task](t)(forked(ctx, p.Engine.In(tx), of, 1)).ID
	saved(t, p.Engine, l, "state", large)
	commit()
	for _, id := range []string{copied, l.TaskID} {
		cs := need[pawl.List[pawl.Checkpoint]](t)(p.Engine.ListCheckpoints(ctx, pawl.CheckpointFilter{TaskID: id})).Items
		if len(cs) != 1 || !bytes.Equal(cs[0].Snapshot, large) {
			t.Errorf("task %s: %d checkpoints", id, len(cs))
		}
	}
}

// Retention keeps a blob that a transaction refers to which has not committed, also if another one that had marked it
// as used is rolled back.
func TestRetentionBesideAnOpenReference(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	ctx := t.Context()
	for range 3 {
		need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a"}))
	}
	ls := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Limit: 9}, 3)
	large := fmt.Appendf(nil, "%q", strings.Repeat("words ", pawl.MinBlobBytes))
	saved(t, p.Engine, ls[0], "state", large)
	need[pawl.Task](t)(first(p.Engine.CancelTasks(ctx, []pawl.TaskCall{{TaskID: ls[0].TaskID}})))
	need[string](t)(first(p.Engine.DeleteTasks(ctx, []pawl.TaskCall{{TaskID: ls[0].TaskID}})))
	ok(t, p.Exec("UPDATE pawl.blobs SET used_at = 1"))
	one, _ := transaction(t, p)
	saved(t, p.Engine.In(one), ls[1], "state", large)
	two, commit := transaction(t, p)
	saved(t, p.Engine.In(two), ls[2], "state", large)
	ok(t, one.Rollback(ctx))
	var idle []store.BlobPlace
	var removed int64
	ok(t, p.Engine.DB().Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		if idle, _, err = store.IdleBlobs(ctx, tx, 1, store.BlobPlace{}, 9); err == nil {
			removed, err = store.RemoveBlobs(ctx, tx, 1, idle)
		}
		return err
	}))
	if len(idle) != 1 || removed != 0 {
		t.Errorf("of %d blobs %d were removed", len(idle), removed)
	}
	commit()
	cs := need[pawl.List[pawl.Checkpoint]](t)(p.Engine.ListCheckpoints(ctx, pawl.CheckpointFilter{TaskID: ls[2].TaskID})).Items
	if len(cs) != 1 || !bytes.Equal(cs[0].Snapshot, large) {
		t.Errorf("%d checkpoints", len(cs))
	}
}
