package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/relocate"
)

// eachScope runs a test of a whole database and of a namespace, each with one pair of databases. PAWL_TORTURE=1 takes
// all pairs.
func eachScope(t *testing.T, fn func(t *testing.T, from, to *pawltest.Pawl, namespace string)) {
	t.Parallel()
	short := map[string]pawltest.Database{"": pawltest.SQLite, pawl.DefaultNamespace: pawltest.Postgres}
	for _, namespace := range []string{"", pawl.DefaultNamespace} {
		t.Run("of namespace "+namespace, func(t *testing.T) {
			t.Parallel()
			runs := func(from, to pawltest.Database) bool {
				return times(1, 4) == 4 || from == short[namespace] && to != from
			}
			someMoves(t, runs, func(t *testing.T, from, to *pawltest.Pawl) {
				to.Advance(from.Now().Sub(to.Now()))
				fn(t, from, to, namespace)
			})
		})
	}
}

// work makes tasks, and claims one of them.
func work(t *testing.T, p *pawltest.Pawl) (made []string, l pawl.Lease) {
	t.Helper()
	for i := range 10 {
		task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "work", Payload: json.RawMessage(fmt.Sprint(i))}))
		made = append(made, task.ID)
	}
	return made, leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"work"}, LeaseSeconds: 3600}, 1)[0]
}

// there fails for tasks that are missing, and completes under a lease.
func there(t *testing.T, p *pawltest.Pawl, made []string, l pawl.Lease) {
	t.Helper()
	for _, id := range made {
		if _, err := p.Service.GetTask(t.Context(), id); err != nil {
			t.Errorf("the task %s: %v", id, err)
		}
	}
	if _, err := first(p.Service.Complete(t.Context(), []pawl.CompleteCall{{Fence: l.Fence()}})); err != nil {
		t.Errorf("complete: %v", err)
	}
	soundLog(t, p)
}

// A move is cancelled while its mover is in a step. The source acts at once, the mover writes nothing any more, and what
// was copied is never taken for the whole.
func TestACancelledMoveLeavesTheSource(t *testing.T) {
	eachScope(t, func(t *testing.T, from, to *pawltest.Pawl, namespace string) {
		made, l := work(t, from)
		other, target := from.Another(engine.Options{}), to.Another(engine.Options{})
		steps := []string{"copied tasks", "verified"}
		if namespace == "" {
			steps = steps[1:] // a target that has a part is not sound, and every database of a test is examined
		}
		for _, step := range steps {
			_, err := from.Engine.Relocate(t.Context(), to.Engine, engine.Move{Namespace: namespace, Step: func(name string) {
				if name == step {
					need[relocate.Cancelled](t)(other.CancelMove(t.Context(), nil, engine.Move{Namespace: namespace}))
				}
			}})
			if pawl.CodeOf(err) != pawl.CodeConflict {
				t.Fatalf("the mover of a cancelled move: %v", err)
			}
			if !acts(t, from) || acts(t, to) {
				t.Fatalf("after %s the source acts: %v, the target: %v", step, acts(t, from), acts(t, to))
			}
			if _, err := from.Engine.Relocate(t.Context(), to.Engine, engine.Move{Namespace: namespace}); pawl.CodeOf(err) != pawl.CodeConflict {
				t.Errorf("a move that goes on after it was cancelled: %v", err)
			}
			if _, err := other.CancelMove(t.Context(), nil, engine.Move{Namespace: namespace}); !errors.Is(err, pawl.ErrNotFound) {
				t.Errorf("a second cancel: %v", err)
			}
			if namespace == "" {
				if err := to.Engine.ForgetMoves(t.Context()); err != nil {
					t.Fatal(err)
				}
				to = pawltest.OpenNew(t, to.Database, withKey(t))
				to.Advance(from.Now().Sub(to.Now()))
				target = to.Another(engine.Options{})
				continue
			}
			out := need[relocate.Cancelled](t)(other.CancelMove(t.Context(), target, engine.Move{Namespace: namespace}))
			if !out.Cleared {
				t.Errorf("the target was not cleared: %+v", out)
			}
			for table, n := range countsOf(t, to, namespace) {
				if n > 0 && table != "queues" {
					t.Errorf("the target has %d rows in %s still", n, table)
				}
			}
			soundLog(t, to)
		}
		moveAll(t, from, to, engine.Move{Namespace: namespace})
		if _, err := other.CancelMove(t.Context(), nil, engine.Move{Namespace: namespace}); pawl.CodeOf(err) != pawl.CodeConflict {
			t.Errorf("a cancel after the switch: %v", err)
		}
		if acts(t, from) || !acts(t, to) {
			t.Errorf("after the switch the source acts: %v, the target: %v", acts(t, from), acts(t, to))
		}
		there(t, to, made, l)
	})
}

// A second mover goes on where the first one is, and the first one writes nothing any more.
func TestASecondMoverTakesOver(t *testing.T) {
	eachScope(t, func(t *testing.T, from, to *pawltest.Pawl, namespace string) {
		made, l := work(t, from)
		source, target := from.Another(engine.Options{}), to.Another(engine.Options{})
		for _, step := range []string{"copied tasks", "verified"} {
			_, err := from.Engine.Relocate(t.Context(), to.Engine, engine.Move{Namespace: namespace, Step: func(name string) {
				if name != step {
					return
				}
				m := engine.Move{Namespace: namespace}
				if step == "copied tasks" { // the second one dies
					m.Step = func(name string) {
						if name == "copied items" {
							panic(diedAt(name))
						}
					}
				}
				dies(func() { need[relocate.Result](t)(source.Relocate(t.Context(), target, m)) })
			}})
			if pawl.CodeOf(err) != pawl.CodeConflict {
				t.Fatalf("the first mover: %v", err)
			}
		}
		if acts(t, from) || !acts(t, to) {
			t.Errorf("the source acts: %v, the target: %v", acts(t, from), acts(t, to))
		}
		there(t, to, made, l)
	})
}

// Two movers that begin at the same time make one move: one that was refused is run again.
func TestTwoMoversMakeOneMove(t *testing.T) {
	eachScope(t, func(t *testing.T, from, to *pawltest.Pawl, namespace string) {
		made, l := work(t, from)
		movers := [][2]*engine.Engine{{from.Engine, to.Engine}, {from.Another(engine.Options{}), to.Another(engine.Options{})}}
		done := false
		for range 10 {
			var errs [2]error
			var running sync.WaitGroup
			for i, m := range movers {
				running.Go(func() { _, errs[i] = m[0].Relocate(t.Context(), m[1], engine.Move{Namespace: namespace}) })
			}
			running.Wait()
			if acts(t, from) && acts(t, to) {
				t.Fatal("both databases act")
			}
			if done = errs[0] == nil || errs[1] == nil; done {
				break
			}
		}
		if !done {
			t.Error("no mover ended the move")
		}
		if err := to.Engine.LookForMoves(t.Context()); err != nil { // the other engine may have ended it
			t.Fatal(err)
		}
		there(t, to, made, l)
	})
}

// A namespace that has left comes back, with its keys.
func TestANamespaceComesBack(t *testing.T) {
	t.Parallel()
	runs := func(from, to pawltest.Database) bool {
		return times(1, 4) == 4 || from == pawltest.Postgres && to == pawltest.SQLite
	}
	someMoves(t, runs, func(t *testing.T, from, to *pawltest.Pawl) {
		to.Advance(from.Now().Sub(to.Now()))
		made, l := work(t, from)
		if _, _, err := from.Engine.CreateAPIKey(t.Context(), pawl.NewAPIKey{Name: "k", Roles: []string{"reader"}}); err != nil {
			t.Fatal(err)
		}
		moveAll(t, from, to, engine.Move{Namespace: pawl.DefaultNamespace})
		moveAll(t, to, from, engine.Move{Namespace: pawl.DefaultNamespace})
		if !acts(t, from) || acts(t, to) {
			t.Errorf("the source acts: %v, the target: %v", acts(t, from), acts(t, to))
		}
		if keys := need[[]pawl.APIKey](t)(from.Engine.ListAPIKeys(t.Context())); len(keys) != 1 {
			t.Errorf("%d keys are back", len(keys))
		}
		there(t, from, made, l)
		moveAll(t, from, to, engine.Move{Namespace: pawl.DefaultNamespace})
		if acts(t, from) || !acts(t, to) {
			t.Errorf("the source acts: %v, the target: %v", acts(t, from), acts(t, to))
		}
	})
}

// A move of a namespace notes its own changes and no others: while others write without a pause, it would not end.
func TestAMoveNotesTheChangesOfItsNamespace(t *testing.T) {
	t.Parallel()
	runs := func(from, to pawltest.Database) bool { return from != to || times(1, 4) == 4 }
	someMoves(t, runs, func(t *testing.T, from, to *pawltest.Pawl) {
		to.Advance(from.Now().Sub(to.Now()))
		work(t, from)
		noted := func() (n int64) {
			ok(t, from.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) error {
				_, err := store.Row(ctx, tx, []any{&n}, "SELECT COUNT(*) FROM pawl.relocation_changes")
				return err
			}))
			return n
		}
		asked := false
		moveAll(t, from, to, engine.Move{Namespace: pawl.DefaultNamespace, Step: func(name string) {
			if asked || name != "copied tasks" {
				return
			}
			asked = true
			before := noted()
			need[pawl.Task](t)(pawl.Create(pawl.As(t.Context(), pawl.Caller{Namespace: "other"}), from.Service, pawl.NewTask{Type: "work"}))
			if after := noted(); after != before {
				t.Errorf("%d changes of another namespace were noted", after-before)
			}
			need[pawl.Task](t)(pawl.Create(t.Context(), from.Service, pawl.NewTask{Type: "work"}))
			if noted() == before {
				t.Error("no change was noted")
			}
		}})
		if !asked {
			t.Error("the move had no such step")
		}
	})
}
