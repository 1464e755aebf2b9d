package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// sound checks that no rule is broken while calls are in flight, not only at the end.
func (o typeFixture) sound(when string) {
	o.Helper()
	breaches, err := o.Engine.Check(o.Context())
	o.OK(err)
	for _, b := range breaches {
		o.Errorf("%s: %s: %s: %s", when, b.Rule, b.Subject, b.Found)
	}
}

// Plan and apply items do not count as work: the task's counters count its work items
// only. A retry or bury of a plan or apply item retries or buries its task.
func TestItemsAsideAreAlike(t *testing.T) {
	for _, c := range []struct{ kind, def, again string }{
		{pawl.KindPlan, `{"name":"report","max_attempts":1,"plan":{"mode":"item"},"approval":{"mode":"manual"}}`, "queued"},
		{pawl.KindApply, `{"name":"report","acceptance":true,"apply":{"mode":"item","max_attempts":1}}`, "approved"},
	} {
		t.Run(c.kind, func(t *testing.T) {
			withType(t, c.def, pawl.Hooks{}, func(o typeFixture) {
				other := o.Another(engine.Options{})
				ctx := o.Context()
				task := need[pawl.Task](o.T)(pawl.Create(ctx, o.Engine, pawl.NewTask{Type: "report", Payload: []byte(`1`)}))
				if c.kind == pawl.KindApply {
					o.submit(leases(o.T, o.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0], `1`)
				}
				claim := func() pawl.Lease {
					return leases(o.T, o.Engine, pawl.ClaimRequest{WorkerID: "hand", Types: []string{"report." + c.kind}}, 1)[0]
				}
				o.sound("queued")
				l := claim()
				o.sound("claimed")
				for name, err := range map[string]error{
					"submit": second(first(o.Engine.Submit(ctx, []pawl.SubmitCall{{Fence: l.Fence(), Result: []byte(`1`)}}))),
					"part":   second(first(o.Engine.SubmitParts(ctx, []pawl.PartCall{{Fence: l.Fence(), Key: "a", Payload: []byte(`1`)}}))),
				} {
					if pawl.CodeOf(err) != pawl.CodeConflict {
						o.Errorf("%s of an item aside: %v", name, err)
					}
				}
				failed := func(why string) {
					o.Helper()
					f := o.state(task.ID, pawl.TaskFailed)
					if f.FailedIn != c.kind || f.Error == nil || f.Error.Message != why || f.ItemsOpen != 0 {
						o.Errorf("failed as %q, %+v", f.FailedIn, f.Error)
					}
					o.sound(why)
				}
				no := false
				need[pawl.Moved](o.T)(
					first(other.Fail(ctx, []pawl.FailCall{{Fence: l.Fence(), Error: pawl.Failure{Message: "disk full"}, Retryable: &no}})))
				failed("disk full")

				need[pawl.Task](o.T)(first(o.Engine.RetryTasks(ctx, []pawl.TaskCall{{TaskID: task.ID, ItemIDs: []string{l.ID}}})))
				o.state(task.ID, pawl.TaskState(c.again))
				o.sound("retried by its item")
				l = claim()
				o.Advance(time.Duration(l.LeaseSeconds) * time.Second)
				need[pawl.SweepStats](o.T)(o.Engine.Sweep(ctx))
				failed("Max retries exceeded")

				need[pawl.Task](o.T)(first(o.Engine.BuryTasks(ctx, []pawl.TaskCall{{TaskID: task.ID}})))
				o.state(task.ID, pawl.TaskDeadLettered)
				o.item(l.ID, pawl.ItemDeadLettered)
				o.sound("buried")
				need[pawl.Task](o.T)(pawl.Retry(ctx, o.Engine, task.ID))
				o.state(task.ID, pawl.TaskState(c.again))
				o.sound("retried")
				need[pawl.Task](o.T)(first(o.Engine.CancelTasks(ctx, []pawl.TaskCall{{TaskID: task.ID, ItemIDs: []string{l.ID}}})))
				if c.kind == pawl.KindPlan {
					o.state(task.ID, pawl.TaskCancelled)
				} else {
					o.state(task.ID, pawl.TaskFailed)
				}
				o.sound("cancelled by its item")
			})
		})
	}
}

// count reads a number directly from the database.
func (o typeFixture) count(query string) (n int) {
	o.Helper()
	o.OK(o.Engine.DB().View(o.Context(), func(ctx context.Context, tx store.Tx) error {
		_, err := store.Row(ctx, tx, []any{&n}, query)
		return err
	}))
	return n
}

func second[T any](_ T, err error) error { return err }

// Whatever hooks do, the answer is clear and the state is unchanged.
func TestHooksThatDoHarm(t *testing.T) {
	withType(t, `{"name":"report","plan":{"mode":"go"}}`, pawl.Hooks{Plan: func(_ context.Context, t pawl.NewTask) ([]pawl.NewItem, error) {
		switch string(t.Payload) {
		case `"none"`:
			return nil, nil
		case `"many"`:
			return make([]pawl.NewItem, 100_001), nil
		case `"panic"`:
			panic("half-way")
		case `"invalid"`:
			return nil, pawl.Invalid("/payload", "says nothing")
		}
		return nil, errors.New("no idea")
	}}, func(o typeFixture) {
		for payload, want := range map[string]string{
			`"none"`: "/items is empty", `"many"`: "/items has 100001 items; at most 100000", `"panic"`: "panic: half-way",
			`"invalid"`: "/payload says nothing", `"else"`: "no idea",
		} {
			_, err := pawl.Create(o.Context(), o.Engine, pawl.NewTask{Type: "report", Payload: []byte(payload)})
			told := fmt.Sprint(err)
			for _, f := range pawl.FieldsOf(err) {
				told += " " + f.Pointer + " " + f.Message
			}
			if err == nil || !strings.Contains(told, want) {
				o.Errorf("%s: %s", payload, told)
			}
		}
		if n := need[pawl.Stats](o.T)(o.Engine.Stats(o.Context())).Events; n != 0 {
			o.Errorf("%d events", n)
		}
	})
}

// An apply that panics half-way leaves nothing in its transaction. The approval stays.
func TestAnApplyThatPanicsHalfWay(t *testing.T) {
	withType(
		t,
		`{"name":"report","approval":{"mode":"manual"},"apply":{"mode":"go"}}`,
		pawl.Hooks{Apply: func(ctx context.Context, a pawl.Application) (pawl.Applied, error) {
			if tx, ok := a.Tx.(pgx.Tx); ok {
				_, err := tx.Exec(ctx, "INSERT INTO "+string(a.Task.Payload)+".signals (namespace, name, created_at) VALUES ('default', 'half', 1)")
				if err != nil {
					return pawl.Applied{}, err
				}
			}
			panic("half-way")
		}},
		func(o typeFixture) {
			task := need[pawl.Task](o.T)(pawl.Create(o.Context(), o.Engine,
				pawl.NewTask{Type: "report", Payload: fmt.Appendf(nil, "%q", o.Schema), Items: make([]pawl.NewItem, 2)}))
			ls := leases(o.T, o.Engine, pawl.ClaimRequest{WorkerID: "w", Limit: 2}, 2)
			for _, l := range ls {
				o.submit(l, `1`)
			}
			got := need[pawl.Task](o.T)(first(o.Engine.ApproveTasks(o.Context(), []pawl.ApproveCall{{TaskID: task.ID}})))
			if got.State != pawl.TaskFailed || got.FailedIn != "apply" || !strings.Contains(got.Error.Message, "half-way") {
				o.Errorf("%s in %q: %+v", got.State, got.FailedIn, got.Error)
			}
			for _, l := range ls {
				o.item(l.ID, pawl.ItemAccepted)
			}
			if n := o.count("SELECT COUNT(*) FROM pawl.signals"); n != 0 {
				o.Errorf("%d rows are left of it", n)
			}
			if got := o.events(task.ID); strings.Contains(got, "applied") || strings.Count(got, "approved") != 1 {
				o.Error(got)
			}
		},
	)
}

// A part stores the hash of the key under which it was handed in.
func TestAPartKnowsItsKey(t *testing.T) {
	withType(t, `{"name":"report","parts":[{"key":"head"}],"approval":{"mode":"manual"}}`, pawl.Hooks{}, func(o typeFixture) {
		_, ls := o.task(1)
		put := func(ctx context.Context, svc pawl.Service) error {
			return second(first(svc.SubmitParts(ctx, []pawl.PartCall{{Fence: ls[0].Fence(), Key: "head", Payload: []byte(`1`)}})))
		}
		_, _, err := o.Engine.Idempotent(o.Context(), pawl.KeyBegin{Scope: "s", Key: "k", RequestHash: "h"},
			func(ctx context.Context, svc pawl.Service) (*pawl.Answer, error) {
				return &pawl.Answer{Code: 201}, put(ctx, svc)
			})
		o.OK(err)
		n := o.count("SELECT COUNT(*) FROM pawl.item_parts p JOIN pawl.idempotency_keys k ON k.key_hash = p.idempotency_key_hash")
		if n != 1 {
			o.Errorf("%d parts know their key", n)
		}
	})
}

// If all work items of an approved task are cancelled one by one, the task and its apply
// item are cancelled too: nothing is left to apply.
func TestNothingIsAppliedOfATaskWithoutItems(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		svc, ctx := p.Service, t.Context()
		need[pawl.TypeRef](t)(
			first(svc.PutTypes(ctx, []pawl.Type{{Name: "report", Acceptance: true, Apply: pawl.Apply{Mode: pawl.ApplyItem, MaxAttempts: 1}}})))
		for _, n := range []int{1, 2} {
			for _, at := range []string{"queued", "leased", "failed"} {
				task := need[pawl.Task](t)(pawl.Create(ctx, svc, pawl.NewTask{Type: "report", Items: items(n)}))
				work := leases(t, svc, pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID}, n)
				for _, l := range work {
					need[pawl.Moved](t)(first(svc.Submit(ctx, []pawl.SubmitCall{{Fence: l.Fence(), Result: []byte(`1`)}})))
				}
				if at != "queued" {
					apply := leases(t, svc, pawl.ClaimRequest{WorkerID: "w", Types: []string{"report.apply"}}, 1)[0]
					if at == "failed" {
						if err := ruin(svc, apply.Fence()); err != nil {
							t.Fatal(err)
						}
					}
				}
				for _, l := range work {
					if err := cancelTask(svc, task.ID, l.ID); err != nil {
						t.Fatal(err)
					}
				}
				if got := states(t, svc, task.ID); strings.Count(got, "cancelled") != n+2 {
					t.Errorf("%d items, apply %s: %s", n, at, got)
				}
			}
		}
	})
}

// A retry of a task whose apply item was cancelled makes another apply item. A retry of a
// task whose plan item was cancelled cancels the task. Both used to fail again on every
// retry.
func TestARetryWithoutTheItemAside(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		svc, ctx := p.Service, t.Context()
		need[pawl.TypeRef](t)(first(svc.PutTypes(ctx, []pawl.Type{{Name: "report", Acceptance: true, Apply: pawl.Apply{Mode: pawl.ApplyItem}}})))
		need[pawl.TypeRef](t)(first(svc.PutTypes(ctx, []pawl.Type{{Name: "outline", Plan: pawl.Plan{Mode: pawl.PlanItem}}})))
		for _, typ := range []string{"report.apply", "outline.plan"} {
			name, kind, _ := strings.Cut(typ, ".")
			task := need[pawl.Task](t)(pawl.Create(ctx, svc, pawl.NewTask{Type: name}))
			if kind == pawl.KindApply {
				l := leases(t, svc, pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID}, 1)[0]
				need[pawl.Moved](t)(first(svc.Submit(ctx, []pawl.SubmitCall{{Fence: l.Fence(), Result: []byte(`1`)}})))
			}
			aside := func() pawl.Fence {
				return leases(t, svc, pawl.ClaimRequest{WorkerID: "w", Types: []string{typ}}, 1)[0].Fence()
			}
			f := aside()
			if err := ruin(svc, f); err != nil {
				t.Fatal(err)
			}
			if err := cancelTask(svc, task.ID, f.ItemID); err != nil {
				t.Fatal(err)
			}
			retried := need[pawl.Task](t)(pawl.Retry(ctx, svc, task.ID))
			if kind == pawl.KindPlan {
				if retried.State != pawl.TaskCancelled {
					t.Error(states(t, svc, task.ID))
				}
				continue
			}
			need[pawl.Moved](t)(first(svc.Complete(ctx, []pawl.CompleteCall{{Fence: aside(), Result: []byte(`{"result":1}`)}})))
			if got := states(t, svc, task.ID); got != "completed completed cancelled completed" {
				t.Error(got)
			}
		}
	})
}

// If a plan item is buried before its task has recorded the failure, the task fails and
// can be retried. It used to be cancelled.
func TestAPlanItemBuriedAtOnce(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		svc, ctx := p.Service, t.Context()
		need[pawl.TypeRef](t)(first(svc.PutTypes(ctx, []pawl.Type{{Name: "outline", Plan: pawl.Plan{Mode: pawl.PlanItem}}})))
		task := need[pawl.Task](t)(pawl.Create(ctx, svc, pawl.NewTask{Type: "outline"}))
		plan := leases(t, svc, pawl.ClaimRequest{WorkerID: "w", Types: []string{"outline.plan"}}, 1)[0].Fence()
		if err := ruin(svc, plan); err != nil {
			t.Fatal(err)
		}
		for _, query := range []string{ // the state between the two transactions
			"UPDATE pawl.task_counters SET state = 'open', failed_in = NULL, error = NULL, completed_at = NULL, version = 0, todo = 1",
			"INSERT INTO pawl.retention_gate VALUES ('test')",
			"DELETE FROM pawl.task_events WHERE move IN (SELECT code FROM pawl.moves WHERE class = 'task' AND event = 'failed')",
			"DELETE FROM pawl.retention_gate",
		} {
			if err := p.Exec(query); err != nil {
				t.Fatal(query, err)
			}
		}
		buried := need[pawl.Task](t)(first(svc.BuryTasks(ctx, []pawl.TaskCall{{TaskID: task.ID, ItemIDs: []string{plan.ItemID}}})))
		if buried.State != pawl.TaskFailed || buried.FailedIn != pawl.KindPlan {
			t.Errorf("%s, failed in %q", buried.State, buried.FailedIn)
		}
		if again := need[pawl.Task](t)(pawl.Retry(ctx, svc, task.ID)); again.State != pawl.TaskQueued {
			t.Error(again.State)
		}
	})
}

// A plan or apply item goes on with its message when it is retried, also after it was dead-lettered.
func TestAnItemAsideGoesOnWithItsMessage(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		svc, ctx := p.Service, t.Context()
		need[pawl.TypeRef](t)(first(svc.PutTypes(ctx, []pawl.Type{{Name: "report", Acceptance: true, Apply: pawl.Apply{Mode: pawl.ApplyItem}}})))
		need[pawl.TypeRef](t)(first(svc.PutTypes(ctx, []pawl.Type{{Name: "outline", Plan: pawl.Plan{Mode: pawl.PlanItem}}})))
		for _, typ := range []string{"report.apply", "outline.plan"} {
			name, kind, _ := strings.Cut(typ, ".")
			task := p.Create(pawl.NewTask{Type: name})
			if kind == pawl.KindApply {
				need[pawl.Moved](t)(first(svc.Submit(ctx, []pawl.SubmitCall{{Fence: p.Claim(name).Fence(), Result: []byte(`1`)}})))
			}
			l := p.Claim(typ)
			m := need[pawl.Message](t)(first(svc.StartMessages(ctx, []pawl.StartCall{{Fence: l.Fence(), Role: "assistant"}})))
			for _, buried := range []bool{false, true} {
				ok(t, ruin(svc, l.Fence()))
				if buried {
					need[pawl.Task](t)(first(svc.BuryTasks(ctx, []pawl.TaskCall{{TaskID: task.ID}})))
				}
				need[pawl.Task](t)(pawl.Retry(ctx, svc, task.ID))
				if l = p.Claim(typ); l.OpenMessage == nil || l.OpenMessage.ID != m.ID {
					t.Errorf("%s, buried %v: the retried item has the open message %+v", typ, buried, l.OpenMessage)
				}
			}
			if l.OpenMessage != nil {
				say(t, svc, l, 0, "on")
			}
		}
	})
}
