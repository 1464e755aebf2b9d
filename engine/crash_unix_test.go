//go:build unix

package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// Worker processes are killed with SIGKILL, at random and at the worst moments. After
// each kill the rules hold, and everything that Pawl had accepted is stored.
func TestKilledWorkersLoseNothing(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			all := pawl.DefaultSweepOptions()
			all.CleanupOldCheckpoints = false // the journal refers to every checkpoint
			p := pawltest.OpenReal(t, which, engine.Options{Sweep: &all})
			task := need[pawl.Task](t)(
				pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a", MaxAttempts: 1000, Items: make([]pawl.NewItem, times(60, 1500))}))
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = p.Engine.Run(ctx) })
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rnd := rand.New(rand.NewPCG(seed, 2))
			var journal []entry
			for round := range times(3, 100) {
				journal = append(journal, killTwo(t, p, rnd)...)
				if breaches := need[[]engine.Breach](t)(p.Engine.Check(t.Context())); len(breaches) > 0 {
					t.Fatalf("round %d: %+v", round, breaches)
				}
			}
			finishAll(t, p, task.ID)
			stop()
			running.Wait()
			checkJournal(t, p, task.ID, journal)
		})
	}
}

// killTwo starts two workers and kills them at random points.
func killTwo(t *testing.T, p *pawltest.Pawl, rnd *rand.Rand) []entry {
	t.Helper()
	points := []string{"", "before send", "in flight", "in a transaction", "before the answer"}
	var victims []*process
	for range 2 {
		point := points[rnd.IntN(len(points))]
		v := start(t, p, "worker", "PAWL_TEST_FAILPOINT="+point, fmt.Sprint("PAWL_TEST_SEED=", rnd.Uint64()))
		after := time.Duration(rnd.IntN(300)) * time.Millisecond
		if point != "" {
			after = 5 * time.Second // the worker may have had nothing to do
		}
		timer := time.AfterFunc(after, func() { _ = v.Process.Kill() })
		defer timer.Stop()
		victims = append(victims, v)
	}
	var journal []entry
	for _, v := range victims {
		for {
			if _, more := v.read(t); !more {
				break
			}
		}
		_ = v.Wait()
		journal = append(journal, v.journal...)
	}
	return journal
}

// finishAll completes what is left, as the dead workers' leases expire.
func finishAll(t *testing.T, p *pawltest.Pawl, taskID string) {
	t.Helper()
	for need[pawl.Task](t)(p.Service.GetTask(t.Context(), taskID)).ItemsOpen > 0 {
		ls := need[[]pawl.Lease](t)(p.Service.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "heir", Limit: 100, WaitSeconds: 60}))
		if len(ls) == 0 {
			break
		}
		for _, l := range ls {
			need[pawl.Moved](t)(pawl.Complete(t.Context(), p.Service, l.Fence(), []byte(fmt.Sprintf(`{"by":"heir","attempt":%d}`, l.Attempt))))
		}
	}
	if task := need[pawl.Task](t)(p.Service.GetTask(t.Context(), taskID)); task.State != pawl.TaskCompleted || task.Version != 1 {
		t.Fatalf("the task is %s, version %d, %d open", task.State, task.Version, task.ItemsOpen)
	}
}

// checkJournal compares the journals of the dead workers with the database: an accepted
// result is the item's result, and every result belongs to the item's last claim.
func checkJournal(t *testing.T, p *pawltest.Pawl, taskID string, journal []entry) {
	t.Helper()
	items := map[string]pawl.Item{}
	f := pawl.ItemFilter{TaskID: taskID, Page: pawl.Page{Limit: pawl.MaxPage}}
	for {
		list := need[pawl.List[pawl.Item]](t)(p.Service.ListItems(t.Context(), f))
		for _, i := range list.Items {
			items[i.ID] = i
			if want := fmt.Sprintf(`{"by":%q,"attempt":%d}`, i.LastWorkerID, i.Attempt); string(i.Result) != want {
				t.Errorf("item %s has the result %s, its last claim would have given %s", i.ID, i.Result, want)
			}
		}
		if f.Cursor = list.Next; f.Cursor == "" {
			break
		}
	}
	saved := map[int64]string{}
	c := pawl.CheckpointFilter{TaskID: taskID, Types: []string{pawl.ToolExecuted}, Page: pawl.Page{Limit: pawl.MaxPage}}
	for {
		list := need[pawl.List[pawl.Checkpoint]](t)(p.Service.ListCheckpoints(t.Context(), c))
		for _, c := range list.Items {
			saved[c.Sequence] = c.ItemID
		}
		if c.Cursor = list.Next; c.Cursor == "" {
			break
		}
	}
	results := 0
	for _, e := range journal {
		switch {
		case e.Result != "":
			if results++; string(items[e.Item].Result) != e.Result {
				t.Errorf("item %s: the result %s was accepted, and it has %s", e.Item, e.Result, items[e.Item].Result)
			}
		case e.Sequence > 0 && saved[e.Sequence] != e.Item:
			t.Errorf("item %s: checkpoint %d was accepted and is gone", e.Item, e.Sequence)
		}
	}
	t.Logf("%d calls were accepted before the kills, %d of them results", len(journal), results)
}

// Worker processes stop themselves past the end of their lease and then go on: whatever
// they then write is refused.
func TestThawedWorkersAreRefused(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenReal(t, which)
			for left := times(3, 25); left > 0; left -= 5 {
				freeze(t, p, min(left, 5))
			}
		})
	}
}

// freeze freezes n processes past the end of their lease and then lets them go on. By
// then another worker has claimed every second item.
func freeze(t *testing.T, p *pawltest.Pawl, n int) {
	t.Helper()
	need[pawl.Task](t)(pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a", MaxAttempts: 10, Items: make([]pawl.NewItem, n)}))
	var frozen []*process
	var heirs []pawl.Lease
	for range n {
		frozen = append(frozen, start(t, p, "frozen"))
	}
	for _, f := range frozen {
		if _, held := f.read(t); !held {
			t.Fatal("a worker process ended before it had claimed")
		}
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(f.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
			t.Fatalf("the worker has not stopped: %v, %v", status, err)
		}
	}
	time.Sleep(1100 * time.Millisecond)
	need[pawl.SweepStats](t)(p.Service.Sweep(t.Context()))
	reasons := map[string]string{}
	for k, f := range frozen {
		reasons[f.journal[0].Item] = pawl.ReasonExpired
		if k%2 == 0 {
			heirs = append(
				heirs,
				need[[]pawl.Lease](t)(p.Service.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "heir", ItemID: f.journal[0].Item}))...)
			reasons[f.journal[0].Item] = pawl.ReasonTaken
		}
	}
	before := printOf(t, p.Service)
	for _, f := range frozen {
		if err := f.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		for tried := 0; ; tried++ {
			e, more := f.read(t)
			if !more {
				if tried != len(stale) {
					t.Errorf("the thawed worker tried %d verbs", tried)
				}
				break
			}
			if e.Error != string(pawl.CodeLeaseLost) || e.Reason != reasons[e.Item] {
				t.Errorf("%s of a thawed worker: %s %s, want lease_lost %s", e.Verb, e.Error, e.Reason, reasons[e.Item])
			}
		}
	}
	if after := printOf(t, p.Service); after != before {
		t.Errorf("thawed workers left something:\nbefore %s\nafter  %s", before, after)
	}
	for _, l := range heirs {
		need[pawl.Moved](t)(pawl.Complete(t.Context(), p.Service, l.Fence(), nil))
	}
	for _, l := range need[[]pawl.Lease](t)(p.Service.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "heir", Limit: n})) {
		need[pawl.Moved](t)(pawl.Complete(t.Context(), p.Service, l.Fence(), nil))
	}
}
