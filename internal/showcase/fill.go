package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/store"
)

// history is how long ago the work began.
const history = 24 * time.Hour

// step is how much time passes at once: less, the nearer the present is.
func step(behind time.Duration) time.Duration {
	switch {
	case behind > 2*time.Hour:
		return 30 * time.Minute
	case behind > time.Hour:
		return 10 * time.Minute
	}
	return 2 * time.Minute
}

// filler fills a database. The first error stays, and ends all that follows.
type filler struct {
	context.Context
	*engine.Engine
	db    store.DB // the same database: an engine that does not run stores no backlog
	clock *past
	rand  *rand.Rand
	shown map[string]string
	err   error
}

// fill fills an empty database with a day of work, and returns the ids to show.
func fill(ctx context.Context, eng *engine.Engine, db store.DB, clock *past) (map[string]string, error) {
	f := &filler{Context: ctx, Engine: eng, db: db, clock: clock, rand: rand.New(rand.NewPCG(7, 7)), shown: map[string]string{}}
	f.settings()
	f.day(map[time.Duration]func(){
		100 * time.Minute: f.deadLetters, 50 * time.Minute: f.failures, 40 * time.Minute: f.waiting, 30 * time.Minute: f.approvals,
	})
	f.at(12 * time.Minute)
	f.research()
	f.backlog()
	f.at(2 * time.Minute)
	f.conversation()
	f.at(0)
	f.workers("w-report-1", "w-report-2", "w-tickets-1", "w-pages-1")
	return f.shown, f.err
}

// check keeps the first error.
func (f *filler) check(err error) {
	if f.err == nil && err != nil {
		f.err = err
	}
}

// only keeps the error of a batch of one, and returns its value.
func only[T any](f *filler) func([]pawl.Result[T], error) T {
	return func(rs []pawl.Result[T], err error) (v T) {
		if err == nil && len(rs) == 1 {
			v, err = rs[0].Value, rs[0].Err
		}
		f.check(err)
		return v
	}
}

func asJSON(format string, args ...any) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(format, args...))
}

func (f *filler) create(n pawl.NewTask) pawl.Task {
	if f.err != nil {
		return pawl.Task{}
	}
	return only[pawl.Task](f)(f.CreateTasks(f, []pawl.NewTask{n}))
}

// claim claims an item; ok is false if there is none.
func (f *filler) claim(worker, typ string, seconds int) (l pawl.Lease, ok bool) {
	if f.err != nil {
		return l, false
	}
	ls, err := f.Claim(f, pawl.ClaimRequest{WorkerID: worker, Types: []string{typ}, LeaseSeconds: seconds})
	f.check(err)
	if len(ls) == 0 {
		return l, false
	}
	return ls[0], true
}

func (f *filler) complete(l pawl.Lease, result json.RawMessage) {
	only[pawl.Moved](f)(f.Complete(f, []pawl.CompleteCall{{Fence: l.Fence(), Result: result}}))
}

func (f *filler) fail(l pawl.Lease, retry bool, code, message string) {
	only[pawl.Moved](f)(f.Fail(f, []pawl.FailCall{{Fence: l.Fence(), Retryable: &retry,
		Error: pawl.Failure{Code: code, Message: message, Detail: asJSON(`{"attempt":%d,"host":"invoices.internal"}`, l.Attempt)}}}))
}

// at lets time pass until it is a time ago. It never goes back.
func (f *filler) at(behind time.Duration) {
	f.clock.set(min(behind, time.Duration(f.clock.behind.Load())))
}

// pass lets time pass, to a time ago.
func (f *filler) pass(d time.Duration) { f.clock.behind.Add(-int64(d)) }

// workers registers workers with the types of their name.
func (f *filler) workers(ids ...string) {
	for _, id := range ids {
		types := map[byte][]string{'r': {"summarise-report"}, 't': {"classify-ticket", "render-invoice"}, 'p': {"edit-page", "answer"},
			'b': {"summarise-report"}}[id[2]]
		f.check(f.RegisterWorker(f, pawl.WorkerInfo{WorkerID: id, Name: "pawl-workers", Version: "1.4.2", Types: types}))
	}
}

// settings makes types, limits, budgets, schedules and API keys.
func (f *filler) settings() {
	schema := asJSON(`{"type":"object","required":["summary"],"properties":{"summary":{"type":"string"},"sources":{"type":"array"}}}`)
	rs, err := f.PutTypes(f, []pawl.Type{
		{Name: "summarise-report", Description: "Reads a report and writes a summary with its sources.", ResultSchema: schema, LeaseSeconds: 120},
		{Name: "edit-page", Description: "Proposes a change of a page. A person decides.", EvidenceRequired: true,
			Approval: pawl.Approval{Mode: pawl.ApprovalManual}, Apply: pawl.Apply{Mode: pawl.ApplyItem}},
		{Name: "classify-ticket", Description: "Sorts a support ticket into a team's queue.", MaxAttempts: 2},
	})
	f.check(err)
	for _, r := range rs {
		f.check(r.Err)
	}
	for typ, patch := range map[string]string{
		"summarise-report": `{"concurrency":8,"per_worker":4,"rate":{"limit":60,"seconds":60,"burst":10}}`,
		"classify-ticket":  `{"per_key":{"pointer":"/customer","concurrency":2,"weights":{"acme":3}}}`,
	} {
		_, err := f.SetQueue(f, typ, pawl.QueuePatch(patch))
		f.check(err)
	}
	for name, b := range map[string]pawl.NewBudget{
		"models":      {Unit: "usd_micro", Limit: 80_000_000, Period: pawl.PeriodMonth, OnExhausted: pawl.ExhaustedAsk},
		"searches":    {Unit: "requests", Limit: 2000, Period: pawl.PeriodMonth, OnExhausted: pawl.ExhaustedSuspend},
		"translation": {Unit: "characters", Limit: 1_000_000, AppliesTo: &pawl.BudgetScope{Type: "translate-page"}},
	} {
		_, err := f.PutBudget(f, name, b)
		f.check(err)
	}
	for _, s := range []pawl.NewSchedule{
		{Name: "nightly-digest", Cron: "30 3 * * *", Zone: "Europe/Berlin",
			Task: pawl.NewTask{Type: "summarise-report", Title: "Nightly digest"}},
		{Name: "sync-tickets", EverySeconds: 1800, Task: pawl.NewTask{Type: "classify-ticket", Title: "New tickets"}, CatchUp: pawl.CatchUpLast},
		{Name: "month-end-invoices", Cron: "0 6 1 * *", Task: pawl.NewTask{Type: "render-invoice", Title: "Invoices of the month"},
			Overlap: pawl.OverlapQueue},
	} {
		_, err := f.CreateSchedule(f, s)
		f.check(err)
	}
	_, err = f.PauseSchedule(f, "month-end-invoices")
	f.check(err)
	for _, k := range []pawl.NewAPIKey{
		{Name: "ann", Roles: []string{"reader", "operator", "approver"}, ActorType: pawl.ActorUser, ActorID: "ann"},
		{Name: "report workers", Roles: []string{"claimer"}, Rate: 200},
		{Name: "web shop", Roles: []string{"submitter", "reader"}},
	} {
		_, _, err := f.CreateAPIKey(f, k)
		f.check(err)
	}
}

// day does the work of a day, and other things at their time.
func (f *filler) day(others map[time.Duration]func()) {
	for behind := history; behind >= 20*time.Minute && f.err == nil; behind -= step(behind) {
		f.at(behind)
		for range 1 + int(2*(1+math.Sin(behind.Hours()/4))) + f.rand.IntN(2) {
			f.create(pawl.NewTask{Type: "summarise-report", Title: fmt.Sprintf("Report %d", 1000+f.rand.IntN(9000)),
				Payload: asJSON(`{"report":%d}`, f.rand.IntN(9000))})
			f.create(pawl.NewTask{Type: "classify-ticket", Title: fmt.Sprintf("Ticket %d", 20000+f.rand.IntN(9000)),
				Payload: asJSON(`{"customer":"%s"}`, []string{"acme", "globex", "initech"}[f.rand.IntN(3)])})
		}
		f.pass(time.Duration(20+f.rand.IntN(90)) * time.Second)
		f.backlog()
		f.work("w-report-1", "summarise-report")
		f.work("w-tickets-1", "classify-ticket")
		if f.err == nil {
			_, err := f.Sweep(f)
			f.check(err)
		}
		if other := others[behind]; other != nil {
			other()
		}
	}
}

// backlog stores what is in the queues now.
func (f *filler) backlog() {
	minute := f.clock.now().Unix()/60 - 1
	f.check(store.KeepBacklog(f, f.db, minute))
}

// work does all the queued work of a type. A tenth of it fails at first.
func (f *filler) work(worker, typ string) {
	for {
		l, ok := f.claim(worker, typ, 120)
		if !ok {
			return
		}
		f.spend(l)
		f.pass(time.Duration(1+f.rand.IntN(3)) * time.Second)
		if l.Attempt == 1 && f.rand.IntN(10) == 0 {
			f.fail(l, true, "model_overloaded", "the model did not answer within 30 s")
			continue
		}
		f.complete(l, asJSON(`{"summary":"Sales rose by %d %%.","sources":[]}`, f.rand.IntN(30)))
	}
}

// spend spends something of two budgets.
func (f *filler) spend(l pawl.Lease) {
	for budget, amount := range map[string]int64{"models": 20_000 + f.rand.Int64N(60_000), "searches": 1} {
		model, agent := []string{"large-2", "small-2"}[f.rand.IntN(2)], []string{"scribe", "clerk"}[f.rand.IntN(2)]
		r, err := f.ReserveBudget(f, budget, pawl.ReserveCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt,
			Amount: amount, Key: fmt.Sprintf("step-%d", l.Attempt), Model: model, AgentID: agent})
		if pawl.CodeOf(err) == pawl.CodeBudgetExhausted {
			continue
		}
		f.check(err)
		if err == nil {
			_, err = f.SettleBudget(f, budget, pawl.SettleCall{Reservation: r.Reservation, Amount: amount, ItemID: l.ID, WorkerID: l.WorkerID,
				Attempt: l.Attempt})
			f.check(err)
		}
	}
}
