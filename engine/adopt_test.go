package engine_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// openAt opens a SQLite database at a time.
func (p place) openAt(now time.Time) *engine.Engine {
	p.t.Helper()
	e, err := engine.OpenWith(p.t.Context(), p.url, engine.Options{Identity: "check", Clock: func() time.Time { return now },
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = e.Close() })
	return e
}

// scheduledCopy is a copy, two hours later, of a database with two schedules, one of them for one time that is
// over then, and a relay.
func scheduledCopy(t *testing.T) (c place, e *engine.Engine) {
	p := newPlace(t, pawltest.SQLite)
	first := p.openAt(pawltest.Start)
	soon := pawltest.Start.Add(time.Minute)
	for name, s := range map[string]pawl.NewSchedule{"often": {EverySeconds: 600}, "once": {At: &soon}} {
		s.Name, s.Task = name, pawl.NewTask{Type: "tick"}
		if _, err := first.CreateSchedule(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	makeTask(t, first, "a")
	leases(t, first, pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: pawl.MaxLeaseSeconds}, 1)
	r, ok, err := first.TakeRelay(t.Context(), "bus", "fake", "one", time.Hour)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	r.Position = 1
	if ok, err := first.KeepRelay(t.Context(), r, time.Hour); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	c = p.copied()
	e = c.openAt(pawltest.Start.Add(2 * time.Hour))
	makeTask(t, e, "b") // in quarantine
	if _, ok, err := e.TakeRelay(t.Context(), "bus", "fake", "one", time.Hour); ok || err != nil {
		t.Errorf("a relay in quarantine: %v, %v", ok, err)
	}
	return c, e
}

func ticks(t *testing.T, e *engine.Engine) int {
	t.Helper()
	l, err := e.ListTasks(t.Context(), pawl.TaskFilter{Types: []string{"tick"}, Page: pawl.Page{Limit: 100}})
	if err != nil {
		t.Fatal(err)
	}
	return len(l.Items)
}

func TestAnAdoptedCopyBeginsFromNow(t *testing.T) {
	_, e := scheduledCopy(t)
	out, err := e.Adopt(t.Context(), false)
	if err != nil || out.Schedules != 2 || out.Epoch != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	if _, err := e.Sweep(t.Context()); err != nil || ticks(t, e) != 0 {
		t.Errorf("%d ticks of the past, %v", ticks(t, e), err)
	}
	now := pawltest.Start.Add(2 * time.Hour)
	if s, err := e.GetSchedule(t.Context(), "often"); err != nil || len(s.Next) == 0 || !s.Next[0].After(now) {
		t.Errorf("the next tick: %v, %v", s.Next, err)
	}
	if s, err := e.GetSchedule(t.Context(), "once"); err != nil || len(s.Next) != 0 {
		t.Errorf("one that is over: %v, %v", s.Next, err)
	}
	l, err := e.ListRelays(t.Context())
	if err != nil || len(l.Items) != 1 || l.Items[0].DisabledAt == nil || !strings.Contains(l.Items[0].Error, "pawl relay resume") {
		t.Fatalf("%+v, %v", l.Items, err)
	}
	if _, err := e.ResumeRelay(t.Context(), "bus", ""); err != nil {
		t.Fatal(err)
	}
	if r, ok, err := e.TakeRelay(t.Context(), "bus", "fake", "two", time.Hour); err != nil || !ok || r.Epoch != 1 || r.Position != 1 {
		t.Errorf("the relay: %+v, %v, %v", r, ok, err)
	}
}

// An adoption may say at once from where relays go on. One that was disabled before stays so.
func TestAnAdoptionSaysWhereRelaysGoOn(t *testing.T) {
	for _, from := range []string{"stored", "now", "2"} {
		_, e := scheduledCopy(t)
		_, err := e.AdoptFrom(t.Context(), from)
		if from == "2" {
			if pawl.CodeOf(err) != pawl.CodeInvalid || !e.Quarantined() {
				t.Errorf("from %s: %v", from, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		want := int64(1)
		if from == "now" {
			all := int64(0)
			l := need[pawl.List[pawl.Event]](t)(e.ListEvents(t.Context(), pawl.EventFilter{After: &all, Page: pawl.Page{Limit: 9}})).Items
			last := l[len(l)-1]
			if want = last.Position - 1; last.Event != "lease_revoked" {
				t.Errorf("the adoption has left %s", last.Event)
			}
		}
		r, ok, err := e.TakeRelay(t.Context(), "bus", "fake", "two", time.Hour)
		if err != nil || !ok || r.Epoch != 1 || r.Position != want {
			t.Errorf("from %s: %+v, %v, %v; want %d", from, r, ok, err, want)
		}
	}
}

// A relay that cannot go on stops no other.
func TestARelayThatCannotGoOnStopsNoOther(t *testing.T) {
	_, e := scheduledCopy(t)
	ok(t, e.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
		for _, statement := range []string{
			`INSERT INTO pawl.relay_cursors (sink, position, detail, updated_at)
			SELECT 'relay.bad', position, detail, updated_at FROM pawl.relay_cursors WHERE sink = 'relay.bus'`,
			`CREATE TRIGGER bad BEFORE UPDATE ON relay_cursors WHEN NEW.sink = 'relay.bad' AND NEW.position > 1
			BEGIN SELECT RAISE(ABORT, 'bad'); END`,
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	}))
	out, err := e.AdoptFrom(t.Context(), pawl.RelayFromNow)
	if err == nil || !strings.Contains(err.Error(), "relay bad waits") || out.Adopted == nil {
		t.Errorf("%+v, %v", out, err)
	}
	for _, r := range need[pawl.List[pawl.Relay]](t)(e.ListRelays(t.Context())).Items {
		if (r.DisabledAt == nil) != (r.Sink == "bus") {
			t.Errorf("relay %s: disabled at %v", r.Sink, r.DisabledAt)
		}
	}
}

// What both histories share keeps its epoch; what the copy was given since is of the new one. A reader of the
// original's history is told where to go on.
func TestEventsOfAnAdoptedCopyAreOfANewEpoch(t *testing.T) {
	_, e := scheduledCopy(t)
	if _, err := e.Adopt(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	later := makeTask(t, e, "c")
	all := int64(0)
	l, err := e.ListEvents(t.Context(), pawl.EventFilter{After: &all, Page: pawl.Page{Limit: 100}})
	if err != nil {
		t.Fatal(err)
	}
	shared := int64(0)
	for _, ev := range l.Items {
		if ev.Epoch == 0 {
			shared = ev.Position
		}
		if ev.TaskID == later.ID && ev.Epoch != 1 {
			t.Errorf("an event of the new history has epoch %d", ev.Epoch)
		}
	}
	if shared == 0 || l.Items[len(l.Items)-1].Epoch != 1 {
		t.Errorf("the events: %+v", l.Items)
	}
	ahead := shared + 100
	_, err = e.ListEvents(t.Context(), pawl.EventFilter{After: &ahead})
	if at, ok := pawl.RestartOf(err); !ok || at != (pawl.FeedPosition{Epoch: 1, Position: shared}) {
		t.Errorf("a reader of the original: %v, %v", at, err)
	}
	if v, err := e.VerifyLog(t.Context(), -1, nil); err != nil || !v.Intact || len(v.Forks) != 1 {
		t.Errorf("the log: %+v, %v", v, err)
	}
	if r, err := e.Doctor(t.Context(), pawl.DoctorCall{}); err != nil || !r.Clean {
		t.Errorf("doctor: %+v, %v", r, err)
	}
}

// Ticks that were queued before are dropped, those of a schedule that is paused too. A schedule whose rule cannot be read
// any more has no next tick, and stops no adoption.
func TestAnAdoptedCopyHasNoQueuedTicks(t *testing.T) {
	for _, asCopy := range []bool{false, true} {
		p := newPlace(t, pawltest.SQLite)
		first := p.openAt(pawltest.Start)
		for name, rule := range map[string]pawl.NewSchedule{
			"paused": {EverySeconds: 600, Overlap: pawl.OverlapQueue}, "torn": {Cron: "0 3 * * *", Zone: "Europe/Berlin"},
		} {
			rule.Name, rule.Task = name, pawl.NewTask{Type: "tick"}
			need[pawl.Schedule](t)(first.CreateSchedule(t.Context(), rule))
		}
		for n := range 2 {
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			first = p.openAt(pawltest.Start.Add(time.Duration(n+1) * 10 * time.Minute))
			need[pawl.SweepStats](t)(first.Sweep(t.Context()))
		}
		if s := need[pawl.Schedule](t)(first.PauseSchedule(t.Context(), "paused")); s.Queued != 1 {
			t.Fatalf("%d ticks are queued", s.Queued)
		}
		err := first.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE pawl.schedules SET definition = REPLACE(definition, 'Europe/Berlin', 'Nowhere/Berlin')")
			return err
		})
		if err = errors.Join(err, first.Close()); err != nil {
			t.Fatal(err)
		}
		e := p.copied().openAt(pawltest.Start.Add(2 * time.Hour))
		if out, err := e.Adopt(t.Context(), asCopy); err != nil || out.Schedules != 1 {
			t.Fatalf("%+v, %v", out, err)
		}
		if s := need[pawl.Schedule](t)(e.GetSchedule(t.Context(), "paused")); s.Queued != 0 || s.PausedAt == nil {
			t.Errorf("the paused schedule: %+v", s)
		}
		if s := need[pawl.Schedule](t)(e.GetSchedule(t.Context(), "torn")); len(s.Next) != 0 || s.Error == nil || (s.PausedAt != nil) != asCopy {
			t.Errorf("the schedule without a rule: %+v", s)
		}
		if r := need[pawl.DoctorReport](t)(e.Doctor(t.Context(), pawl.DoctorCall{})); !r.Clean {
			t.Errorf("doctor: %+v", r)
		}
		if asCopy {
			continue
		}
		need[pawl.Schedule](t)(e.ResumeSchedule(t.Context(), "paused"))
		list := need[pawl.List[pawl.Task]](t)(e.ListTasks(t.Context(), pawl.TaskFilter{}))
		need[pawl.Task](t)(pawl.Cancel(t.Context(), e, list.Items[0].ID, ""))
		if need[pawl.SweepStats](t)(e.Sweep(t.Context())); ticks(t, e) != 1 {
			t.Errorf("%d tasks, one of them before the adoption", ticks(t, e))
		}
	}
}

func TestACopyForTestsFiresNothing(t *testing.T) {
	c, e := scheduledCopy(t)
	out, err := e.Adopt(t.Context(), true)
	if err != nil || *out.Adopted != "copy" || out.Schedules != 2 {
		t.Fatalf("%+v, %v", out, err)
	}
	check := func(e *engine.Engine) {
		t.Helper()
		if s, err := e.GetSchedule(t.Context(), "often"); err != nil || s.PausedAt == nil {
			t.Errorf("%+v, %v", s, err)
		}
		if _, err := e.ResumeSchedule(t.Context(), "often"); !errors.Is(err, pawl.ErrConflict) {
			t.Errorf("a schedule goes on: %v", err)
		}
		if _, err := e.ResumeRelay(t.Context(), "bus", ""); !errors.Is(err, pawl.ErrConflict) {
			t.Errorf("a relay goes on: %v", err)
		}
		if _, ok, err := e.TakeRelay(t.Context(), "new", "fake", "one", time.Hour); ok || err != nil {
			t.Errorf("a relay: %v, %v", ok, err)
		}
		if _, err := e.Sweep(t.Context()); err != nil || ticks(t, e) != 0 {
			t.Errorf("%d ticks, %v", ticks(t, e), err)
		}
	}
	check(e)
	rule := pawl.NewSchedule{Name: "new", EverySeconds: 1, Task: pawl.NewTask{Type: "tick"}}
	if s := need[pawl.Schedule](t)(e.CreateSchedule(t.Context(), rule)); s.PausedAt == nil {
		t.Errorf("a new schedule: %+v", s)
	}
	rule.Name = "put"
	if s := need[pawl.Schedule](t)(e.PutSchedule(t.Context(), rule)); s.PausedAt == nil {
		t.Errorf("a schedule that is put: %+v", s)
	}
	rule.EverySeconds = 2
	if s := need[pawl.Schedule](t)(e.PutSchedule(t.Context(), rule)); s.PausedAt == nil {
		t.Errorf("a schedule that is put again: %+v", s)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = c.openAt(pawltest.Start.Add(24 * time.Hour))
	check(e)
	if next := need[pawl.Ticked](t)(e.Tick(t.Context())).NextAt; next != nil && next.Before(pawltest.Start.Add(24*time.Hour)) {
		t.Errorf("the next tick is to be at %v", next)
	}
}

// An approval that applies nothing is given in quarantine, and one that applies is refused and changes nothing.
func TestApprovalsInQuarantine(t *testing.T) {
	p := newPlace(t, pawltest.SQLite)
	ids := map[string]string{}
	p.use(func(e *engine.Engine) {
		for name, mode := range map[string]pawl.ApplyMode{"plain": pawl.ApplyNone, "applied": pawl.ApplyItem} {
			typ := pawl.Type{Name: name, Approval: pawl.Approval{Mode: pawl.ApprovalManual}, Apply: pawl.Apply{Mode: mode}}
			if rs, err := e.PutTypes(t.Context(), []pawl.Type{typ}); err != nil || rs[0].Err != nil {
				t.Fatal(err, rs)
			}
			ids[name] = makeTask(t, e, name).ID
		}
		got, err := e.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Limit: 2})
		if err != nil || len(got) != 2 {
			t.Fatal(got, err)
		}
		for _, l := range got {
			rs, err := e.Submit(t.Context(), []pawl.SubmitCall{{Fence: l.Fence(), Result: []byte("1")}})
			if err != nil || rs[0].Err != nil {
				t.Fatal(err, rs)
			}
		}
	})
	e := p.copied().open()
	rs, err := e.ApproveTasks(t.Context(), []pawl.ApproveCall{{TaskID: ids["plain"]}, {TaskID: ids["applied"]}})
	if err != nil || rs[0].Err != nil || rs[0].Value.State != pawl.TaskCompleted || !errors.Is(rs[1].Err, pawl.ErrQuarantined) {
		t.Errorf("%+v, %v", rs, err)
	}
	if task, err := e.GetTask(t.Context(), ids["applied"]); err != nil || task.State != pawl.TaskSubmitted {
		t.Errorf("%v, %v", task.State, err)
	}
}

// A gate of the original sends no effect of an adopted copy: what it had sent is unknown there, as if its lease were over.
func TestAnAdoptionEndsTheLeasesOfGates(t *testing.T) {
	t.Parallel()
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			p := newPlace(t, which)
			ctx, opened, l := t.Context(), pawl.OpenedEffect{}, pawl.Lease{}
			p.use(func(e *engine.Engine) {
				makeTask(t, e, "a")
				l = leases(t, e, pawl.ClaimRequest{WorkerID: "w"}, 1)[0]
				opened = need[pawl.OpenedEffect](t)(e.OpenEffect(ctx, pawl.OpenEffectCall{ItemID: l.ID, WorkerID: "w", Attempt: l.Attempt,
					Name: "pay", RequestHash: "h", LeaseSeconds: 3600}))
			})
			if c := p; which == pawltest.SQLite {
				p = c.copied()
			} else {
				p = c.at("localhost")
			}
			e := p.open()
			need[engine.Adoption](t)(e.Adopt(ctx, false))
			need[pawl.SweepStats](t)(e.Sweep(ctx))
			if f := need[pawl.EffectRecord](t)(e.GetEffect(ctx, opened.ID)); f.State != pawl.EffectUnknown {
				t.Errorf("the effect is %s", f.State)
			}
			_, err := e.KeepEffect(ctx, opened.ID, pawl.KeepEffectCall{ItemID: l.ID, WorkerID: "w", Attempt: l.Attempt, LeaseSeconds: 15})
			if !errors.Is(err, pawl.ErrLeaseLost) {
				t.Errorf("the gate goes on: %v", err)
			}
		})
	}
}
