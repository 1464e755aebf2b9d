package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// sendsOne opens an effect for its attempt, or for a gate, and reports it.
func sendsOne(t *testing.T, svc *engine.Engine, l pawl.Lease, key string, seconds int, state pawl.EffectState) pawl.EffectRecord {
	t.Helper()
	call := pawl.OpenEffectCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt, Name: `pay "all" of <it>`, Key: key, RequestHash: "h",
		Repeatable: seconds > 0, LeaseSeconds: seconds}
	out := need[pawl.OpenedEffect](t)(svc.OpenEffect(t.Context(), call))
	if !out.Send || out.State != pawl.EffectOpen || out.Key != key {
		t.Fatalf("the answer is %+v", out)
	}
	f := need[pawl.EffectRecord](t)(svc.GetEffect(t.Context(), out.ID))
	held := time.Duration(0)
	if f.SentUntil != nil {
		held = f.SentUntil.Sub(*f.OpenedAt)
	}
	if held != time.Duration(seconds)*time.Second {
		t.Fatalf("the sender has %v from %v on", f.SentUntil, f.OpenedAt)
	}
	why := pawl.Failure{Code: "c", Message: "m"}
	var err error
	switch state {
	case pawl.EffectDone:
		_, err = svc.EffectDone(t.Context(), out.ID, pawl.EffectDoneCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt,
			Answer: []byte(`{"n":1}`)})
	case pawl.EffectFailed:
		_, err = svc.EffectFailed(t.Context(), out.ID, pawl.EffectFailedCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt, Error: why})
	case pawl.EffectUnknown:
		_, err = svc.EffectUnknown(t.Context(), out.ID, pawl.EffectUnknownCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt,
			Error: &why})
	}
	if err != nil {
		t.Fatal(err)
	}
	return need[pawl.EffectRecord](t)(svc.GetEffect(t.Context(), out.ID))
}

// said is what an effect and its events say, without ids and times.
func said(t *testing.T, p *pawltest.Pawl, f pawl.EffectRecord) string {
	t.Helper()
	var out strings.Builder
	same := strings.NewReplacer(f.ID, "ID", f.Key, "KEY", " ", "", `\u003c`, "<", `\u003e`, ">")
	for _, e := range need[pawl.List[pawl.Event]](t)(p.Engine.ListEvents(t.Context(), pawl.EventFilter{ItemID: f.ItemID, Asc: true})).Items {
		if strings.HasPrefix(e.Event, "effect_") && strings.Contains(string(e.Data), f.ID) {
			fmt.Fprintln(&out, e.Event, e.FromState, e.ToState, e.TaskFrom, e.TaskTo, e.Attempt, e.ActorType, e.ActorID, e.KeyID,
				e.TaskID == f.TaskID, same.Replace(string(e.Data)))
		}
	}
	ended := f.EndedAt != nil && f.OpenedAt != nil && !f.EndedAt.Before(*f.OpenedAt)
	why := f.Error
	f.ID, f.Key, f.Error, f.SentUntil, f.OpenedAt, f.EndedAt, f.CreatedAt = "", "", nil, nil, nil, nil, time.Time{}
	fmt.Fprintf(&out, "%+v %s %+v %v", f, f.Answer, why, ended)
	return out.String()
}

// The one statement that opens or reports an effect leaves the same row and the same events as the statements that decide
// about all calls, which run under an idempotency key.
func TestTheUsualEffectIsWrittenAlike(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "one"}))
		need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "many", Items: []pawl.NewItem{{Key: "x"}, {Key: "y"}}}))
		n := 0
		for _, typ := range []string{"one", "many"} {
			l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{typ}, Limit: 1}, 1)[0]
			for _, seconds := range []int{0, 15} {
				for _, state := range []pawl.EffectState{pawl.EffectDone, pawl.EffectFailed, pawl.EffectUnknown} {
					n++
					quick := sendsOne(t, p.Engine, l, fmt.Sprint("a-", n), seconds, state)
					var long pawl.EffectRecord
					need[pawl.Answer](t)(once(p.Engine.Idempotent(t.Context(), pawl.KeyBegin{Scope: "test", Key: fmt.Sprint(n), RequestHash: "h"},
						func(_ context.Context, svc pawl.Service) (*pawl.Answer, error) {
							long = sendsOne(t, svc.(*engine.Engine), l, fmt.Sprint("b-", n), seconds, state)
							return &pawl.Answer{}, nil
						})))
					if a, b := said(t, p, quick), said(t, p, long); a != b || strings.Count(a, "effect_") < 2 {
						t.Errorf("%s, %d seconds, %s: the statement leaves\n%s\nthe others\n%s", typ, seconds, state, a, b)
					}
				}
			}
			call := pawl.OpenEffectCall{ItemID: l.ID, WorkerID: "w", Attempt: 1, Name: "last", Key: typ, RequestHash: "h"}
			last := need[pawl.OpenedEffect](t)(p.Engine.OpenEffect(t.Context(), call))
			if _, err := pawl.Complete(t.Context(), p.Engine, l.Fence(), nil); pawl.CodeOf(err) != pawl.CodeConflict {
				t.Errorf("completed beside an open effect: %v", err)
			}
			need[pawl.EffectRecord](t)(p.Engine.EffectDone(t.Context(), last.ID, pawl.EffectDoneCall{ItemID: l.ID, WorkerID: "w", Attempt: 1}))
			need[pawl.Moved](t)(pawl.Complete(t.Context(), p.Engine, l.Fence(), nil))
		}
	})
}

func once(answer pawl.Answer, _ bool, err error) (pawl.Answer, error) { return answer, err }

// The statement of the usual call opens nothing for a lease that has ended and that no sweep has seen yet, and decides
// nothing about an effect that is decided.
func TestTheUsualEffectChecksItsClaim(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "pays"}))
		l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: 10}, 1)[0]
		f := sendsOne(t, p.Engine, l, "k", 15, pawl.EffectDone)
		why := pawl.EffectFailedCall{ItemID: l.ID, WorkerID: "w", Attempt: 1, Error: pawl.Failure{Code: "late"}}
		after := need[pawl.EffectRecord](t)(p.Engine.EffectFailed(t.Context(), f.ID, why))
		if after.State != pawl.EffectDone || !after.Contradicts || after.LateReport == nil {
			t.Errorf("a report after the decision: %+v", after)
		}
		p.Advance(11 * time.Second)
		call := pawl.OpenEffectCall{ItemID: l.ID, WorkerID: "w", Attempt: 1, Name: "pay", Key: "next", RequestHash: "h"}
		for _, call.LeaseSeconds = range []int{0, 15} {
			if out, err := p.Engine.OpenEffect(t.Context(), call); pawl.CodeOf(err) != pawl.CodeLeaseLost {
				t.Errorf("opened for a lease that has ended: %+v, %v", out, err)
			}
		}
	})
}

// Each half of the usual call is one statement on PostgreSQL.
func TestTheUsualEffectIsOneStatement(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			var statements atomic.Int64
			p := pawltest.OpenWith(t, which, engine.Options{Statement: func(string) { statements.Add(1) }})
			need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "pays"}))
			l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0]
			sendsOne(t, p.Engine, l, "first", 15, pawl.EffectDone)
			most := map[pawltest.Database]int64{pawltest.SQLite: 3, pawltest.Postgres: 1}[which]
			call := pawl.OpenEffectCall{ItemID: l.ID, WorkerID: "w", Attempt: 1, Name: "pay", Key: "k", RequestHash: "h", LeaseSeconds: 15}
			before := statements.Load()
			out := need[pawl.OpenedEffect](t)(p.Engine.OpenEffect(t.Context(), call))
			opened := statements.Load()
			need[pawl.EffectRecord](t)(p.Engine.EffectDone(t.Context(), out.ID, pawl.EffectDoneCall{ItemID: l.ID, WorkerID: "w", Attempt: 1}))
			if o, r := opened-before, statements.Load()-opened; o > most || r > most {
				t.Errorf("%d statements open an effect and %d report it, want at most %d", o, r, most)
			}
		})
	}
}

// grouped counts the calls that group committers have carried out, by verb.
type grouped struct {
	pawl.Observer
	mu    sync.Mutex
	calls map[string]int
}

func (g *grouped) Committed(verb string, calls int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls[verb] += calls
}

// Calls about effects of several items share transactions, and each has its own answer.
func TestEffectsAreCommittedTogether(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		const n = 20
		for range n {
			need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "pays"}))
		}
		all := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Limit: n}, n)
		seen := &grouped{calls: map[string]int{}}
		p.Engine.Observe(seen)
		var sent [n]pawl.OpenedEffect
		var done [n]pawl.EffectRecord
		var errs [n]error
		var wg sync.WaitGroup
		for i, l := range all {
			wg.Go(func() {
				key := fmt.Sprint("key of ", i/2*2) // two items each
				sent[i], errs[i] = p.Engine.OpenEffect(t.Context(), pawl.OpenEffectCall{ItemID: l.ID, WorkerID: "w", Attempt: 1, Name: "pay",
					Key: key, RequestHash: "h", LeaseSeconds: 15})
				if errs[i] == nil && sent[i].Send {
					done[i], errs[i] = p.Engine.EffectDone(t.Context(), sent[i].ID, pawl.EffectDoneCall{ItemID: l.ID, WorkerID: "w", Attempt: 1,
						Answer: fmt.Append(nil, i)})
				}
			})
		}
		wg.Wait()
		for i := range all {
			f, answer := done[i], fmt.Sprint(i)
			if other := i ^ 1; errs[i] != nil || sent[i].Send == sent[other].Send || sent[i].ID != sent[other].ID {
				t.Errorf("call %d is answered %+v, %v, and call %d of the same key %+v", i, sent[i], errs[i], other, sent[other])
			} else if sent[i].Send && (f.ID != sent[i].ID || f.ItemID != all[i].ID || f.State != pawl.EffectDone || string(f.Answer) != answer) {
				t.Errorf("the report of call %d is answered %+v", i, f)
			}
		}
		if p.Database == pawltest.Postgres && (seen.calls["open_effect"] == 0 || seen.calls["report_effect"] == 0) {
			t.Errorf("group committers have carried out %v", seen.calls)
		}
	})
}
