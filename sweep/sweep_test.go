package sweep_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/archivetest"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/sweep"
)

func TestExpiryGoesInBatches(t *testing.T) {
	each(t, func(h *fixture) {
		h.solos(1100, 3)
		h.claim(1100)
		h.Advance(time.Hour)
		var reported int
		h.OnReady = func(items []store.DueItem) { reported += len(items) }
		s := h.pass()
		h.same([]int64{s.ExpiredFound, s.Recovered, s.Failed, s.CheckpointsCreated, s.Errors}, []int64{1100, 1100, 0, 1100, 0},
			"found, recovered, failed, checkpoints, errors")
		h.same(reported, 1100, "reported of")
		h.same(h.count("SELECT COUNT(*) FROM pawl.checkpoints WHERE type = 'error_boundary'"), 1100, "error boundaries")
		h.claim(1100)
	})
}

func TestExpiryWithoutCheckpoints(t *testing.T) {
	each(t, func(h *fixture) {
		h.Options.CreateCheckpoints = false
		h.solos(2, 1)
		h.claim(2)
		h.Advance(time.Hour)
		s := h.pass()
		h.same([]int64{s.ExpiredFound, s.Failed, s.CheckpointsCreated}, []int64{2, 2, 0}, "found, failed, checkpoints")
		h.same(h.count("SELECT COUNT(*) FROM pawl.checkpoints"), 0, "checkpoints")
	})
}

// A row that the database refuses to move must not keep the others waiting.
func TestOneBadLeaseIsSetApart(t *testing.T) {
	each(t, func(h *fixture) {
		var broken []string
		for range 2 {
			broken = append(broken, h.many(1, 1).ID)
		}
		h.solos(20, 1)
		broken = append(broken, h.many(1, 1).ID)
		h.claim(23)
		for _, id := range broken {
			h.exec("UPDATE pawl.task_counters SET open = 0 WHERE task_id = $1", id)
		}
		h.Advance(time.Hour)
		s := h.pass()
		h.same([]int64{s.ExpiredFound, s.Failed, s.Errors}, []int64{20, 20, 3}, "found, failed, errors")
		h.exec("UPDATE pawl.task_counters SET open = 1")
		s = h.pass()
		h.same([]int64{s.ExpiredFound, s.Failed, s.Errors}, []int64{3, 3, 0}, "after the repair: found, failed, errors")
	})
}

func TestOneBadDueItemIsSetApart(t *testing.T) {
	each(t, func(h *fixture) {
		at := h.Now().Add(time.Minute)
		for range 10 {
			h.Create(pawl.NewTask{Type: "a", RunAt: &at})
		}
		// Its place among the ready is taken.
		h.exec(`INSERT INTO pawl.ready (queue_id, rank, item_id, task_id, max_attempts, solo)
			SELECT queue_id, 0, item_id, task_id, max_attempts, solo FROM pawl.scheduled ORDER BY item_id LIMIT 1`)
		h.Advance(time.Hour)
		s := h.pass()
		h.same([]int64{s.Due, s.Errors}, []int64{9, 1}, "due, errors")
		h.exec("DELETE FROM pawl.ready WHERE item_id = (SELECT item_id FROM pawl.scheduled)")
		s = h.pass()
		h.same([]int64{s.Due, s.Errors}, []int64{1, 0}, "after the repair: due, errors")
	})
}

// An item with a time that depends on another item is due when that has completed. Run must not
// retry in a loop before.
func TestATimeIsNotDueBeforeTheDependencies(t *testing.T) {
	each(t, func(h *fixture) {
		at := h.Now().Add(time.Minute)
		h.Create(pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Key: "a"}, {Key: "b", After: []string{"a"}, RunAt: &at}}})
		first := h.claim(1)
		h.Advance(2 * time.Minute)
		next, ok, err := h.Next(h.Context())
		h.OK(err)
		if lease := first[0].LeaseExpiresAt.UnixMicro(); !ok || next != lease {
			h.Errorf("next due at %d, %t; want the end of the lease, %d", next, ok, lease)
		}
		h.complete(first...)
		h.same(h.pass().Due, 0, "due after its follow-up")
		h.complete(h.claim(1)...)
	})
}

func TestDependentsAreGivenUpAndMended(t *testing.T) {
	each(t, func(h *fixture) {
		task := h.Create(pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Key: "a"}, {Key: "b", After: []string{"a"}},
			{Key: "c", After: []string{"b"}}, {Key: "d", After: []string{"c"}}}})
		// Around the engine, which would follow up at once.
		h.exec("UPDATE pawl.task_counters SET version = version WHERE task_id = $1", task.ID)
		h.fail(h.claim(1)...)
		h.pass()
		h.same(h.state(task.ID), pawl.TaskFailed, "state")
		h.same(h.count("SELECT COUNT(*) FROM pawl.parked_items WHERE state = @state(failed)"), 4, "failed")
		_, err := pawl.Retry(h.Context(), h.Service, task.ID)
		h.OK(err)
		for range 4 {
			h.complete(h.claim(1)...)
			h.pass()
		}
		h.same(h.state(task.ID), pawl.TaskCompleted, "state in the end")
	})
}

func TestOneBadTaskIsNotBuried(t *testing.T) {
	each(t, func(h *fixture) {
		bad := h.many(2, 1)
		h.fail(h.claim(2)...)
		ids := h.solos(5, 1)
		h.fail(h.claim(5)...)
		h.exec("UPDATE pawl.task_counters SET failed = 1 WHERE task_id = $1", bad.ID)
		h.Advance(48*time.Hour + time.Second)
		s := h.pass()
		h.same([]int64{s.Buried, s.Errors}, []int64{5, 1}, "buried, errors")
		h.same(h.state(ids[4]), pawl.TaskDeadLettered, "a good one")
		h.exec("UPDATE pawl.task_counters SET failed = 2 WHERE task_id = $1", bad.ID)
		h.same(h.pass().Buried, 2, "buried after the repair")
		h.same(h.state(bad.ID), pawl.TaskDeadLettered, "the bad one")
	})
}

func TestStaleIsWhatNothingIsExpectedOf(t *testing.T) {
	each(t, func(h *fixture) {
		later := h.Now().Add(3 * day)
		forgotten := h.Create(pawl.NewTask{Type: "forgotten"})
		asleep := h.Create(pawl.NewTask{Type: "asleep", RunAt: &later})
		held := h.Create(pawl.NewTask{Type: "held"})
		lease, err := h.Service.Claim(h.Context(), pawl.ClaimRequest{WorkerID: "w", Types: []string{"held"}, LeaseSeconds: pawl.MaxLeaseSeconds})
		h.OK(err)
		stale := func() (ids []string) {
			for _, e := range h.events(pawl.EventFilter{Event: "stale", Asc: true}) {
				ids = append(ids, e.TaskID)
			}
			return ids
		}
		h.Advance(day - time.Minute)
		_, err = pawl.Heartbeat(h.Context(), h.Service, lease[0].Fence())
		h.OK(err)
		h.Advance(2 * time.Minute)
		h.same(h.pass().Stale, 1, "stale")
		h.same(stale(), []string{forgotten.ID}, "stale")
		h.Advance(2 * day) // the lease ran out, the sleeper woke: both have a fresh event
		h.same(h.pass().Stale, 0, "stale after two more days")
		h.Advance(day + time.Second)
		h.same(h.pass().Stale, 2, "stale when nobody comes for them")
		h.same(len(stale()), 3, "each once")
		h.same([]pawl.TaskState{h.state(asleep.ID), h.state(held.ID)}, []pawl.TaskState{pawl.TaskQueued, pawl.TaskQueued}, "states")
	})
}

func TestTotalsSurviveRetention(t *testing.T) {
	each(t, func(h *fixture) {
		totals := func() (s pawl.SweepTotals) {
			h.OK(h.DB.View(h.Context(), func(ctx context.Context, tx store.Tx) (err error) {
				s, err = h.Sweeper.Totals(ctx, tx)
				return err
			}))
			return s
		}
		h.solos(3, 2)
		for range 2 {
			h.claim(3)
			h.Advance(time.Hour)
			h.pass()
		}
		before := totals()
		h.same([]any{before.TotalScans, before.TotalRecovered, before.TotalFailed, before.IsRunning}, []any{2, 3, 3, true}, "totals")
		h.Advance(7*day + time.Second)
		h.pass()
		h.pass()
		h.same(h.count("SELECT COUNT(*) FROM pawl.sweeps WHERE id > 0"), 2, "rows of their own")
		after := totals()
		h.same([]any{after.TotalScans, after.TotalRecovered, after.TotalFailed}, []any{4, 3, 3}, "totals a week later")
		h.Advance(3 * time.Minute)
		h.same(totals().IsRunning, false, "running, three minutes later")
	})
}

func TestQuickWritesNoRowForTimersAlone(t *testing.T) {
	each(t, func(h *fixture) {
		at := h.Now().Add(time.Minute)
		h.Create(pawl.NewTask{Type: "a", RunAt: &at})
		next, ok, err := h.Next(h.Context())
		h.OK(err)
		h.same([]any{next, ok}, []any{at.UnixMicro(), true}, "next")
		h.Advance(time.Minute)
		s, err := h.Quick(h.Context())
		h.OK(err)
		h.same(s.Due, 1, "due")
		_, ok, err = h.Next(h.Context())
		h.OK(err)
		h.same(ok, false, "anything next")
		h.same(h.count("SELECT COUNT(*) FROM pawl.sweeps"), 0, "rows")
		h.same(h.pass().Due, 0, "due in the pass")
		rows, _, err := h.sweeps()
		h.OK(err)
		h.same([]any{len(rows), rows[0].Due}, []any{1, 1}, "rows, and what they count as due")
	})
}

func (h *fixture) sweeps() (rows []pawl.SweepStats, last int64, err error) {
	err = h.DB.View(h.Context(), func(ctx context.Context, tx store.Tx) (err error) {
		rows, last, err = h.Sweeper.Passes(ctx, tx, 0, 100)
		return err
	})
	return rows, last, err
}

func TestOneServerTicks(t *testing.T) {
	each(t, func(h *fixture) {
		other := archivetest.New(&sweep.Sweeper{DB: h.DB, Options: h.Options, NewID: h.NewID, Log: h.Sweeper.Log, Server: "other"})
		ticks := func() (n int) {
			var wg sync.WaitGroup
			did := make([]bool, 6)
			for i := range did {
				s := []*archivetest.Sweeper{h.Sweeper, other}[i%2]
				wg.Go(func() {
					var err error
					if _, did[i], err = s.Tick(context.Background()); err != nil {
						h.Error(err)
					}
				})
			}
			wg.Wait()
			for _, d := range did {
				if d {
					n++
				}
			}
			return n
		}
		h.same(ticks(), 1, "passes at first")
		h.Advance(50 * time.Second)
		h.same(ticks(), 0, "passes within the interval")
		h.Advance(10 * time.Second)
		h.same(ticks(), 1, "passes after it")
		if h.Database == pawltest.Postgres { // SQLite's clock does not go back: it stands
			h.Advance(-time.Hour)
			h.same(ticks(), 1, "passes when the clock went back")
		}
	})
}

// A process that removes no tasks, since it was not given the directory of archives, keeps no other from the passes.
func TestWhatCannotArchiveTicksLast(t *testing.T) {
	each(t, func(h *fixture) {
		with := archivetest.New(&sweep.Sweeper{DB: h.DB, Options: h.Options, NewID: h.NewID, Log: h.Sweeper.Log, Server: "with",
			Given: []string{"archive_dir"}, GivenDir: t.TempDir()})
		without := archivetest.New(&sweep.Sweeper{DB: h.DB, Options: h.Options, NewID: h.NewID, Log: h.Sweeper.Log, Server: "without"})
		ticks := func(s *archivetest.Sweeper, want bool, when string) {
			t.Helper()
			_, did, err := s.Tick(context.Background())
			h.OK(err)
			h.same(did, want, when)
		}
		h.OK(with.Store(context.Background()))
		ticks(without, true, "the first tick")
		for range 3 {
			h.Advance(h.Sweeper.Interval() - time.Second)
			ticks(without, false, "a tick of the one without")
			ticks(with, true, "a tick of the one with the directory")
		}
		h.Advance(3 * h.Sweeper.Interval())
		ticks(without, true, "a tick while no other is there")
	})
}

// Concurrent sweepers count every lease once.
func TestSweepersShareTheWork(t *testing.T) {
	each(t, func(h *fixture) {
		h.solos(600, 3)
		h.claim(600)
		h.Advance(time.Hour)
		var wg sync.WaitGroup
		var mu sync.Mutex
		var sum pawl.SweepStats
		for i := range 4 {
			s := archivetest.New(&sweep.Sweeper{DB: h.DB, Options: h.Options, NewID: h.NewID, Log: h.Sweeper.Log, Server: fmt.Sprint(i)})
			wg.Go(func() {
				got, err := s.Pass(context.Background())
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					h.Error(err)
				}
				sum.ExpiredFound += got.ExpiredFound
				sum.Recovered += got.Recovered
				sum.CheckpointsCreated += got.CheckpointsCreated
				sum.Errors += got.Errors
			})
		}
		wg.Wait()
		h.pass()
		h.same([]int64{sum.ExpiredFound, sum.Recovered, sum.CheckpointsCreated, sum.Errors}, []int64{600, 600, 600, 0},
			"found, recovered, checkpoints, errors")
	})
}

// An event that was written while the clock was ahead keeps no other from being read at its time.
func TestAnEventAheadOfTheClockStopsNothing(t *testing.T) {
	each(t, func(h *fixture) {
		if h.Database == pawltest.SQLite {
			return // its clock does not go back
		}
		h.Options.BuryAfter = 0
		h.Advance(365 * day)
		h.solos(2, 1)
		ls := h.claim(2)
		h.complete(ls[0])
		h.fail(ls[1])
		h.Advance(-365 * day)
		h.solos(1, 1)
		h.complete(h.claim(1)...)
		open := h.solos(1, 1)[0]
		h.Advance(day + time.Second)
		h.same(h.pass().Stale, 1, "stale")
		h.same(len(h.events(pawl.EventFilter{TaskID: open, Event: "stale"})), 1, "the open task")
		h.Advance(28 * day)
		h.same(h.pass().TasksPruned, 0, "pruned too early")
		h.Advance(day)
		h.same(h.pass().TasksPruned, 2, "pruned: what ended before the clock was right counts as of the next event")
		for _, d := range []time.Duration{100, 324} {
			h.Advance(d * day)
			h.same(h.pass().TasksPruned, 0, "failed tasks pruned before 90 days after their newest event")
		}
		h.Advance(day)
		h.same(h.pass().TasksPruned, 1, "failed tasks pruned after that")
		h.same(h.count("SELECT COUNT(*) FROM pawl.tasks"), 1, "tasks that are left")
	})
}
