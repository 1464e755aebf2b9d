package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// Two machines whose clocks differ by twenty minutes share a PostgreSQL database. The
// database's clock decides, to the microsecond.
func TestWallClocksDoNotMatterOnPostgres(t *testing.T) {
	t.Parallel()
	fast := engine.Options{Clock: func() time.Time { return time.Now().Add(10 * time.Minute) }}
	slow := engine.Options{Clock: func() time.Time { return time.Now().Add(-10 * time.Minute) }}
	p := pawltest.OpenWith(t, pawltest.Postgres, fast)
	engines := []*engine.Engine{p.Engine, p.Another(slow)}
	for n, holder := range engines {
		other := engines[1-n]
		need[pawl.Task](t)(pawl.Create(t.Context(), holder, pawl.NewTask{Type: "a", Payload: []byte(`1`)}))
		l := leases(t, holder, pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: 60}, 1)[0]
		if !l.ServerTime.Equal(p.Now()) || !l.LeaseExpiresAt.Equal(p.Now().Add(time.Minute)) {
			t.Fatalf("claimed at %v until %v, want %v", l.ServerTime, l.LeaseExpiresAt, p.Now())
		}
		p.Advance(time.Minute - time.Microsecond)
		for _, e := range engines {
			if s := need[pawl.SweepStats](t)(e.Sweep(t.Context())); s.ExpiredFound != 0 {
				t.Fatal("the lease expired early")
			}
			need[pawl.Beat](t)(pawl.Heartbeat(t.Context(), e, l.Fence()))
		}
		p.Advance(time.Minute)
		for _, e := range engines {
			if _, err := pawl.Heartbeat(t.Context(), e, l.Fence()); !errors.Is(err, pawl.ErrLeaseExpired) {
				t.Fatalf("the lease expired late: %v", err)
			}
		}
		if s := need[pawl.SweepStats](t)(other.Sweep(t.Context())); s.ExpiredFound != 1 {
			t.Fatalf("the sweep found %d expired", s.ExpiredFound)
		}
		need[pawl.Moved](t)(pawl.Complete(t.Context(), other, leases(t, other, pawl.ClaimRequest{WorkerID: "w2"}, 1)[0].Fence(), nil))
	}
}

// A dead worker's item is claimable within a second after its lease ends, and never
// before, with two running engines whose clocks disagree.
func TestRunTakesUpADeadWorkersWorkWithinASecond(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenReal(t, which)
			engines := []*engine.Engine{p.Engine, p.Another(engine.Options{})}
			if which == pawltest.Postgres {
				engines[1] = p.Another(engine.Options{Clock: func() time.Time { return time.Now().Add(-10 * time.Minute) }})
			}
			stopped := make(chan error, len(engines))
			ctx, stop := context.WithCancel(t.Context())
			for _, e := range engines {
				go func() { stopped <- e.Run(ctx) }()
			}
			inTime := 0
			for n := 0; inTime < 3; n++ { // a busy machine is late now and then
				if n == 12 {
					t.Fatalf("only %d of %d were claimed again in time", inTime, n)
				}
				need[pawl.Task](t)(pawl.Create(ctx, p.Service, pawl.NewTask{Type: "a", Payload: []byte(`1`)}))
				l := leases(t, p.Service, pawl.ClaimRequest{WorkerID: "dead", LeaseSeconds: 1 + n%2}, 1)[0]
				again := need[[]pawl.Lease](t)(engines[1].Claim(ctx, pawl.ClaimRequest{WorkerID: "heir", WaitSeconds: 30}))
				if len(again) != 1 || again[0].ID != l.ID {
					t.Fatalf("claimed again: %v", again)
				}
				late := again[0].ServerTime.Sub(l.LeaseExpiresAt)
				if late < 0 {
					t.Errorf("claimed again %v before the lease's end", -late)
				} else if late <= 1500*time.Millisecond {
					inTime++
				}
				need[pawl.Moved](t)(pawl.Complete(ctx, p.Service, again[0].Fence(), nil))
			}
			stop()
			for range engines {
				if err := <-stopped; err != nil {
					t.Errorf("run: %v", err)
				}
			}
		})
	}
}

// SQLite uses the machine's clock, which may be set back. Pawl's time then stays the same
// until the clock has caught up: no lease expires early or lasts longer because of it.
func TestAClockThatGoesBackStandsStillOnSQLite(t *testing.T) {
	t.Parallel()
	p := pawltest.Open(t, pawltest.SQLite)
	task := need[pawl.Task](t)(
		pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Input: []byte(`1`)}, {Input: []byte(`2`)}}}))
	old := leases(t, p.Service, pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: 60}, 1)[0]
	p.Advance(time.Minute)
	newest := p.Now()
	need[pawl.SweepStats](t)(p.Service.Sweep(t.Context()))
	p.Advance(-time.Hour)
	again := p.Another(engine.Options{}) // in this process: a new one would not know the later time
	for _, svc := range []pawl.Service{p.Service, again} {
		l := leases(t, svc, pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: 60}, 1)[0]
		if !l.ServerTime.Equal(newest) || !l.LeaseExpiresAt.Equal(newest.Add(time.Minute)) {
			t.Errorf("claimed at %v until %v, want %v", l.ServerTime, l.LeaseExpiresAt, newest)
		}
		if _, err := pawl.Heartbeat(t.Context(), svc, old.Fence()); !errors.Is(err, pawl.ErrLeaseLost) {
			t.Errorf("the expired lease lives again: %v", err)
		}
	}
	last := time.Time{}
	for _, e := range need[pawl.List[pawl.Event]](t)(p.Service.ListEvents(t.Context(), pawl.EventFilter{TaskID: task.ID, Asc: true})).Items {
		if e.CreatedAt.Before(last) {
			t.Errorf("event %s is of %v, the one before of %v", e.ID, e.CreatedAt, last)
		}
		last = e.CreatedAt
	}
	p.Advance(time.Hour + time.Minute)
	if s := need[pawl.SweepStats](t)(p.Service.Sweep(t.Context())); s.ExpiredFound != 2 {
		t.Errorf("%d leases expired, want 2", s.ExpiredFound)
	}
}

// A call in a caller's own transaction has the time of its engine on SQLite: it does not follow a jump of the
// machine's clock that has not lasted.
func TestOwnTransactionsFollowNoJumpOfTheClock(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	jumping := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) } // with a monotonic reading
	p := pawltest.OpenReal(t, pawltest.SQLite, engine.Options{Clock: jumping})
	p.Create(pawl.NewTask{Type: "a"})
	p.Claim()
	ahead.Store(int64(24 * time.Hour))
	tx := beginOwn(t, p)
	need[pawl.Task](t)(tx.Create(t.Context(), pawl.NewTask{Type: "b"}))
	ok(t, tx.commit())
	ahead.Store(0)
	if s := need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context())); s.ExpiredFound != 0 {
		t.Errorf("%d leases have expired by the clock of a caller's transaction", s.ExpiredFound)
	}
}

func TestEightEnginesOpenedAtOnceMigrateOnce(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			url, schema := pawltest.Place(t, which)
			type opened struct {
				*engine.Engine
				error
			}
			all := make(chan opened, 8)
			for range cap(all) {
				go func() {
					e, err := engine.OpenWith(context.Background(), url, engine.Options{Schema: schema})
					all <- opened{e, err}
				}()
			}
			var engines []*engine.Engine
			for range cap(all) {
				o := <-all
				if o.error != nil {
					t.Errorf("open: %v", o.error)
					continue
				}
				defer o.Close()
				engines = append(engines, o.Engine)
			}
			for n, e := range engines {
				list, err := e.Migrator().Status(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range list {
					if m.ExecutedAt == 0 || !m.Known {
						t.Errorf("engine %d: migration %d is %+v", n, m.ID, m)
					}
				}
				need[pawl.Task](t)(pawl.Create(t.Context(), e, pawl.NewTask{Type: fmt.Sprint("t", n)}))
			}
			if got := need[[]engine.Breach](t)(engines[0].Check(t.Context())); len(got) > 0 {
				t.Errorf("breaches: %v", got)
			}
		})
	}
}
