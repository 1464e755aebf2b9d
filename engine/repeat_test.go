package engine_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// A lease belongs to the API key that claimed it too, so the same worker id with another key does
// not repeat its call.
func TestARepeatedCallOfAnotherKeyIsRefused(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		as := func(key string) context.Context {
			return pawl.As(t.Context(), pawl.Caller{Namespace: pawl.DefaultNamespace, Key: key})
		}
		need[pawl.Task](t)(pawl.Create(as("k1"), p.Engine, pawl.NewTask{Type: "a"}))
		claimed, err := p.Engine.Claim(as("k1"), pawl.ClaimRequest{WorkerID: "w"})
		if err != nil || len(claimed) != 1 {
			t.Fatal(claimed, err)
		}
		f := claimed[0].Fence()
		for n, key := range []string{"k1", "k1", "k2"} {
			m, err := pawl.Complete(as(key), p.Engine, f, json.RawMessage(`1`))
			if key == "k2" {
				if code := pawl.CodeOf(err); code != pawl.CodeConflict && code != pawl.CodeLeaseLost {
					t.Errorf("another key: %+v, %v", m, err)
				}
			} else if err != nil || m.Repeated != (n == 1) {
				t.Errorf("call %d: %+v, %v", n, m, err)
			}
		}
	})
}

// A call that is repeated inside a caller's transaction sees what that transaction did; a
// transaction that was rolled back was no call.
func TestACallIsRepeatedInATransaction(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a"}))
		f := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0].Fence()
		twice := func(svc pawl.Service) (repeated []bool) {
			for range 2 {
				repeated = append(repeated, need[pawl.Moved](t)(pawl.Complete(ctx, svc, f, json.RawMessage(`1`))).Repeated)
			}
			return repeated
		}
		for _, commit := range []bool{false, true} {
			tx := beginOwn(t, p)
			if got := twice(tx); got[0] || !got[1] {
				t.Errorf("repeated is %v", got)
			}
			end := tx.rollback
			if commit {
				end = tx.commit
			}
			if err := end(); err != nil {
				t.Fatal(err)
			}
		}
		if got := twice(p.Engine); !got[0] || !got[1] {
			t.Errorf("after the commit, repeated is %v", got)
		}
	})
}
