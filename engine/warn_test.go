package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// Work that stands still is a warning, with a command that helps; a database whose work goes on
// has none.
func TestWarningsOfWork(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, svc := t.Context(), p.Engine
		commands := func() map[string]string {
			t.Helper()
			found, err := svc.Warnings(ctx)
			if err != nil {
				t.Fatal(err)
			}
			out := map[string]string{}
			for _, w := range found {
				if w.Code != "clock_skew" { // the clock of the test stands still
					out[w.Code] = w.Command
				}
			}
			return out
		}
		need[[]pawl.Result[pawl.TypeRef]](t)(svc.PutTypes(ctx, []pawl.Type{{Name: "slow", LeaseSeconds: 5}}))
		for range 20 {
			need[pawl.Task](t)(pawl.Create(ctx, svc, pawl.NewTask{Type: "slow"}))
		}
		held := leases(t, svc, pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: 60, Limit: 20}, 20)
		if got := commands(); len(got) != 0 {
			t.Fatalf("of work that goes on: %v", got)
		}
		p.Advance(6 * time.Second)
		for _, l := range held {
			need[pawl.Moved](t)(first(svc.Complete(ctx, []pawl.CompleteCall{{Fence: l.Fence()}})))
		}
		need[pawl.Task](t)(pawl.Create(ctx, svc, pawl.NewTask{Type: "left alone"}))
		soon := p.Now().Add(time.Minute)
		need[pawl.Task](t)(pawl.Create(ctx, svc, pawl.NewTask{Type: "later", Items: []pawl.NewItem{{RunAt: &soon}}}))
		need[pawl.Schedule](t)(svc.CreateSchedule(ctx, pawl.NewSchedule{Name: "nightly", Cron: "0 3 * * *", Task: pawl.NewTask{Type: "n"}}))
		if err := p.Exec(`UPDATE pawl.schedules SET error = '{"message":"bad"}', error_at = 1`); err != nil {
			t.Fatal(err)
		}
		p.Advance(3 * time.Minute)
		got := commands()
		for code, command := range map[string]string{
			"no_worker": "pawl worker --type 'left alone' --exec -- ./handler", "no_sweep": "pawl sweep",
			"schedule_error": "pawl schedule get nightly", "sequencer_behind": "pawl serve", "short_lease": "pawl type suggest slow",
		} {
			if got[code] != command {
				t.Errorf("%s: command %q, want %q", code, got[code], command)
			}
		}
	})
}

// A pause that was perhaps forgotten is a warning: a day old, with queued work. Doctor reports no breach.
func TestALongPauseIsAWarning(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		svc := p.Engine
		paused := func(want ...string) {
			t.Helper()
			var got []string
			for _, w := range need[[]store.Warning](t)(svc.Warnings(t.Context())) {
				if w.Code == "long_pause" {
					got = append(got, w.Command)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("commands %q, want %q", got, want)
			}
		}
		other := pawl.As(t.Context(), pawl.Caller{Namespace: "other"})
		need[pawl.Task](t)(pawl.Create(t.Context(), svc, pawl.NewTask{Type: "has work"}))
		need[pawl.Task](t)(pawl.Create(other, svc, pawl.NewTask{Type: "a"}))
		for _, typ := range []string{"has work", "empty"} {
			need[pawl.Queue](t)(svc.PauseQueue(t.Context(), typ))
		}
		if err := svc.PauseNamespace(other); err != nil {
			t.Fatal(err)
		}
		p.Advance(23 * time.Hour)
		paused()
		for _, w := range need[[]store.Warning](t)(svc.Warnings(t.Context())) {
			if w.Code == "no_worker" && !strings.Contains(w.Detail, "; it is paused, too: pawl queue resume ") {
				t.Errorf("the pause is not named: %s", w.Detail)
			}
		}
		p.Advance(2 * time.Hour)
		paused("pawl queue resume 'has work'", "pawl queue resume --namespace other --all")
		if err := svc.ResumeNamespace(other); err != nil {
			t.Fatal(err)
		}
		paused("pawl queue resume 'has work'")
	})
}

// A transaction that stays open, and dead rows, are warnings on PostgreSQL.
func TestWarningsOfVacuum(t *testing.T) {
	p := pawltest.OpenReal(t, pawltest.Postgres)
	for _, query := range []string{
		`ALTER TABLE pawl.relay_cursors SET (autovacuum_enabled = false)`,
		`INSERT INTO pawl.relay_cursors (sink, position, detail, updated_at) SELECT 'x' || n, 0, '{}', 0 FROM generate_series(1, 60000) n`,
		`DELETE FROM pawl.relay_cursors WHERE sink LIKE 'x%'`,
		`SELECT pg_stat_force_next_flush()`,
	} {
		if err := p.Exec(query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		found, err := p.Engine.Warnings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range found {
			if w.Code == "bloat" && strings.Contains(w.Detail, "dead rows") && strings.Contains(w.Command, ".relay_cursors") {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("no warning: %+v", found)
		}
	}
}

// Without sweeps there is a warning when something has been due for a minute, and none before: a pass may be minutes
// after the last.
func TestNoSweepIsAWarningWhenSomethingIsDue(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		warned := func() (so bool) {
			for _, w := range need[[]pawl.Warning](t)(p.Engine.Warnings(t.Context())) {
				so = so || w.Code == "no_sweep"
			}
			return so
		}
		if _, err := p.Engine.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a"}))
		l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: 600}, 1)[0]
		if p.Advance(5 * time.Minute); warned() {
			t.Error("while nothing is due")
		}
		until := p.Now().Add(time.Minute)
		need[pawl.Moved](t)(first(p.Engine.Suspend(t.Context(), []pawl.SuspendCall{{Fence: l.Fence(), Until: &until}})))
		if p.Advance(time.Minute + time.Second); warned() {
			t.Error("when an item has just become due")
		}
		if p.Advance(time.Minute); !warned() {
			t.Error("no warning after a minute")
		}
	})
}
