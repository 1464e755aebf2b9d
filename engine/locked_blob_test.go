package engine_test

import (
	"fmt"
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
