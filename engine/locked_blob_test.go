package engine_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
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

// An open transaction that saves a large snapshot holds up no other call that saves the same bytes.
func TestASnapshotOfAnOpenTransactionStopsNoOther(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	ctx := t.Context()
	var tasks []string
	for range 4 {
		tasks = append(tasks, need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a"})).ID)
	}
	ls := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Limit: 9}, 4)
	large := fmt.Appendf(nil, "%q", strings.Repeat("words ", pawl.MinBlobBytes))
	tx, commit := transaction(t, p)
	saved(t, p.Engine.In(tx), ls[0], "state", large)
	saved(t, p.Engine.In(tx), ls[0], "again", large)
	saved(t, p.Engine, ls[1], "state", large)
	need[[]pawl.Result[pawl.CheckpointsAppended]](t)(p.Engine.AppendCheckpoints(ctx, []pawl.CheckpointAppend{{TaskID: tasks[2],
		Checkpoints: []pawl.AppendedCheckpoint{{NewCheckpoint: pawl.NewCheckpoint{
			Type: pawl.CustomCheckpoint, Name: "state", Snapshot: large}}}}}))
	commit()
	saved(t, p.Engine, ls[3], "state", large)
	for i, id := range tasks {
		cs := need[pawl.List[pawl.Checkpoint]](t)(p.Engine.ListCheckpoints(ctx, pawl.CheckpointFilter{TaskID: id})).Items
		if len(cs) == 0 || !bytes.Equal(cs[0].Snapshot, large) {
			t.Errorf("task %d: %d checkpoints", i+1, len(cs))
		}
	}
	if n := queried(t, p, "SELECT COUNT(*) FROM pawl.blobs"); n != 1 {
		t.Errorf("%d blobs", n)
	}
}
