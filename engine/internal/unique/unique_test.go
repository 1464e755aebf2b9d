package unique_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

func TestMain(m *testing.M) { pawltest.Main(m) }

func need[T any](t testing.TB) func(v T, err error) T { return pawltest.Must[T](t) }

// swept runs a pass of the sweep, and counts the rows of a table.
func swept(t *testing.T, p *pawltest.Pawl, table string) (n int) {
	t.Helper()
	need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
	p.OK(p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) error {
		_, err := store.Row(ctx, tx, []any{&n}, "SELECT COUNT(*) FROM pawl."+table)
		return err
	}))
	return n
}

// A key that outlives its task is removed after its window.
func TestKeysOfRemovedTasksGoAfterTheirWindow(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		p.Create(pawl.NewTask{Type: "a", Unique: &pawl.Unique{By: pawl.UniqueByKey, Key: "k", WindowSeconds: 40 * 86_400}})
		l := p.ClaimN(1, pawl.ClaimRequest{WorkerID: "w"})[0]
		need[pawl.Moved](t)(pawl.Complete(t.Context(), p.Engine, l.Fence(), json.RawMessage(`1`)))
		for i, want := range []int{1, 0} {
			p.Advance([]time.Duration{31, 10}[i] * 24 * time.Hour)
			if keys, tasks := swept(t, p, "uniques"), swept(t, p, "tasks"); keys != want || tasks != 0 {
				t.Errorf("%d keys and %d tasks, want %d and none", keys, tasks, want)
			}
			if breaches := need[[]engine.Breach](t)(p.Engine.Check(t.Context())); len(breaches) > 0 {
				t.Errorf("%+v", breaches)
			}
		}
	})
}

// The plan item of a task, and the first item of a task of one that grew, have the id of the task. Their end is not its end.
func TestAKeyIsHeldUntilItsTaskHasEnded(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		need[pawl.TypeRef](t)(pawltest.First(p.Engine.PutTypes(ctx, []pawl.Type{{Name: "planned", Plan: pawl.Plan{Mode: pawl.PlanItem}}})))
		ask := func(typ string) pawl.NewTask {
			return pawl.NewTask{Type: typ, Payload: json.RawMessage(`1`), Unique: &pawl.Unique{By: pawl.UniqueByKey, Key: "k"}}
		}
		done := func(typ, result string) {
			l := p.ClaimN(1, pawl.ClaimRequest{WorkerID: "w", Types: []string{typ}})[0]
			need[pawl.Moved](t)(pawl.Complete(ctx, p.Engine, l.Fence(), json.RawMessage(result)))
		}
		p.Create(ask("planned"))
		done("planned.plan", `{"items":[{"input":1}]}`)
		grown := p.Create(ask("grown"))
		more := pawl.AddItems{TaskID: grown.ID, Items: []pawl.NewItem{{Input: json.RawMessage(`2`)}}}
		need[pawl.Task](t)(pawltest.First(p.Engine.AddItems(ctx, []pawl.AddItems{more})))
		done("grown", `1`)
		if n := swept(t, p, "uniques"); n != 2 {
			t.Errorf("%d keys of live tasks", n)
		}
		for _, typ := range []string{"planned", "grown"} {
			if _, err := pawl.Create(ctx, p.Engine, ask(typ)); pawl.CodeOf(err) != pawl.CodeConflict {
				t.Errorf("%s: %v", typ, err)
			}
			done(typ, `2`)
		}
		if n := swept(t, p, "uniques"); n != 0 {
			t.Errorf("%d keys of ended tasks", n)
		}
	})
}
