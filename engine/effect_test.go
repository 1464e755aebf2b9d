package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// till counts what it was paid, by key.
type till struct {
	mu   sync.Mutex
	paid map[string]int
}

func (s *till) pay(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paid[key]++
}

func (s *till) of(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paid[key]
}

// A worker that stops at any point of an effect never pays twice, what it leaves undecided is unknown when
// its lease is gone, and nothing else is.
func TestAStopAtEachPointOfAnEffect(t *testing.T) {
	points := []string{"before the row", "after the row", "after sending", "after the record", "nowhere"}
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		s := &till{paid: map[string]int{}}
		for _, point := range points {
			for n := range 5 {
				task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "pays", MaxAttempts: 9}))
				l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID, LeaseSeconds: 10}, 1)[0]
				id := paysUntil(t, p.Engine, s, l, point)
				p.Advance(11 * time.Second)
				need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
				if point == "nowhere" {
					continue
				}
				if id != "" {
					want := map[string]pawl.EffectState{"after the row": pawl.EffectUnknown, "after sending": pawl.EffectUnknown,
						"after the record": pawl.EffectDone}[point]
					if f := need[pawl.EffectRecord](t)(p.Engine.GetEffect(t.Context(), id)); f.State != want {
						t.Fatalf("%s: the effect is %s, want %s", point, f.State, want)
					}
				}
				l = leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "v", TaskID: task.ID}, 1)[0]
				paysUntil(t, p.Engine, s, l, "nowhere")
				if got := s.of(task.ID); got > 1 || point != "after the row" && got != 1 {
					t.Fatalf("%s, %d: paid %d times", point, n, got)
				}
			}
		}
	})
}

// paysUntil pays once, and stops at a point. It answers the effect. What is unknown is decided by what was paid.
func paysUntil(t *testing.T, svc pawl.Service, s *till, l pawl.Lease, point string) string {
	t.Helper()
	if point == "before the row" {
		return ""
	}
	call := pawl.OpenEffectCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt, Name: "pay", RequestHash: "h"}
	out, err := svc.OpenEffect(t.Context(), call)
	if errors.Is(err, pawl.ErrEffectUnknown) {
		outcome := pawl.DidNotHappen
		if s.of(l.TaskID) > 0 {
			outcome = pawl.Happened
		}
		need[pawl.EffectRecord](t)(svc.ResolveEffect(t.Context(), pawl.EffectOf(err), pawl.ResolveEffectCall{Outcome: outcome}))
		out, err = svc.OpenEffect(t.Context(), call)
	}
	if err != nil {
		t.Fatal(err)
	}
	if point == "after the row" || !out.Send {
		return out.ID
	}
	s.pay(l.TaskID)
	if point == "after sending" {
		return out.ID
	}
	need[pawl.EffectRecord](t)(svc.EffectDone(t.Context(), out.ID, pawl.EffectDoneCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt,
		Answer: []byte("1")}))
	return out.ID
}

// Workers of three engines pay under shared keys, lose their leases at random, and report late, while a
// person decides. No key is paid twice, and budgets have spent what was done.
func TestTheWalkOfEffects(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenReal(t, which, engine.Options{})
			engines := []*engine.Engine{p.Engine, p.Another(engine.Options{}), p.Another(engine.Options{})}
			need[pawl.Budget](t)(p.Engine.PutBudget(t.Context(), "eur", pawl.NewBudget{Unit: "EUR", Limit: 1_000_000, OnLost: pawl.LostReturn}))
			s := &till{paid: map[string]int{}}
			ctx, stop := context.WithTimeout(t.Context(), 4*time.Second)
			defer stop()
			for range 40 {
				need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "pays", MaxAttempts: 1000}))
			}
			var all sync.WaitGroup
			for n := range 6 {
				all.Go(func() { walkEffects(ctx, t, engines[n%3], s, fmt.Sprint("w", n)) })
			}
			all.Wait()
			ended := t.Context()
			need[pawl.SweepStats](t)(p.Engine.Sweep(ended))
			done := int64(0)
			for cursor := ""; ; {
				page := pawl.Page{Limit: 1000, Cursor: cursor}
				list := need[pawl.List[pawl.EffectRecord]](t)(p.Engine.ListEffects(ended, pawl.EffectFilter{Page: page}))
				for _, f := range list.Items {
					got := s.of(f.Key)
					if got > 1 || f.State == pawl.EffectDone && got != 1 || f.State == pawl.EffectFailed && got != 0 {
						t.Errorf("%s is %s, and was paid %d times", f.Key, f.State, got)
					}
					if f.State == pawl.EffectDone {
						done++
					}
				}
				if cursor = list.Next; cursor == "" {
					break
				}
			}
			b := need[pawl.Budget](t)(p.Engine.GetBudget(ended, "eur"))
			if done == 0 || b.Spent != 3*done {
				t.Errorf("%d effects are done, and %d of the budget is spent", done, b.Spent)
			}
		})
	}
}

// walkEffects claims, pays and ends attempts at random until the context ends.
func walkEffects(ctx context.Context, t *testing.T, svc pawl.Service, s *till, worker string) {
	for ctx.Err() == nil {
		list, err := svc.Claim(ctx, pawl.ClaimRequest{WorkerID: worker, LeaseSeconds: 60})
		if err != nil || len(list) == 0 {
			continue
		}
		l := list[0]
		key := fmt.Sprint("k", rand.N(60))
		call := pawl.OpenEffectCall{ItemID: l.ID, WorkerID: worker, Attempt: l.Attempt, Name: "pay", Key: key, RequestHash: "h",
			Budget: "eur", Amount: 3}
		out, err := svc.OpenEffect(ctx, call)
		ended := context.WithoutCancel(ctx)
		if id := pawl.EffectOf(err); errors.Is(err, pawl.ErrEffectUnknown) {
			outcome := pawl.DidNotHappen
			if s.of(key) > 0 {
				outcome = pawl.Happened
			}
			_, _ = svc.ResolveEffect(ended, id, pawl.ResolveEffectCall{Outcome: outcome}) // another may have decided
		}
		if err == nil && out.Send {
			if rand.N(4) > 0 {
				s.pay(key)
			}
			paid := s.of(key) > 0
			report := func() (err error) {
				if paid {
					_, err = svc.EffectDone(ended, out.ID, pawl.EffectDoneCall{ItemID: l.ID, WorkerID: worker, Attempt: l.Attempt, Answer: []byte("1")})
				} else {
					_, err = svc.EffectFailed(ended, out.ID, pawl.EffectFailedCall{ItemID: l.ID, WorkerID: worker, Attempt: l.Attempt,
						Error: pawl.Failure{Message: "no"}})
				}
				return err
			}
			if rand.N(3) > 0 {
				if err := report(); err != nil {
					t.Errorf("report: %v", err)
				}
			}
		}
		_, _ = svc.Release(ended, []pawl.ReleaseCall{{Fence: l.Fence()}})
	}
}

// A task with an unknown effect is kept by retention. A task that was archived has its effects back, and
// in between its keys are not free.
func TestEffectsInTheArchive(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "pays"}))
		l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID}, 1)[0]
		call := pawl.OpenEffectCall{ItemID: l.ID, WorkerID: "w", Attempt: 1, Name: "pay", Key: "order-1", RequestHash: "h"}
		out := need[pawl.OpenedEffect](t)(p.Engine.OpenEffect(t.Context(), call))
		need[pawl.Task](t)(first(p.Engine.CancelTasks(t.Context(), []pawl.TaskCall{{TaskID: task.ID}})))
		gone := func() bool {
			p.Advance(40 * 24 * time.Hour)
			need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
			_, err := p.Engine.GetTask(t.Context(), task.ID)
			return pawl.CodeOf(err) == pawl.CodeNotFound
		}
		if gone() {
			t.Fatal("a task with an unknown effect was removed")
		}
		before := need[pawl.EffectRecord](t)(p.Engine.ResolveEffect(t.Context(), out.ID,
			pawl.ResolveEffectCall{Outcome: pawl.Happened, Answer: []byte(`{"charge":1}`)}))
		if !gone() {
			t.Fatal("a task whose effect is resolved was kept")
		}
		other := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "pays"}))
		l = leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", TaskID: other.ID}, 1)[0]
		call.ItemID, call.Attempt = l.ID, l.Attempt
		_, err := p.Engine.OpenEffect(t.Context(), call)
		if e := (*pawl.Error)(nil); !errors.As(err, &e) || e.Code != pawl.CodeConflict || e.TaskID != task.ID {
			t.Fatalf("the key of a task that is gone: %v", err)
		}
		need[pawl.Task](t)(p.Engine.RestoreArchive(t.Context(), task.ID))
		after := need[pawl.EffectRecord](t)(p.Engine.GetEffect(t.Context(), out.ID))
		if string(after.Answer) != string(before.Answer) || after.State != before.State || after.Key != before.Key {
			t.Errorf("the effect is %+v, and was %+v", after, before)
		}
		again := need[pawl.OpenedEffect](t)(p.Engine.OpenEffect(t.Context(), call))
		if again.Send || string(again.Answer) != `{"charge":1}` {
			t.Errorf("the answer is %+v", again)
		}
	})
}

// A task that has ended is not deleted while a gate sends an effect of it: what becomes of it would be lost.
func TestATaskIsKeptWhileAGateSends(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "pays"}))
		l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID}, 1)[0]
		call := pawl.OpenEffectCall{ItemID: l.ID, WorkerID: "w", Attempt: 1, Name: "pay", RequestHash: "h", LeaseSeconds: 15}
		out := need[pawl.OpenedEffect](t)(p.Engine.OpenEffect(t.Context(), call))
		need[pawl.Moved](t)(pawl.Complete(t.Context(), p.Engine, l.Fence(), nil))
		_, err := first(p.Engine.DeleteTasks(t.Context(), []pawl.TaskCall{{TaskID: task.ID}}))
		if e := (*pawl.Error)(nil); !errors.As(err, &e) || e.Code != pawl.CodeConflict || e.EffectID != out.ID {
			t.Fatalf("deleted while a gate sends: %v", err)
		}
		done := pawl.EffectDoneCall{ItemID: l.ID, WorkerID: "w", Attempt: 1}
		if f := need[pawl.EffectRecord](t)(p.Engine.EffectDone(t.Context(), out.ID, done)); f.State != pawl.EffectDone {
			t.Errorf("the effect is %s", f.State)
		}
		if _, err := first(p.Engine.DeleteTasks(t.Context(), []pawl.TaskCall{{TaskID: task.ID}})); err != nil {
			t.Error(err)
		}
	})
}

// An effect is not opened in a caller's transaction: its right to send would be undone with it, after the effect was sent.
func TestNoEffectIsOpenedInATransaction(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "pays"}))
		l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0]
		tx := beginOwn(t, p)
		_, err := tx.OpenEffect(t.Context(), pawl.OpenEffectCall{ItemID: l.ID, WorkerID: "w", Attempt: 1, Name: "pay", RequestHash: "h"})
		if !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("opened: %v", err)
		}
		tx.rollback()
	})
}

// The API key that opened an effect may not approve it, under any name.
func TestAnAPIKeyApprovesNoEffectOfItsOwn(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "pays"}))
		agent := pawl.As(t.Context(), pawl.Caller{Key: "key_1"})
		l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0]
		out := need[pawl.OpenedEffect](t)(p.Engine.OpenEffect(agent, pawl.OpenEffectCall{ItemID: l.ID, WorkerID: "w", Attempt: 1, Name: "pay",
			RequestHash: "h", Approve: true}))
		approve := func(key string) error {
			boss := pawl.As(t.Context(), pawl.Caller{Key: key, ActorType: pawl.ActorUser, ActorID: "service"})
			_, err := p.Engine.ApproveEffect(boss, out.ID, pawl.EffectDecision{})
			return err
		}
		if err := approve("key_1"); !errors.Is(err, pawl.ErrForbidden) {
			t.Errorf("its own key: %v", err)
		}
		if err := approve("key_2"); err != nil {
			t.Errorf("another key: %v", err)
		}
	})
}

// A call under an idempotency key that asks for more of a budget is rolled back, and its question stays.
func TestAQuestionOfARefusedCallStays(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		need[pawl.Budget](t)(p.Engine.PutBudget(t.Context(), "eur", pawl.NewBudget{Unit: "EUR", Limit: 10, OnExhausted: pawl.ExhaustedAsk}))
		need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "pays"}))
		l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0]
		asked := map[string]bool{}
		for name, call := range map[string]func(ctx context.Context, svc pawl.Service) error{
			"open": func(ctx context.Context, svc pawl.Service) error {
				_, err := svc.OpenEffect(ctx, pawl.OpenEffectCall{ItemID: l.ID, WorkerID: "w", Attempt: 1, Name: "pay", RequestHash: "h",
					Budget: "eur", Amount: 60})
				return err
			},
			"reserve": func(ctx context.Context, svc pawl.Service) error {
				_, err := svc.ReserveBudget(ctx, "eur", pawl.ReserveCall{ItemID: l.ID, WorkerID: "w", Attempt: 1, Amount: 60, Key: "k"})
				return err
			},
		} {
			_, _, err := p.Engine.Idempotent(t.Context(), pawl.KeyBegin{Scope: "test", Key: name, RequestHash: "h"},
				func(ctx context.Context, svc pawl.Service) (*pawl.Answer, error) { return nil, call(ctx, svc) })
			var e *pawl.Error
			if !errors.As(err, &e) || e.Exhausted == nil {
				t.Fatalf("%s: %v", name, err)
			}
			if n := strings.Count(e.Message, "asks for it"); n != 1 {
				t.Errorf("%s: %q", name, e.Message)
			}
			asked[need[pawl.Task](t)(p.Engine.GetTask(t.Context(), e.Exhausted.TaskID)).ID] = true
		}
		if len(asked) != 1 {
			t.Errorf("%d tasks ask", len(asked))
		}
	})
}

// A late report beside the removal of its task is in the archive, or the task stays.
func TestALateReportBesideRetentionIsKept(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "pays"}))
		l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0]
		call := pawl.OpenEffectCall{ItemID: l.ID, WorkerID: "w", Attempt: 1, Name: "pay", RequestHash: "h"}
		out := need[pawl.OpenedEffect](t)(p.Engine.OpenEffect(t.Context(), call))
		need[pawl.EffectRecord](t)(p.Engine.EffectFailed(t.Context(), out.ID, pawl.EffectFailedCall{ItemID: l.ID, WorkerID: "w", Attempt: 1,
			Error: pawl.Failure{Message: "no"}}))
		need[pawl.Moved](t)(pawl.Complete(t.Context(), p.Engine, l.Fence(), nil))
		p.Advance(31 * 24 * time.Hour)
		tx := beginOwn(t, p)
		done := pawl.EffectDoneCall{ItemID: l.ID, WorkerID: "w", Attempt: 1, Answer: []byte("1")}
		need[pawl.EffectRecord](t)(tx.EffectDone(t.Context(), out.ID, done))
		swept := make(chan error, 1)
		go func() {
			_, err := p.Engine.Sweep(context.WithoutCancel(t.Context()))
			swept <- err
		}()
		if p.Database == pawltest.Postgres {
			waitForLock(t, p)
		}
		if err := errors.Join(tx.commit(), <-swept); err != nil {
			t.Fatal(err)
		}
		p.Advance(24 * time.Hour)
		need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
		need[pawl.Task](t)(p.Engine.RestoreArchive(t.Context(), task.ID))
		if f := need[pawl.EffectRecord](t)(p.Engine.GetEffect(t.Context(), out.ID)); f.LateReport == nil || !f.Contradicts {
			t.Errorf("the report is lost: %+v", f)
		}
	})
}

// A report that meets an effect which becomes unknown in that moment is taken, and not to be sent again.
func TestAReportMeetsTheEndOfItsLease(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres) // a transaction of SQLite has no other beside it
	c := pawltest.NewCalls(t, p.Service)
	task := c.Create(pawl.NewTask{Type: "e"})
	l := c.ClaimN(1, pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID})[0]
	out := need[pawl.OpenedEffect](t)(p.Engine.OpenEffect(t.Context(), pawl.OpenEffectCall{ItemID: l.ID, WorkerID: l.WorkerID,
		Attempt: l.Attempt, Name: "pay", RequestHash: "h"}))
	read := 0
	e := p.Another(engine.Options{Statement: func(query string) {
		if strings.Contains(query, ".effects f") {
			if read++; read == 2 { // the transaction has read the effect, and locks nothing yet
				_, err := first(p.Engine.Release(t.Context(), []pawl.ReleaseCall{{Fence: l.Fence()}}))
				c.OK(err)
			}
		}
	}})
	as := pawl.As(t.Context(), pawl.Caller{ActorType: pawl.ActorUser, ActorID: "eve"}) // what workers report is one statement
	f, err := e.EffectDone(as, out.ID, pawl.EffectDoneCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt, Answer: []byte("1")})
	if err != nil || f.State != pawl.EffectDone || read < 4 {
		t.Errorf("the report after %d reads: %+v %v", read, f, err)
	}
}
