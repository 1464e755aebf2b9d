package engine_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// Other calls write while a large task is cancelled: their leases must not expire.
func TestALargeTaskIsCancelledInBatches(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a", Items: make([]pawl.NewItem, 2000)}))
		held := leases(t, p.Service, pawl.ClaimRequest{WorkerID: "w"}, 3)
		failing := held[0].Fence()
		if err := ruin(p.Service, failing); err != nil {
			t.Fatal(err)
		}
		need[pawl.Moved](t)(pawl.Complete(t.Context(), p.Service, held[1].Fence(), nil))
		beating := need[pawl.Task](t)(pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "b"}))
		worker := leases(t, p.Service, pawl.ClaimRequest{WorkerID: "w", Types: []string{"b"}}, 1)[0].Fence()
		ctx, stop := context.WithCancel(t.Context())
		var working sync.WaitGroup
		working.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				stage := fmt.Sprint("stage ", n)
				if _, err := first(p.Service.Progress(t.Context(), []pawl.ProgressCall{{Fence: worker, Stage: &stage}})); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Millisecond)
			}
		})
		cancelled, err := pawl.Cancel(t.Context(), p.Service, task.ID, "enough")
		stop()
		working.Wait()
		if err != nil || cancelled.State != pawl.TaskCancelled || cancelled.ItemsOpen != 0 {
			t.Fatalf("%s, %d open, %v", cancelled.State, cancelled.ItemsOpen, err)
		}
		from, to, n := span(t, p.Service, task.ID, "cancelled")
		if n != 2000 { // all items but the one that completed, and the task
			t.Errorf("%d events cancelled", n)
		}
		if between, _, _ := spanAfter(t, p.Service, beating.ID, "progressed", from); between == 0 || between > to {
			t.Errorf("nobody wrote between the events %d and %d of the cancel", from, to)
		}
		if beat := need[pawl.Beat](t)(pawl.Heartbeat(t.Context(), p.Service, held[2].Fence())); !beat.Cancelled {
			t.Error("a holder does not learn of the cancel")
		}
	})
}

// A cancel that is interrupted leaves a task that can be cancelled again.
func TestACancelThatIsCutOffIsRepeated(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		cut := false
		for try := 0; try < 10 && !cut; try++ { // the cancel may have ended before the interruption
			task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a", Items: make([]pawl.NewItem, 1500)}))
			ctx, stop := context.WithCancel(t.Context())
			go func() {
				defer stop()
				for ctx.Err() == nil { // until the first batch is committed
					now, err := p.Service.GetTask(ctx, task.ID)
					if err == nil && now.ItemsOpen < 1500 {
						return
					}
				}
			}()
			_, err := pawl.Cancel(ctx, p.Service, task.ID, "")
			now := need[pawl.Task](t)(p.Service.GetTask(t.Context(), task.ID))
			if cut = err != nil && !now.State.Ended() && now.ItemsOpen < 1500; !cut {
				continue
			}
			if breaches := need[[]engine.Breach](t)(p.Engine.Check(t.Context())); len(breaches) > 0 {
				t.Error(breaches)
			}
			if again, err := pawl.Cancel(t.Context(), p.Service, task.ID, ""); err != nil || again.State != pawl.TaskCancelled {
				t.Errorf("again: %s, %v", again.State, err)
			}
		}
		if !cut {
			t.Error("no cancel was cut off")
		}
	})
}

func span(t *testing.T, svc pawl.Service, taskID, event string) (low, high int64, n int) {
	t.Helper()
	return spanAfter(t, svc, taskID, event, 0)
}

// spanAfter returns the numbers of the first and last events of a name after a number,
// and how many there are.
func spanAfter(t *testing.T, svc pawl.Service, taskID, event string, after int64) (low, high int64, n int) {
	t.Helper()
	f := pawl.EventFilter{TaskID: taskID, Event: event, Asc: true, Page: pawl.Page{Limit: pawl.MaxPage}}
	for {
		list := need[pawl.List[pawl.Event]](t)(svc.ListEvents(t.Context(), f))
		for _, ev := range list.Items {
			id, err := strconv.ParseInt(strings.TrimPrefix(ev.ID, "evt_"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			if id <= after {
				continue
			}
			if n++; low == 0 {
				low = id
			}
			high = id
		}
		if f.Cursor = list.Next; f.Cursor == "" {
			return low, high, n
		}
	}
}

// A batch of a large cancel reads the items that it names, not the whole task.
func TestAChangeOfNamedItemsReadsNoOthers(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a", Items: make([]pawl.NewItem, 1000)}))
		items := need[pawl.List[pawl.Item]](t)(p.Service.ListItems(t.Context(), pawl.ItemFilter{TaskID: task.ID, Page: pawl.Page{Limit: 10}}))
		var ids []string
		for _, it := range items.Items {
			ids = append(ids, it.ID)
		}
		for _, verb := range []string{"cancel", "retry"} {
			err := p.Engine.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
				r := &recorder{Tx: tx}
				if _, err := store.Apply(ctx, r, time.Now().UnixMicro(), store.Change{Namespace: task.Namespace, TaskID: task.ID, Verb: verb,
					ItemIDs: ids, Actor: store.Actor{Type: pawl.ActorSystem}}); err != nil {
					return err
				}
				read := 0
				for i, query := range r.queries {
					if !strings.HasPrefix(query, "SELECT w.id") {
						continue
					}
					read++
					lite := p.Database == pawltest.SQLite
					plan, err := explain(ctx, tx, lite, query, r.args[i])
					if err != nil {
						return err
					}
					if all := strings.Join(plan, "\n"); lite && strings.Contains(all, "task_id=?") || !lite && mostRead(plan) > 100 {
						t.Errorf("%s:\n%s\n%s", verb, query, all)
					}
				}
				if read == 0 {
					t.Errorf("%s: no query chose items", verb)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}
