package engine_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// noise returns n bytes that do not repeat, without holding them.
func noise(seed uint64, n int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{byte(seed)}), n)
}

func digest(t testing.TB, r io.Reader) (address string, size int64) {
	t.Helper()
	h := sha256.New()
	size, err := io.Copy(h, r)
	if err != nil {
		t.Fatal(err)
	}
	return pawl.BlobAddress(h.Sum(nil)), size
}

func openBlob(t testing.TB, svc pawl.BlobReader, address string) io.ReadSeekCloser {
	t.Helper()
	_, r, err := svc.OpenBlob(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// A blob of 64 MiB is stored and read in flat memory, by the engine.
func TestLargeBlobInFlatMemory(t *testing.T) {
	for _, which := range pawltest.Databases { // one after the other: the heap is that of one
		t.Run(string(which), func(t *testing.T) {
			p := pawltest.Open(t, which)
			const size = pawl.DefaultMaxBlobBytes
			want, _ := digest(t, noise(1, size))
			var put pawl.Blob
			grown := pawltest.HeapGrowth(func() {
				put = need[pawl.Blob](t)(p.Engine.PutBlob(t.Context(), pawl.BlobUpload{Content: noise(1, size)}))
				if got, n := digest(t, openBlob(t, p.Engine, want)); got != want || n != size {
					t.Errorf("%d bytes of %s were read", n, got)
				}
			})
			if put.Address != want || put.Size != size || put.Existed {
				t.Errorf("stored as %+v", put)
			}
			if t.Logf("the heap grew by %d KiB", grown>>10); grown > 16<<20 {
				t.Errorf("the heap grew by %d bytes", grown)
			}
			_, err := p.Engine.PutBlob(t.Context(), pawl.BlobUpload{Content: noise(2, size+1)})
			if !errors.Is(err, pawl.ErrTooLarge) {
				t.Errorf("one byte more: %v", err)
			}
			_, err = p.Engine.PutBlob(t.Context(), pawl.BlobUpload{Content: noise(2, 1), Size: size + 1})
			if !errors.Is(err, pawl.ErrTooLarge) {
				t.Errorf("announced: %v", err)
			}
			if n := queried(t, p, "SELECT COUNT(*) FROM pawl.uploads"); n != 1 {
				t.Errorf("%d uploads are stored", n)
			}
		})
	}
}

// Blobs are read in ranges, and of any size around that of a piece.
func TestBlobRanges(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		for _, size := range []int64{0, 1, pawl.MaxBlobPiece - 1, pawl.MaxBlobPiece, pawl.MaxBlobPiece + 1, 3 * pawl.MaxBlobPiece} {
			b := need[pawl.Blob](t)(p.Engine.PutBlob(t.Context(), pawl.BlobUpload{Content: noise(3, size)}))
			all, _ := io.ReadAll(noise(3, size))
			r := openBlob(t, p.Engine, b.Address)
			for _, at := range []int64{size, size / 2, 0, max(size-1, 0), min(size, pawl.MaxBlobPiece)} {
				if _, err := r.Seek(at, io.SeekStart); err != nil {
					t.Fatal(err)
				}
				if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, all[at:]) {
					t.Errorf("of %d bytes, %d were read from %d on: %v", size, len(got), at, err)
				}
			}
			if _, err := r.Seek(0, io.SeekStart); err != nil {
				t.Fatal(err)
			}
			if err := iotest.TestReader(r, all); err != nil && size < 2*pawl.MaxBlobPiece {
				t.Error(err)
			}
		}
	})
}

// An upload that is cut off, or is not what it is said to be, leaves nothing.
func TestRefusedUploads(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, cancel := context.WithCancel(t.Context())
		other, _ := digest(t, strings.NewReader("other"))
		content := func(more io.Reader) io.Reader { return io.MultiReader(noise(4, pawl.MaxBlobPiece+5), more) }
		for name, upload := range map[string]pawl.BlobUpload{
			"cut off":         {Content: content(iotest.ErrReader(io.ErrUnexpectedEOF))},
			"wrong digest":    {Content: content(strings.NewReader("")), Address: other},
			"wrong size":      {Content: content(strings.NewReader("")), Size: 7},
			"not an address":  {Content: content(strings.NewReader("")), Address: "sha256:AB"},
			"negative size":   {Content: content(strings.NewReader("")), Size: -1},
			"without content": {},
		} {
			if _, err := p.Engine.PutBlob(ctx, upload); !errors.Is(err, pawl.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
		_, err := p.Engine.PutBlob(ctx, pawl.BlobUpload{Content: content(readerFunc(func(b []byte) (int, error) {
			cancel()
			return 1, nil
		}))})
		if !errors.Is(err, pawl.ErrUnavailable) {
			t.Errorf("cancelled: %v", err)
		}
		if n := queried(t, p, "SELECT (SELECT COUNT(*) FROM pawl.uploads) + (SELECT COUNT(*) FROM pawl.upload_pieces)"); n != 0 {
			t.Errorf("%d rows are left", n)
		}
		if _, _, err := p.Engine.OpenBlob(t.Context(), other); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("an unknown address: %v", err)
		}
		if _, _, err := p.Engine.OpenBlob(t.Context(), "sha256:x"); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("no address: %v", err)
		}
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// The same content is stored once in a namespace, also by uploads at the same time, and is
// not found in another namespace.
func TestSameContentIsStoredOnce(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		const size = 3*pawl.MaxBlobPiece + 1
		var all sync.WaitGroup
		var fresh [8]bool
		var address string
		for i := range fresh {
			all.Go(func() {
				b, err := p.Engine.PutBlob(t.Context(), pawl.BlobUpload{Content: noise(5, size), Size: size})
				if err != nil {
					t.Error(err)
				}
				if fresh[i] = !b.Existed; fresh[i] {
					address = b.Address
				}
			})
		}
		all.Wait()
		if n := slices.Index(fresh[:], true); n < 0 || slices.Contains(fresh[n+1:], true) {
			t.Errorf("stored by %v", fresh)
		}
		if n := queried(t, p, "SELECT COUNT(*) FROM pawl.upload_pieces"); n != 4 {
			t.Errorf("%d pieces are stored", n)
		}
		elsewhere := pawl.As(t.Context(), pawl.Caller{Namespace: "elsewhere"})
		if _, _, err := p.Engine.OpenBlob(elsewhere, address); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("in another namespace: %v", err)
		}
		if b := need[pawl.Blob](t)(p.Engine.PutBlob(elsewhere, pawl.BlobUpload{Content: noise(5, size)})); b.Existed {
			t.Error("another namespace has it already")
		}
	})
}

// Uploads that were cut off are removed an hour later, uploaded blobs that
// are not referred to a day later: first they cannot be found, and an hour later their bytes are gone.
func TestSweepsRemoveUploads(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		begun, goOn := make(chan bool), make(chan bool)
		ended := make(chan error, 1)
		go func() { // frozen in the middle of its upload
			_, err := p.Engine.PutBlob(t.Context(), pawl.BlobUpload{Content: io.MultiReader(noise(6, 2*pawl.MaxBlobPiece),
				readerFunc(func(b []byte) (int, error) {
					close(begun)
					<-goOn
					return 0, io.EOF
				}))})
			ended <- err
		}()
		<-begun
		another := p.Another(engine.Options{})
		b := need[pawl.Blob](t)(another.PutBlob(t.Context(), pawl.BlobUpload{Content: noise(7, 2*pawl.MaxBlobPiece)}))
		left := func(rows int64) {
			t.Helper()
			need[pawl.SweepStats](t)(another.Sweep(t.Context()))
			if n := queried(t, p, "SELECT COUNT(*) FROM pawl.upload_pieces"); n != rows {
				t.Errorf("%d pieces are left, not %d", n, rows)
			}
		}
		left(4)
		p.Advance(pawl.DefaultRetainUploads + time.Minute)
		left(2)
		close(goOn)
		if err := <-ended; !errors.Is(err, pawl.ErrUnavailable) {
			t.Errorf("an upload that was removed: %v", err)
		}
		r := openBlob(t, another, b.Address)
		p.Advance(pawl.DefaultRetainBlobs)
		left(2)
		if _, _, err := another.OpenBlob(t.Context(), b.Address); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("a blob that was removed: %v", err)
		}
		if got, _ := digest(t, r); got != b.Address {
			t.Error("who was reading it reads something else")
		}
		p.Advance(pawl.DefaultRetainUploads + time.Minute)
		left(0)
		if n := queried(t, p, "SELECT COUNT(*) FROM pawl.uploads"); n != 0 {
			t.Errorf("%d uploads are left", n)
		}
	})
}

// All blobs that are unused are removed in one pass, however many there are.
func TestAPassRemovesAllUnusedBlobs(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		for i := range 2500 {
			if err := p.Exec("INSERT INTO pawl.blobs (namespace, address, base, depth, chain, size, body, used_at) "+
				"VALUES ('default', $1, NULL, 0, 1, 1, $1, 0)", fmt.Appendf(nil, "%05d", i)); err != nil {
				t.Fatal(err)
			}
		}
		need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
		if n := queried(t, p, "SELECT COUNT(*) FROM pawl.blobs"); n != 0 {
			t.Errorf("%d blobs are left", n)
		}
	})
}

// A size that was changed is named by doctor and by a read, which allocates nothing for it.
func TestTheSizeOfABlobIsChecked(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "agent"}))
		l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0]
		turns := []string{strings.Repeat("a turn that is said ", 1000)}
		saved(t, p.Engine, l, "state", state(turns, 0))
		saved(t, p.Engine, l, "state", state(append(turns, "more"), 1)) // a delta
		another := p.Another(engine.Options{})
		for _, size := range []int64{-1, 0, 7, 1 << 60} {
			if err := p.Exec("UPDATE pawl.blobs SET chain = size, size = $1", size); err != nil {
				t.Fatal(err)
			}
			_, err := another.Resume(t.Context(), l.ID)
			if !errors.Is(err, pawl.ErrInternal) || !strings.Contains(err.Error(), "has a size that is not its text's") {
				t.Errorf("size %d: %v", size, err)
			}
			if n := len(need[[]engine.Breach](t)(p.Engine.Check(t.Context()))); n != 2 {
				t.Errorf("size %d: doctor names %d blobs", size, n)
			}
			if err := p.Exec("UPDATE pawl.blobs SET size = chain"); err != nil {
				t.Fatal(err)
			}
		}
		need[pawl.ResumeState](t)(another.Resume(t.Context(), l.ID))
	})
}

// Doctor and a read from beginning to end name an uploaded blob whose bytes were changed or
// removed.
func TestDamagedUploadsAreNamed(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		const size = 3*pawl.MaxBlobPiece + 7
		for i, harm := range []string{
			"UPDATE pawl.upload_pieces SET body = (SELECT body FROM pawl.upload_pieces WHERE number = 0 AND upload_id = $1) " +
				"WHERE number = 1 AND upload_id = $1",
			"DELETE FROM pawl.upload_pieces WHERE number = 2 AND upload_id = $1",
			"DELETE FROM pawl.upload_pieces WHERE number = 3 AND upload_id = $1",
		} {
			b := need[pawl.Blob](t)(p.Engine.PutBlob(t.Context(), pawl.BlobUpload{Content: noise(uint64(i), size)}))
			var id string
			err := p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) error {
				sum, _ := pawl.ParseBlobAddress(b.Address)
				_, err := store.Row(ctx, tx, []any{&id}, "SELECT upload_id FROM pawl.uploaded_blobs WHERE address = $1", sum)
				return err
			})
			if err == nil {
				err = p.Exec(harm, id)
			}
			if err != nil {
				t.Fatal(err)
			}
			breaches := need[[]engine.Breach](t)(p.Engine.Check(t.Context()))
			if len(breaches) != 1 || !slices.ContainsFunc(breaches, func(f engine.Breach) bool {
				return f.Rule == "blob contents" && strings.Contains(f.Subject, b.Address) && f.Repair != ""
			}) {
				t.Errorf("after %s doctor finds %+v", harm, breaches)
			}
			if _, err := io.Copy(io.Discard, openBlob(t, p.Engine, b.Address)); err == nil || !strings.Contains(err.Error(), b.Address) {
				t.Errorf("after %s a read ends with %v", harm, err)
			}
			if again := need[pawl.Blob](t)(p.Engine.PutBlob(t.Context(), pawl.BlobUpload{Content: noise(uint64(i), size)})); !again.Existed {
				if got, n := digest(t, openBlob(t, p.Engine, b.Address)); got != b.Address || n != size {
					t.Errorf("after %s and another upload %d bytes of %s are read", harm, n, got)
				}
			} else if i > 0 {
				t.Errorf("after %s an upload does not mend the blob", harm)
			}
			for _, mend := range []string{"DELETE FROM pawl.uploaded_blobs", "DELETE FROM pawl.uploads"} {
				if err := p.Exec(mend); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// A blob that a value refers to stays as long as the task, or its fork, has the value. TestEveryDoorKeepsBlobs has all
// verbs that store values.
func TestReferredBlobsStay(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		var all []string
		refers := func() json.RawMessage {
			all = append(all, need[pawl.Blob](t)(p.Engine.PutBlob(ctx, pawl.BlobUpload{Content: noise(uint64(len(all)), 1000)})).Address)
			return json.RawMessage(`{"files": [{"$blob" : "` + all[len(all)-1] + `"}], "note": "\"$blob\": \"sha256:x\""}`)
		}
		p.Create(pawl.NewTask{Type: "t", Payload: json.RawMessage(`"about $blob"`)})
		task := p.Create(pawl.NewTask{Type: "m", Items: []pawl.NewItem{{Input: refers()}}})
		l := p.Claim("m")
		saved(t, p.Engine, l, "s", refers())
		p.Complete(l, string(refers()))
		refers() // unused
		fork := need[pawl.Task](t)(forked(ctx, p.Engine, task.ID, 1))
		stay := func(when string, want ...bool) {
			t.Helper()
			for _, after := range []time.Duration{2 * time.Hour, pawl.DefaultRetainBlobs + time.Hour} {
				p.Advance(after)
				need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
			}
			for i, address := range all {
				_, r, err := p.Engine.OpenBlob(ctx, address)
				if err == nil {
					r.Close()
				}
				if (err == nil) != want[i] {
					t.Errorf("%s, blob %d: %v", when, i, err)
				}
			}
		}
		stay("of a task", true, true, true, false)
		need[string](t)(first(p.Engine.DeleteTasks(ctx, []pawl.TaskCall{{TaskID: task.ID}})))
		stay("of its fork", true, true, true, false) // a fork keeps all blobs of its task
		need[string](t)(first(p.Engine.DeleteTasks(ctx, []pawl.TaskCall{{TaskID: fork.ID, Force: true}})))
		stay("deleted", false, false, false, false)
		if rows := queried(t, p, "SELECT COUNT(*) FROM pawl.blob_refs"); rows != 0 {
			t.Errorf("%d references stay", rows)
		}
	})
}

// What belongs to no task keeps its blobs too: a schedule, whose later ticks make tasks of
// them, a signal and the answer of a key. The first messages of a task are the task's.
func TestBlobsOfWhatIsNoTaskStay(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, n := t.Context(), uint64(0)
		var kept []string
		keep := func() json.RawMessage {
			n++
			kept = append(kept, need[pawl.Blob](t)(p.Engine.PutBlob(ctx, pawl.BlobUpload{Content: noise(n, 1000)})).Address)
			return json.RawMessage(`{"file": {"$blob": "` + kept[len(kept)-1] + `"}}`)
		}
		schedule := pawl.NewSchedule{Name: "s", EverySeconds: 86400, CatchUp: "last", Task: pawl.NewTask{Type: "t", Payload: keep()}}
		need[pawl.Schedule](t)(p.Engine.CreateSchedule(ctx, schedule))
		need[pawl.Signalled](t)(first(p.Engine.SendSignals(ctx, []pawl.SignalCall{{Name: "n", Payload: keep()}})))
		b := need[pawl.KeyBegun](t)(first(p.Engine.BeginKeys(ctx, []pawl.KeyBegin{{Key: "k", RequestHash: "h", TTLSeconds: -1}})))
		need[pawl.Key](t)(first(p.Engine.CompleteKeys(ctx, []pawl.KeyDone{{Key: "k", Token: b.Token, Response: keep()}})))

		there := func() (n int) {
			for _, address := range kept {
				if _, r, err := p.Engine.OpenBlob(ctx, address); err == nil {
					r.Close()
					n++
				}
			}
			return n
		}
		for range 3 {
			p.Advance(pawl.DefaultRetainBlobs + time.Hour)
			need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
			if there() != len(kept) {
				t.Fatalf("%d of %d blobs are left", there(), len(kept))
			}
		}
		if s := need[pawl.Schedule](t)(p.Engine.GetSchedule(ctx, "s")); s.Error != nil || s.LastTaskID == nil {
			t.Errorf("the schedule: %+v", s)
		}

		missing := json.RawMessage(`{"$blob":"sha256:` + strings.Repeat("0", 64) + `"}`)
		schedule.Name, schedule.Task.Payload = "m", missing
		if _, err := p.Engine.CreateSchedule(ctx, schedule); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("a schedule refers to a blob that is not there: %v", err)
		}
		if _, err := first(p.Engine.SendSignals(ctx, []pawl.SignalCall{{Name: "m", Payload: missing}})); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("a signal refers to a blob that is not there: %v", err)
		}
		b = need[pawl.KeyBegun](t)(first(p.Engine.BeginKeys(ctx, []pawl.KeyBegin{{Key: "m", RequestHash: "h"}})))
		need[pawl.Key](t)(first(p.Engine.CompleteKeys(ctx, []pawl.KeyDone{{Key: "m", Token: b.Token, Response: missing}})))
	})
}

// The answer of a call under a key uses its blobs, also those that were used last long before.
func TestBlobsOfAnAnswerStay(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		var made []string
		for n := range uint64(2) {
			made = append(made, need[pawl.Blob](t)(p.Engine.PutBlob(ctx, pawl.BlobUpload{Content: noise(n, 1000)})).Address)
		}
		p.Advance(pawl.DefaultRetainBlobs + time.Hour)
		_, _, err := p.Engine.Idempotent(ctx, pawl.KeyBegin{Scope: "s", Key: "k", RequestHash: "h"},
			func(context.Context, pawl.Service) (*pawl.Answer, error) {
				return &pawl.Answer{Code: 200, Type: "application/json", Body: []byte(`{"payload":{"$blob":"` + made[0] + `"}}`)}, nil
			})
		ok(t, err)
		need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
		for i, address := range made {
			_, r, err := p.Engine.OpenBlob(ctx, address)
			if err == nil {
				r.Close()
			}
			if there := err == nil; there != (i == 0) {
				t.Errorf("blob %d: %v", i, err)
			}
		}
	})
}
