package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// text returns n bytes that do not repeat.
func text(rnd *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyz ABCDEF"[rnd.IntN(33)]
	}
	return string(b)
}

// state is what agent frameworks save at each step: all of the conversation, with values
// before and after it that change each time.
func state(turns []string, n int) json.RawMessage {
	out, _ := json.Marshal(map[string]any{"at": n * 7919, "id": fmt.Sprint("checkpoint-", n), "messages": turns,
		"versions": map[string]int{"messages": n, "start": 1}})
	return out
}

func saved(t testing.TB, svc pawl.Service, l pawl.Lease, name string, snapshot json.RawMessage) pawl.CheckpointRef {
	t.Helper()
	return need[pawl.CheckpointRef](t)(first(svc.Checkpoint(t.Context(), []pawl.CheckpointCall{{Fence: l.Fence(),
		NewCheckpoint: pawl.NewCheckpoint{Type: pawl.LLMResponse, Name: name, Snapshot: snapshot}}})))
}

const storedOfSnapshots = `SELECT
  (SELECT SUM(octet_length(address) + COALESCE(octet_length(base), 0) + octet_length(body)) FROM pawl.blobs) +
  (SELECT SUM(COALESCE(octet_length(snapshot), 0) + COALESCE(octet_length(blob), 0)) FROM pawl.checkpoints)`

// A conversation of 1,000 turns that is saved whole at each turn stores little more than its
// turns, and every snapshot is read as it was saved.
func TestGrowingStateIsStoredOnce(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "agent"}))
		l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: pawl.MaxLeaseSeconds}, 1)[0]
		rnd := rand.New(rand.NewPCG(1, 2))
		var turns []string
		var want [][]byte
		count := times(400, 1000)
		for n := range count {
			turns = append(turns, text(rnd, 500+rnd.IntN(1000)))
			want = append(want, state(turns, n))
			saved(t, p.Engine, l, "state", want[n])
		}
		unique := len(want[len(want)-1])
		stored := queried(t, p, storedOfSnapshots)
		t.Logf("%.3f of %d unique bytes", float64(stored)/float64(unique), unique)
		if stored > int64(unique)*13/10 {
			t.Errorf("%d bytes are stored, %d are unique", stored, unique)
		}
		another := p.Another(engine.Options{}) // has nothing in its cache
		resumed := need[pawl.ResumeState](t)(another.Resume(t.Context(), l.ID))
		if !bytes.Equal(resumed.Newest.Snapshot, want[count-1]) || !bytes.Equal(resumed.Steps["state"].Snapshot, want[count-1]) {
			t.Error("the newest is not what was saved")
		}
		for _, at := range []int{0, 1, 5, count / 2, count - 2} {
			c := need[pawl.List[pawl.Checkpoint]](t)(another.ListCheckpoints(t.Context(),
				pawl.CheckpointFilter{TaskID: task.ID, Page: pawl.Page{Limit: 1, Cursor: fmt.Sprint(at)}})).Items[0]
			if !bytes.Equal(c.Snapshot, want[at]) {
				t.Errorf("checkpoint %d is not what was saved", at+1)
			}
		}
	})
}

// Names may end in versions with a random fraction, as those of the values of a graph do: each is
// stored as its difference from the version before.
func TestGrowingVersionsAreStoredOnce(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "agent"}))
		l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: pawl.MaxLeaseSeconds}, 1)[0]
		rnd := rand.New(rand.NewPCG(5, 2))
		var turns []string
		for n := range 60 {
			turns = append(turns, text(rnd, 4000))
			saved(t, p.Engine, l, fmt.Sprintf("b/messages/%v/0/", float64(n)+rnd.Float64()), state(turns, n))
		}
		unique := len(state(turns, 59))
		if stored := queried(t, p, storedOfSnapshots); stored > int64(unique)*13/10 {
			t.Errorf("%d bytes are stored, %d are unique", stored, unique)
		}
	})
}

// Retention keeps the blobs that checkpoints need, also through others, and removes the rest
// a day after their last use.
func TestRetentionRemovesUnusedBlobs(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "agent"}))
		l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: pawl.MaxLeaseSeconds}, 1)[0]
		rnd := rand.New(rand.NewPCG(3, 2))
		turns := []string{text(rnd, 2*pawl.MinBlobBytes)}
		for n := range 120 {
			turns = append(turns, text(rnd, 50))
			saved(t, p.Engine, l, "state", state(turns, n))
		}
		sweep := func() {
			t.Helper()
			need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
		}
		sweep()
		if n := queried(t, p, "SELECT COUNT(*) FROM pawl.checkpoints"); n != 100 {
			t.Fatalf("%d checkpoints are kept", n)
		}
		need[pawl.Moved](t)(first(p.Engine.Complete(t.Context(), []pawl.CompleteCall{{Fence: l.Fence()}})))
		p.Advance(pawl.DefaultRetainBlobs + time.Hour)
		sweep()
		if n := queried(t, p, "SELECT COUNT(*) FROM pawl.blobs"); n != 120 {
			t.Errorf("%d blobs are left, 120 are needed", n)
		}
		p.Advance(pawl.DefaultRetainTasks)
		sweep()
		sweep()
		if n := queried(t, p, "SELECT COUNT(*) FROM pawl.blobs"); n != 0 {
			t.Errorf("%d blobs of an archived task are left", n)
		}
		need[pawl.Task](t)(p.Engine.RestoreArchive(t.Context(), task.ID))
		c := need[pawl.List[pawl.Checkpoint]](t)(p.Engine.ListCheckpoints(t.Context(),
			pawl.CheckpointFilter{TaskID: task.ID, Desc: true, Page: pawl.Page{Limit: 1}})).Items[0]
		if !bytes.Equal(c.Snapshot, state(turns, 119)) {
			t.Error("a restored snapshot is not what was saved")
		}
	})
}

// A blob that is referred to while retention looks for unused ones stays.
func TestRetentionBesideSavers(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		rnd := rand.New(rand.NewPCG(4, 2))
		values := make([]json.RawMessage, 4) // few: all savers refer to the same blobs
		for i := range values {
			values[i] = state([]string{text(rnd, pawl.MinBlobBytes)}, i)
		}
		need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "agent", Items: make([]pawl.NewItem, 4)}))
		ls := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Limit: 4, LeaseSeconds: pawl.MaxLeaseSeconds}, 4)
		ctx, cancel := context.WithCancel(t.Context())
		var sweeper, savers sync.WaitGroup
		sweeper.Go(func() {
			for ctx.Err() == nil {
				err := p.Engine.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
					now, err := tx.Now(ctx)
					if err != nil {
						return err
					}
					idle, _, err := store.IdleBlobs(ctx, tx, now, store.BlobPlace{}, 100)
					if err == nil {
						_, err = store.RemoveBlobs(ctx, tx, now, idle)
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
		for i, l := range ls {
			savers.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(i), 9))
				for range 40 {
					c := pawl.CheckpointCall{Fence: l.Fence(), NewCheckpoint: pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Name: "x",
						Snapshot: values[rnd.IntN(len(values))]}}
					if _, err := first(p.Engine.Checkpoint(t.Context(), []pawl.CheckpointCall{c})); err != nil {
						t.Error(err)
					}
					_ = p.Exec("UPDATE pawl.blobs SET used_at = 0") // as if a day had passed
				}
			})
		}
		savers.Wait()
		cancel()
		sweeper.Wait()
		l := need[pawl.List[pawl.Checkpoint]](t)(
			p.Engine.ListCheckpoints(t.Context(), pawl.CheckpointFilter{Page: pawl.Page{Limit: pawl.MaxPage}}))
		for _, c := range l.Items {
			if !slices.ContainsFunc(values, func(v json.RawMessage) bool { return bytes.Equal(v, c.Snapshot) }) {
				t.Fatalf("checkpoint %d is %.40s", c.Sequence, c.Snapshot)
			}
		}
	})
}

// A blob that is missing or was changed is named by doctor and by the error of a read, and
// the next snapshot is saved all the same.
func TestDamagedBlobsAreNamed(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "agent"}))
		l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: pawl.MaxLeaseSeconds}, 1)[0]
		rnd := rand.New(rand.NewPCG(5, 2))
		turns := []string{text(rnd, 2*pawl.MinBlobBytes)}
		saved(t, p.Engine, l, "state", state(turns, 0))
		turns = append(turns, text(rnd, 50))
		saved(t, p.Engine, l, "state", state(turns, 1))
		base := store.NewBlob(state(turns[:1], 0)).Address
		another := p.Another(engine.Options{})
		change := func(sql string, args ...any) {
			t.Helper()
			if err := p.Exec(sql, args...); err != nil {
				t.Fatal(err)
			}
		}
		body := []byte(state(turns[:1], 0))
		for _, damage := range []struct{ sql, rule, says string }{
			{"UPDATE pawl.blobs SET body = address WHERE address = $1", "blob contents", "was changed"},
			{"UPDATE pawl.blobs SET namespace = 'gone' WHERE address = $1", "blobs", "is missing"},
		} {
			change(damage.sql, base)
			breaches := need[[]engine.Breach](t)(p.Engine.Check(t.Context()))
			if !slices.ContainsFunc(breaches, func(b engine.Breach) bool {
				return b.Rule == damage.rule && strings.Contains(b.Subject+b.Found, store.BlobName(base))
			}) {
				t.Errorf("doctor finds %v", breaches)
			}
			_, err := another.Resume(t.Context(), l.ID)
			if err == nil || !strings.Contains(fmt.Sprint(err), store.BlobName(base)+" "+damage.says) {
				t.Errorf("a read answers %v", err)
			}
			need[pawl.CheckpointRef](t)(first(another.CheckpointTasks(t.Context(), []pawl.TaskCheckpoint{{TaskID: task.ID,
				NewCheckpoint: pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Snapshot: state(turns, 2)}}})))
			change("UPDATE pawl.blobs SET namespace = 'default', body = $2 WHERE address = $1", base, body)
		}
		need[pawl.ResumeState](t)(another.Resume(t.Context(), l.ID))
	})
}
