package pawltest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// eachPair runs two tests of one database one after the other, on each database.
func eachPair(t *testing.T, first func(t *testing.T, p *pawltest.Pawl), second func(t *testing.T, before, p *pawltest.Pawl)) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			var before *pawltest.Pawl
			t.Run("first", func(t *testing.T) {
				before = pawltest.Own(t, which)
				first(t, before)
			})
			t.Run("second", func(t *testing.T) { second(t, before, pawltest.Open(t, which)) })
		})
	}
}

func where(p *pawltest.Pawl) string { return p.URL + " " + p.Schema }

// The next test finds nothing of the one before: no row, no name, no time, and no number.
func TestTheNextTestFindsNothing(t *testing.T) {
	var first pawl.Task
	var clock time.Time
	work := func(t *testing.T, p *pawltest.Pawl, svc pawl.Service, typ string) pawl.Task {
		clock = p.Now()
		if _, err := p.Service.SetQueue(t.Context(), typ, pawl.QueuePatch(`{"per_key":{"pointer":"/k","concurrency":1}}`)); err != nil {
			t.Fatal(err)
		}
		task, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: typ, Payload: []byte(`{"k":1}`)})
		if err != nil {
			t.Fatal(err)
		}
		leases, err := svc.Claim(t.Context(), pawl.ClaimRequest{WorkerID: typ})
		if err != nil || len(leases) != 1 || leases[0].Type != typ || !leases[0].ServerTime.Equal(clock) {
			t.Fatalf("%+v, %v", leases, err)
		}
		return task
	}
	eachPair(t, func(t *testing.T, p *pawltest.Pawl) {
		p.Advance(24 * time.Hour)
		first = work(t, p, p.Service, "a")
		work(t, p, p.Another(engine.Options{}), "c")
	}, func(t *testing.T, before, p *pawltest.Pawl) {
		if where(p) != where(before) {
			t.Fatal("the database is another one")
		}
		err := p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) error {
			hints, err := store.Ints(ctx, tx, "SELECT gate FROM pawl.gate_hints")
			if len(hints) > 0 {
				t.Errorf("hints of the gates %v, which held leases", hints)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		work(t, p, p.Service, "b") // the number of the queue and of the worker is that of "a" before
		work(t, p, p.Another(engine.Options{}), "d")
		if !clock.Equal(pawltest.Start) {
			t.Errorf("the clock begins at %v", clock)
		}
		if _, err := p.Service.GetTask(t.Context(), first.ID); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("the task of the first test: %v", err)
		}
		events, err := p.Service.ListEvents(t.Context(), pawl.EventFilter{Asc: true})
		if err != nil || len(events.Items) == 0 || events.Items[0].ID != "evt_1" || !events.Items[0].CreatedAt.Equal(pawltest.Start) {
			t.Errorf("%+v, %v", events.Items, err)
		}
	})
}

// A database whose schema a test changed is not used again.
func TestAChangedSchemaIsNotUsedAgain(t *testing.T) {
	for _, change := range []string{"CREATE TABLE pawl.more (id bigint)", "DELETE FROM pawl.moves WHERE code = 1",
		"UPDATE pawl.schema_migrations SET oldest = 0"} {
		eachPair(t, func(t *testing.T, p *pawltest.Pawl) {
			if err := p.Exec(change); err != nil {
				t.Fatal(err)
			}
		}, func(t *testing.T, before, p *pawltest.Pawl) {
			if where(p) == where(before) {
				t.Errorf("it is used again after %s", change)
			}
		})
	}
}

// On PostgreSQL, a trigger that was disabled for some writes and enabled again is no change of the schema.
func TestATriggerIsDisabledForAWhile(t *testing.T) {
	for _, c := range []struct {
		enable string
		again  bool
	}{{"ALTER TABLE pawl.task_events ENABLE TRIGGER USER", true}, {"ALTER TABLE pawl.task_events DISABLE TRIGGER USER", false}} {
		var before string
		t.Run("first", func(t *testing.T) {
			p := pawltest.Own(t, pawltest.Postgres)
			before = where(p)
			p.Create(pawl.NewTask{Type: "a"})
			p.Tampered()
			off, write := "ALTER TABLE pawl.task_events DISABLE TRIGGER USER", "UPDATE pawl.task_events SET created_at = 1"
			for _, query := range []string{off, write, c.enable} {
				if err := p.Exec(query); err != nil {
					t.Fatal(err)
				}
			}
		})
		t.Run("second", func(t *testing.T) {
			p := pawltest.Open(t, pawltest.Postgres)
			if (where(p) == before) != c.again {
				t.Errorf("after %s it is used again: %t", c.enable, !c.again)
			}
			if page, err := p.Service.ListEvents(t.Context(), pawl.EventFilter{}); err != nil || len(page.Items) > 0 {
				t.Errorf("%+v, %v", page.Items, err)
			}
		})
	}
}

// A database in which a call of the test before is still running is not used again.
func TestADatabaseInUseIsNotUsedAgain(t *testing.T) {
	pawltest.WaitLess(t)
	leave := make(chan struct{})
	defer close(leave)
	eachPair(t, func(t *testing.T, p *pawltest.Pawl) {
		db, in := p.Engine.DB(), make(chan struct{})
		go func() {
			_ = db.View(context.Background(), func(context.Context, store.Tx) error {
				close(in)
				<-leave
				return nil
			})
		}()
		<-in
	}, func(t *testing.T, before, p *pawltest.Pawl) {
		if where(p) == where(before) {
			t.Error("it is used again")
		}
	})
}

// A closed engine answers no call, although its connections stay.
func TestAClosedEngineAnswersNothing(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			var last *engine.Engine // of the check at the end
			t.Cleanup(func() { _ = last.Close() })
			p := pawltest.Own(t, which)
			db := p.Engine.DB()
			if err := p.Engine.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a"}); !errors.Is(err, pawl.ErrUnavailable) {
				t.Errorf("a closed engine creates: %v", err)
			}
			nothing := func(context.Context, store.Tx) error { return nil }
			if err := db.View(t.Context(), nothing); !errors.Is(err, pawl.ErrUnavailable) {
				t.Errorf("its database answers: %v", err)
			}
			var err error
			if last, err = engine.OpenWith(t.Context(), p.URL, engine.Options{Schema: p.Schema, Clock: p.Now}); err != nil {
				t.Fatal(err)
			}
			p.Engine = last
		})
	}
}

// After all promises of the behaviour suite, a database of the pool has what a new one has.
func pooledIsNew(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			pooled := pawltest.Contents(t, pawltest.Open(t, which))
			if diff := cmp.Diff(pawltest.Contents(t, pawltest.Own(t, which)), pooled); diff != "" {
				t.Errorf("a database of the pool (-new +pooled):\n%s", diff)
			}
		})
	}
}
