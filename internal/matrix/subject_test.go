package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// subject is the task of one cell, and the database that has nothing else.
type subject struct {
	testing.TB
	p      *pawltest.Pawl
	svc    pawl.Service
	ctx    context.Context // of workers
	user   context.Context // of people
	judge  context.Context // of another person, who may approve
	typ    string
	task   pawl.Task
	judged bool                         // its items are submitted and approved
	parent pawl.Lease                   // the item that waits for the task
	create func(pawl.NewTask) pawl.Task // nil = the task is created
	blobs  []string
	kept   map[string]json.RawMessage // everything before it was archived
}

// broken is what must and all panic with: cell reports it.
type broken struct {
	err   error
	stack []byte
}

// reported is deferred: it reports what broke.
func reported(t testing.TB) {
	switch r := recover().(type) {
	case nil:
	case broken:
		t.Errorf("%v\n%s", r.err, r.stack)
	default:
		panic(r)
	}
}

// must returns what a call answered, or ends the cell.
func must[T any](v T, err error) T {
	if err != nil {
		panic(broken{err, debug.Stack()})
	}
	return v
}

// all is must for a batch.
func all[T any](rs []pawl.Result[T], err error) (out []T) {
	for _, r := range rs {
		err = errors.Join(err, r.Err)
		out = append(out, r.Value)
	}
	return must(out, err)
}

func exhausted(s *subject, err error) pawl.Exhausted {
	s.Helper()
	var e *pawl.Error
	if !errors.As(err, &e) || e.Code != pawl.CodeBudgetExhausted {
		s.Fatalf("reserve above the limit: %v", err)
	}
	return *e.Exhausted
}

// newSubject makes a task with what the rooms leave, each room by the worker of an item of its own: item k0 has the
// first room, k1 the second one.
func newSubject(t testing.TB, which pawltest.Database, rooms ...room) *subject {
	t.Helper()
	s := newDatabase(t, which)
	s.make(rooms...)
	return s
}

// newDatabase is a subject without a task.
func newDatabase(t testing.TB, which pawltest.Database) *subject {
	t.Helper()
	o := engine.Options{TransparencyLog: engine.LogOptions{Key: filepath.Join(t.TempDir(), "key")}}
	return newSubjectIn(t, pawltest.OpenWith(t, which, o))
}

// newSubjectIn is a subject without a task, in a database that is open.
func newSubjectIn(t testing.TB, p *pawltest.Pawl) *subject {
	s := &subject{TB: t, p: p, svc: p.Service, ctx: t.Context(), typ: subjectType}
	s.user = pawl.As(t.Context(), pawl.Caller{ActorType: pawl.ActorUser, ActorID: "ann"})
	s.judge = pawl.As(t.Context(), pawl.Caller{ActorType: pawl.ActorUser, ActorID: "eve"})
	return s
}

// make makes the task, and leaves on it what the rooms leave.
func (s *subject) make(rooms ...room) {
	s.Helper()
	n := pawl.NewTask{Type: s.typ, Title: "subject", Metadata: raw(`{"a":1}`), MaxAttempts: 20,
		RequestedBy: &pawl.Requester{Type: "user", ID: "bob"}}
	for k := range max(2, len(rooms)) {
		n.Items = append(n.Items, pawl.NewItem{Key: fmt.Sprint("k", k), Input: fmt.Append(nil, k)})
	}
	for _, r := range rooms {
		if r.setup != nil {
			r.setup(s)
		}
		if r.new != nil {
			r.new(s, &n)
		}
	}
	if s.create != nil {
		s.task = s.create(n)
	} else {
		s.task = must(pawl.Create(s.user, s.svc, n))
	}
	leases := s.claim(pawl.ClaimRequest{TaskID: s.task.ID}, max(2, len(rooms)))
	slices.SortFunc(leases, func(a, b pawl.Lease) int { return strings.Compare(a.Key, b.Key) })
	for k, r := range rooms {
		if r.fill != nil {
			r.fill(s, leases[k])
		}
	}
}

// claim claims n items for an hour.
func (s *subject) claim(req pawl.ClaimRequest, n int) []pawl.Lease {
	s.Helper()
	req.WorkerID, req.Limit, req.LeaseSeconds = "w", max(n, 1), 3600
	req.Provenance = &pawl.Provenance{AgentID: "agent", Model: "m"}
	leases := must(s.svc.Claim(s.ctx, req))
	if n > 0 && len(leases) != n {
		s.Fatalf("claimed %d of %d items", len(leases), n)
	}
	return leases
}

// passes is how often drive looks for something to do: each pass moves the clock by six hours when there was nothing.
const passes = 60

// drive does what workers, people and the clock do until each task has ended: nothing may wait for ever.
func (s *subject) drive() {
	s.Helper()
	for range passes {
		s.sweep()
		did := s.work() + s.decide()
		if did > 0 {
			continue
		}
		if len(s.alive()) == 0 {
			return
		}
		s.p.Advance(6 * time.Hour)
	}
	for _, t := range s.alive() {
		why, _ := s.p.Engine.Why(s.user, t.ID)
		text, _ := json.Marshal(why)
		s.Errorf("task %s of type %s is %s for ever: %s", t.ID, t.Type, t.State, text)
	}
	s.FailNow()
}

// alive returns the tasks that have not ended.
func (s *subject) alive() (out []pawl.Task) {
	for _, t := range must(s.svc.ListTasks(s.user, pawl.TaskFilter{Page: pawl.Page{Limit: pawl.MaxPage}})).Items {
		if !t.State.Over() {
			out = append(out, t)
		}
	}
	return out
}

// work claims what can be claimed and completes it. It returns how much that was.
func (s *subject) work() int {
	leases := must(s.svc.Claim(s.ctx, pawl.ClaimRequest{WorkerID: "later", Limit: 100}))
	if s.judged { // such work is asked for by name
		apply := []string{s.typ + pawl.ApplySuffix}
		leases = append(leases, must(s.svc.Claim(s.ctx, pawl.ClaimRequest{WorkerID: "later", Limit: 100, Types: apply}))...)
	}
	for _, l := range leases {
		switch {
		case l.Type == s.typ+pawl.ApplySuffix:
			must(pawl.Complete(s.ctx, s.svc, l.Fence(), raw(`{"result":true,"diff":{"summary":"done"}}`)))
		case l.Type == s.typ && s.judged:
			s.submit(l)
		default:
			s.complete(l)
		}
	}
	return len(leases)
}

// decide sends the signals that are waited for and makes the decisions of people.
func (s *subject) decide() (did int) {
	for _, e := range s.effects(pawl.EffectFilter{States: []pawl.EffectState{pawl.EffectUnknown}}) {
		if e.Outcome == "" {
			must(s.svc.ResolveEffect(s.user, e.ID, pawl.ResolveEffectCall{Outcome: pawl.Happened}))
			did++
		}
	}
	for _, t := range s.alive() {
		for _, i := range must(s.svc.ListItems(s.user, pawl.ItemFilter{TaskID: t.ID})).Items {
			if i.State == pawl.ItemWaiting && i.BlockedBy != nil && i.BlockedBy.Reason == pawl.BlockedBySignal && s.send(i.ID) {
				did++
			}
		}
		if t.ReadyForApproval {
			all(s.svc.ApproveTasks(s.judge, []pawl.ApproveCall{{TaskID: t.ID}}))
			did++
		}
	}
	return did
}

// send sends the signal of an item, and says whether something waited for it.
func (s *subject) send(item string) bool {
	return all(s.svc.SendSignals(s.user, []pawl.SignalCall{{Name: "go", Key: item}}))[0].Woken > 0
}

func (s *subject) sweep() {
	s.Helper()
	must(s.svc.Sweep(s.ctx))
}

func (s *subject) effects(f pawl.EffectFilter) []pawl.EffectRecord {
	return must(s.svc.ListEffects(s.user, f)).Items
}

// sound checks the whole database: doctor's rules, and the log of all events.
func (s *subject) sound() {
	s.Helper()
	for _, b := range must(s.p.Engine.Check(s.ctx)) {
		s.Errorf("doctor: %s: %s: %s", b.Rule, b.Subject, b.Found)
	}
	if err := s.p.Engine.Log(s.ctx); err != nil {
		s.Fatal(err)
	}
	must(s.p.Engine.SignLog(s.ctx))
	if v := must(s.p.Engine.VerifyLog(s.ctx, -1, nil)); !v.Intact {
		s.Errorf("the log: %+v", v.Faults)
	}
}

// rows returns how many rows each table has.
func (s *subject) rows() map[string]int {
	tables := "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
	if s.p.Database == pawltest.Postgres {
		tables = "SELECT tablename FROM pg_tables WHERE schemaname = '" + s.p.Schema + "'"
	}
	out := map[string]int{}
	err := s.p.Engine.DB().View(s.ctx, func(ctx context.Context, tx store.Tx) error {
		names, err := store.Strings(ctx, tx, tables)
		for _, name := range names {
			var n int
			if _, err := store.Row(ctx, tx, []any{&n}, "SELECT count(*) FROM pawl."+name); err != nil {
				return err
			}
			out[name] = n
		}
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
	return out
}
