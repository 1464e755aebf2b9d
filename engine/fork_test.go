package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

func forked(ctx context.Context, svc pawl.Service, of string, at int64) (pawl.Task, error) {
	return first(svc.ForkTasks(ctx, []pawl.TaskFork{{TaskID: of, Checkpoint: at}}))
}

// A fork copies large snapshots, which are deltas on one another. A pruned checkpoint is refused
// with what is left. Once the task is archived all that is the same, and nothing is restored.
func TestForksOfPrunedAndArchivedTasks(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		of := need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "agent"})).ID
		l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: pawl.MaxLeaseSeconds}, 1)[0]
		rnd := rand.New(rand.NewPCG(5, 2))
		turns := []string{text(rnd, 2*pawl.MinBlobBytes)}
		var want [][]byte
		for n := range 110 {
			turns = append(turns, text(rnd, 50))
			want = append(want, state(turns, n))
			saved(t, p.Engine, l, "state", want[n])
		}
		need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
		check := func(of string, at int64) string {
			t.Helper()
			task := need[pawl.Task](t)(forked(ctx, p.Engine, of, at))
			list := need[pawl.List[pawl.Checkpoint]](t)(p.Engine.ListCheckpoints(ctx,
				pawl.CheckpointFilter{TaskID: task.ID, Page: pawl.Page{Limit: 1000}})).Items
			if len(list) != int(at)-10 || list[0].Sequence != 11 || list[len(list)-1].Sequence != at {
				t.Errorf("a fork at %d has %d checkpoints", at, len(list))
			}
			for _, c := range list {
				if !bytes.Equal(c.Snapshot, want[c.Sequence-1]) {
					t.Errorf("checkpoint %d is not what was saved", c.Sequence)
				}
			}
			_, err := forked(ctx, p.Engine, of, 10)
			var e *pawl.Error
			if !errors.As(err, &e) || e.Code != pawl.CodeConflict || e.Reason != pawl.ReasonPruned ||
				!slices.Equal(e.Kept[:2], []int64{11, 12}) || !strings.Contains(e.Message, "is 11") && !strings.Contains(e.Message, "is left is 11") {
				t.Errorf("a pruned checkpoint: %v", err)
			}
			for _, never := range []int64{111, math.MaxInt64} {
				if _, err := forked(ctx, p.Engine, of, never); !errors.Is(err, pawl.ErrNotFound) {
					t.Errorf("%d, which was never saved: %v", never, err)
				}
			}
			return task.ID
		}
		check(check(of, 60), 30)
		need[pawl.Moved](t)(first(p.Engine.Complete(ctx, []pawl.CompleteCall{{Fence: l.Fence()}})))
		p.Advance(pawl.DefaultRetainTasks + time.Hour)
		for range 3 {
			need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
		}
		gone := func() {
			t.Helper()
			if _, err := p.Engine.GetTask(ctx, of); !errors.Is(err, pawl.ErrNotFound) {
				t.Fatalf("the task is not archived: %v", err)
			}
		}
		gone()
		check(of, 110)
		gone()
		for range 2 {
			answer, _, err := p.Engine.Idempotent(ctx, pawl.KeyBegin{Scope: "s", Key: "k", RequestHash: "h"},
				func(ctx context.Context, svc pawl.Service) (*pawl.Answer, error) {
					task, err := forked(ctx, svc, of, 20)
					return &pawl.Answer{Code: http.StatusCreated, Type: "text/plain", Body: []byte(task.ID)}, err
				})
			if err != nil || need[pawl.Task](t)(p.Engine.GetTask(ctx, string(answer.Body))).ForkedFrom != of {
				t.Errorf("with a key: %q, %v", answer.Body, err)
			}
		}
		gone()
		if n := queried(t, p, "SELECT COUNT(*) FROM pawl.tasks WHERE forked_at = 20"); n != 1 {
			t.Errorf("%d forks by one key", n)
		}
	})
}

// A fork made while its task is pruned, or deleted, has all checkpoints that were left when it
// was read, or is refused.
func TestForksBesideRemovals(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		for round := range 4 {
			ctx := t.Context()
			of := need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: fmt.Sprint("agent", round)})).ID
			l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{fmt.Sprint("agent", round)}}, 1)[0]
			for range 150 {
				saved(t, p.Engine, l, "", []byte(`1`))
			}
			over := make(chan error, 1)
			go func() {
				if round%2 == 0 {
					_, err := p.Engine.Sweep(ctx)
					over <- err
					return
				}
				_, err := first(p.Engine.DeleteTasks(ctx, []pawl.TaskCall{{TaskID: of, Force: true}}))
				over <- err
			}()
			for done := false; !done; {
				task, err := forked(ctx, p.Engine, of, 120)
				switch code := pawl.CodeOf(err); {
				case err == nil:
					list := need[pawl.List[pawl.Checkpoint]](t)(p.Engine.ListCheckpoints(ctx,
						pawl.CheckpointFilter{TaskID: task.ID, Page: pawl.Page{Limit: 1000}})).Items
					if n := len(list); n != 120 && (round%2 == 1 || n != 70) {
						t.Errorf("a fork has %d checkpoints", n)
					}
				case code != pawl.CodeNotFound && code != pawl.CodeUnavailable:
					t.Errorf("a fork beside a removal: %v", err)
				}
				select {
				case err := <-over:
					if err != nil {
						t.Error(err)
					}
					done = true
				default:
				}
			}
		}
	})
}

// An archived task is forked from each checkpoint up to which it has 32 MiB. Of more, the task has to be restored first: this
// bound is of no database, and tried on SQLite alone.
func TestForksOfLargeArchivedTasks(t *testing.T) {
	for _, which := range pawltest.Databases { // one after the other: each looks at what is in the directory
		t.Run(string(which), func(t *testing.T) {
			p := pawltest.Open(t, which) // before: further tests have its database
			t.Setenv("TMPDIR", t.TempDir())
			forksOfALargeArchive(t, p)
		})
	}
}

func forksOfALargeArchive(t *testing.T, p *pawltest.Pawl) {
	ctx := t.Context()
	of := p.Create(pawl.NewTask{Type: "agent"}).ID
	l := p.Claim()
	rnd := rand.New(rand.NewPCG(3, 4))
	var snapshots []string
	file := need[pawl.Blob](t)(p.Engine.PutBlob(ctx, pawl.BlobUpload{Content: strings.NewReader("a file")}))
	over := p.Database == pawltest.SQLite || times(1, 2) == 2
	for range map[bool]int{true: 34, false: 4}[over] {
		snapshots = append(snapshots, `{"file":{"$blob":"`+file.Address+`"},"text":"`+text(rnd, 1_000_000)+`"}`)
		saved(t, p.Engine, l, "", []byte(snapshots[len(snapshots)-1]))
	}
	p.Complete(l, "")
	p.Advance(pawl.DefaultRetainTasks + time.Hour)
	for range 3 {
		need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
	}
	if over {
		_, err := forked(ctx, p.Engine, of, 34)
		if pawl.CodeOf(err) != pawl.CodeTooLarge || !strings.Contains(err.Error(), "restore the task first") {
			t.Errorf("a fork of 34 MB of an archived task: %v", err)
		}
	}
	task := need[pawl.Task](t)(forked(ctx, p.Engine, of, 2))
	list := need[pawl.List[pawl.Checkpoint]](t)(p.Engine.ListCheckpoints(ctx,
		pawl.CheckpointFilter{TaskID: task.ID, Page: pawl.Page{Limit: 9}})).Items
	if len(list) != 2 || string(list[0].Snapshot) != snapshots[0] || string(list[1].Snapshot) != snapshots[1] {
		t.Errorf("the fork at 2 has %d checkpoints, or others than were saved", len(list))
	}
	refs := typeFixture{T: t, Pawl: p}
	if n := refs.count("SELECT COUNT(*) FROM pawl.blob_refs"); n != 2 {
		t.Errorf("%d tasks refer to the file in the snapshots, want the archived one and its fork", n)
	}
	ok(t, p.Engine.Peek(ctx, readOnly{p.Engine.DB()}, of, func(ctx context.Context, tx store.Tx, archived bool) error {
		if _, err := store.GetTask(ctx, tx, pawl.DefaultNamespace, of); err != nil || !archived {
			t.Errorf("archived: %v, the task: %v", archived, err)
		}
		leftoversAreRemoved(t, p)
		return nil
	}))
}

// leftoversAreRemoved checks that a sweep removes what a killed process has left, and not what a live one is reading.
func leftoversAreRemoved(t *testing.T, p *pawltest.Pawl) {
	t.Helper()
	live := need[[]string](t)(filepath.Glob(filepath.Join(os.TempDir(), "pawl-archive-*")))
	dead := []string{filepath.Join(os.TempDir(), "pawl-archive-dead")}
	if p.Database == pawltest.SQLite {
		dead = append(dead, filepath.Join(strings.TrimPrefix(p.URL, "sqlite:")+".archives", "2020-01", "segment.1.part"))
	}
	for _, path := range dead {
		ok(t, os.MkdirAll(path, 0o700))
		ok(t, os.WriteFile(path+".held", nil, 0o600))
	}
	long := time.Now().Add(-time.Hour)
	for _, path := range append(slices.Clone(live), dead...) {
		ok(t, os.Chtimes(path, long, long))
		if !strings.HasSuffix(path, ".held") && !slices.Contains(live, path) {
			ok(t, os.Chtimes(path+".held", long, long))
		}
	}
	need[pawl.SweepStats](t)(p.Another(engine.Options{}).Sweep(t.Context()))
	for _, path := range live {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("of a live process: %v", err)
		}
	}
	for _, path := range dead {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there still: %v", path, err)
		}
	}
	if len(live) != 2 {
		t.Errorf("there are %v", live)
	}
}

// readOnly refuses transactions that write.
type readOnly struct{ store.DB }

func (readOnly) Do(context.Context, func(context.Context, store.Tx) error) error {
	return errors.New("it writes")
}
