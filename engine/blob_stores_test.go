package engine_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/engine/internal/blobs"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/objects"
)

// outside runs a test on every database with blobs in a directory. files lists what is in it.
func outside(t *testing.T, fn func(t *testing.T, p *pawltest.Pawl, dir *objects.Directory, files func() []string)) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			path := t.TempDir()
			dir := directory(t, path)
			fn(t, pawltest.OpenWith(t, which, engine.Options{Blobs: dir}), dir, func() []string { return objectsIn(t, path) })
		})
	}
}

func directory(t testing.TB, path string) *objects.Directory {
	t.Helper()
	return need[*objects.Directory](t)(objects.OpenDirectory(t.Context(), path))
}

// objectsIn lists the files of a directory of blobs, without its name.
func objectsIn(t testing.TB, path string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != "pawl-blobs" {
			out = append(out, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Blobs in a directory that two engines share are stored once, read from both, and removed
// like those in the database.
func TestBlobsInADirectory(t *testing.T) {
	outside(t, func(t *testing.T, p *pawltest.Pawl, dir *objects.Directory, files func() []string) {
		const size = 3*pawl.MaxBlobPiece + 7
		another := p.Another(engine.Options{Blobs: dir})
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				svc := []pawl.BlobWriter{p.Engine, another}[i%2]
				if _, err := svc.PutBlob(t.Context(), pawl.BlobUpload{Content: noise(1, size)}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		want, _ := digest(t, noise(1, size))
		if got, n := digest(t, openBlob(t, another, want)); got != want || n != size {
			t.Errorf("%d bytes of %s are read", n, got)
		}
		if n := queried(t, p, "SELECT COUNT(*) FROM pawl.upload_pieces"); n != 0 || len(files()) != 1 {
			t.Errorf("%d pieces are in the database, %v in the directory", n, files())
		}
		text, _ := io.ReadAll(noise(1, size))
		r := openBlob(t, p.Engine, want)
		if _, err := r.Seek(-10, io.SeekEnd); err != nil {
			t.Fatal(err)
		}
		if tail, err := io.ReadAll(r); err != nil || !bytes.Equal(tail, text[size-10:]) {
			t.Errorf("the last bytes are %d others, %v", len(tail), err)
		}
		p.Advance(pawl.DefaultRetainBlobs + time.Minute)
		need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
		if _, _, err := another.OpenBlob(t.Context(), want); !errors.Is(err, pawl.ErrNotFound) || len(files()) != 1 {
			t.Errorf("unused for a day: %v, and the files are %v", err, files())
		}
		p.Advance(pawl.DefaultRetainUploads + time.Minute)
		need[pawl.SweepStats](t)(another.Sweep(t.Context()))
		if n := queried(t, p, "SELECT COUNT(*) FROM pawl.uploads"); n != 0 || len(files()) != 0 {
			t.Errorf("%d uploads and %v are left", n, files())
		}
	})
}

// stubborn does not remove objects while refuses is set.
type stubborn struct {
	objects.Store
	refuses bool
	one     bool // the first is refused
	asked   int
}

func (s *stubborn) Remove(ctx context.Context, key string) error {
	if s.asked++; s.refuses || s.one && s.asked == 1 {
		return errors.New("not now")
	}
	return s.Store.Remove(ctx, key)
}

// A removal that fails is tried again an hour later. The same content may be uploaded in the
// meantime: it is another object.
func TestFailedRemovalsAreRetried(t *testing.T) {
	outside(t, func(t *testing.T, p *pawltest.Pawl, dir *objects.Directory, files func() []string) {
		from := &stubborn{Store: dir, refuses: true}
		e := p.Another(engine.Options{Blobs: from})
		b := need[pawl.Blob](t)(e.PutBlob(t.Context(), pawl.BlobUpload{Content: noise(2, 1000)}))
		sweep := func(after time.Duration) {
			p.Advance(after)
			need[pawl.SweepStats](t)(e.Sweep(t.Context()))
		}
		sweep(pawl.DefaultRetainBlobs + time.Minute)
		if again := need[pawl.Blob](t)(e.PutBlob(t.Context(), pawl.BlobUpload{Content: noise(2, 1000)})); again.Existed {
			t.Error("a blob that was removed exists")
		}
		for n := range 3 {
			if sweep(pawl.DefaultRetainUploads + time.Minute); from.asked != n+1 || len(files()) != 2 {
				t.Errorf("%d removals were tried, and %v is left", from.asked, files())
			}
			sweep(time.Minute)
		}
		from.refuses = false
		if sweep(pawl.DefaultRetainUploads + time.Minute); len(files()) != 1 {
			t.Errorf("%v is left", files())
		}
		if got, _ := digest(t, openBlob(t, e, b.Address)); got != b.Address {
			t.Errorf("%s is read", got)
		}
	})
}

// A store that refuses all removals is asked three times in a pass, and for the rest an hour
// later. One object that cannot be removed does not keep the others.
func TestAStoreThatRefusesRemovals(t *testing.T) {
	outside(t, func(t *testing.T, p *pawltest.Pawl, dir *objects.Directory, files func() []string) {
		from := &stubborn{Store: dir, refuses: true}
		e := p.Another(engine.Options{Blobs: from})
		for n := range uint64(6) {
			need[pawl.Blob](t)(e.PutBlob(t.Context(), pawl.BlobUpload{Content: noise(n, 1000)}))
		}
		sweep := func(after time.Duration, asked, left int) {
			t.Helper()
			from.asked = 0
			p.Advance(after)
			need[pawl.SweepStats](t)(e.Sweep(t.Context()))
			if from.asked != asked || len(files()) != left {
				t.Errorf("%d removals were tried, and %d objects are left", from.asked, len(files()))
			}
		}
		hour := pawl.DefaultRetainUploads + time.Minute
		sweep(pawl.DefaultRetainBlobs+time.Minute, 0, 6)
		sweep(hour, 3, 6)
		sweep(time.Minute, 0, 6)
		from.refuses, from.one = false, true
		sweep(hour, 6, 1)
		from.one = false
		sweep(hour, 1, 0)
	})
}

// A sweep that removes a frozen upload leaves no object, also if the upload goes on after
// all its bytes were removed.
func TestAnUploadThatWasRemovedLeavesNoObject(t *testing.T) {
	outside(t, func(t *testing.T, p *pawltest.Pawl, dir *objects.Directory, files func() []string) {
		late := &lateStore{Store: dir, begun: make(chan bool), goOn: make(chan bool)}
		e := p.Another(engine.Options{Blobs: late})
		ended := make(chan error)
		go func() {
			_, err := e.PutBlob(t.Context(), pawl.BlobUpload{Content: noise(3, 1000)})
			ended <- err
		}()
		<-late.begun
		p.Advance(pawl.DefaultRetainUploads + time.Minute)
		need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
		close(late.goOn)
		if err := <-ended; !errors.Is(err, pawl.ErrUnavailable) {
			t.Errorf("an upload that was removed: %v", err)
		}
		if n := queried(t, p, "SELECT COUNT(*) FROM pawl.uploads"); n != 0 || len(files()) != 0 {
			t.Errorf("%d uploads and %v are left", n, files())
		}
	})
}

// silent is a store that does not answer a removal before its context ends.
type silent struct {
	objects.Store
	waits time.Duration // how long the last removal may wait
}

func (s *silent) Remove(ctx context.Context, _ string) error {
	end, bounded := ctx.Deadline()
	if s.waits = time.Until(end); !bounded {
		s.waits = time.Hour
	}
	return errors.New("no answer")
}

// An upload that is not needed does not wait long for a store that does not answer; a sweep
// removes it.
func TestAStoreThatDoesNotAnswer(t *testing.T) {
	outside(t, func(t *testing.T, p *pawltest.Pawl, dir *objects.Directory, files func() []string) {
		s := &silent{Store: dir}
		e := p.Another(engine.Options{Blobs: s})
		for existed := range 2 {
			b := need[pawl.Blob](t)(e.PutBlob(t.Context(), pawl.BlobUpload{Content: noise(1, 1000)}))
			if b.Existed != (existed == 1) {
				t.Errorf("upload %d: %+v", existed, b)
			}
		}
		if s.waits <= 0 || s.waits > 10*time.Second {
			t.Errorf("it is waited for %v", s.waits)
		}
		p.Advance(pawl.DefaultRetainUploads + time.Minute)
		need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
		if len(files()) != 1 {
			t.Errorf("%v is left", files())
		}
	})
}

// denied is a store that reads nothing, and does not say that objects are missing, while denies
// is set. A full one writes nothing.
type denied struct {
	objects.Store
	denies, full bool
}

func (d *denied) Read(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	if d.denies {
		return nil, errors.New("AccessDenied")
	}
	return d.Store.Read(ctx, key, offset)
}

func (d *denied) Write(ctx context.Context, key string, r io.Reader) error {
	if d.full {
		return errors.New("no space left on device")
	}
	return d.Store.Write(ctx, key, r)
}

// An upload whose bytes were stored before, where they cannot be read, takes their place: the
// store may not say that they are missing.
func TestAnUploadReplacesWhatCannotBeRead(t *testing.T) {
	outside(t, func(t *testing.T, p *pawltest.Pawl, dir *objects.Directory, files func() []string) {
		s := &denied{Store: dir}
		e := p.Another(engine.Options{Blobs: s})
		b := need[pawl.Blob](t)(e.PutBlob(t.Context(), pawl.BlobUpload{Content: noise(1, 1000)}))
		if err := os.Remove(files()[0]); err != nil {
			t.Fatal(err)
		}
		s.denies = true
		if again := need[pawl.Blob](t)(e.PutBlob(t.Context(), pawl.BlobUpload{Content: noise(1, 1000)})); again.Existed || len(files()) != 1 {
			t.Errorf("uploaded again: %+v, and the files are %v", again, files())
		}
		if _, err := io.ReadAll(openBlob(t, e, b.Address)); !errors.Is(err, pawl.ErrUnavailable) {
			t.Errorf("a store that denies access: %v", err)
		}
		s.denies, s.full = false, true
		if got, _ := digest(t, openBlob(t, e, b.Address)); got != b.Address {
			t.Errorf("%s is read", got)
		}
		_, err := e.PutBlob(t.Context(), pawl.BlobUpload{Content: noise(2, 1000)})
		if !errors.Is(err, pawl.ErrUnavailable) || errors.Unwrap(err) == nil {
			t.Errorf("a full store: %v", err)
		}
	})
}

// lateStore begins to write late.
type lateStore struct {
	objects.Store
	begun, goOn chan bool
}

func (l *lateStore) Write(ctx context.Context, key string, r io.Reader) error {
	close(l.begun)
	<-l.goOn
	return l.Store.Write(ctx, key, r)
}

// Doctor names a blob whose object is missing, cut off or changed, or in a store that is not
// configured; another upload of its bytes repairs it if they are missing.
func TestDamagedObjectsAreNamed(t *testing.T) {
	outside(t, func(t *testing.T, p *pawltest.Pawl, dir *objects.Directory, files func() []string) {
		const size = 5000
		for what, harm := range map[string]func(path string) error{
			"bytes of it are missing":     os.Remove,
			"bytes of it are missing:":    func(path string) error { return os.Truncate(path, size-1) },
			"what it stores was changed:": func(path string) error { return os.WriteFile(path, make([]byte, size), 0o600) },
		} {
			b := need[pawl.Blob](t)(p.Engine.PutBlob(t.Context(), pawl.BlobUpload{Content: noise(4, size)}))
			if err := harm(files()[0]); err != nil {
				t.Fatal(err)
			}
			named(t, p.Engine, b.Address, what)
			if _, err := io.Copy(io.Discard, openBlob(t, p.Engine, b.Address)); !errors.Is(err, pawl.ErrInternal) {
				t.Errorf("%s: a read ends with %v", what, err)
			}
			if strings.Contains(what, "changed") {
				if err := os.Remove(files()[0]); err != nil {
					t.Fatal(err)
				}
			}
			if again := need[pawl.Blob](t)(p.Engine.PutBlob(t.Context(), pawl.BlobUpload{Content: noise(4, size)})); again.Existed {
				t.Errorf("%s: an upload does not repair it", what)
			}
			if got, n := digest(t, openBlob(t, p.Engine, b.Address)); got != b.Address || n != size {
				t.Errorf("%s: %d bytes of %s are read", what, n, got)
			}
			p.Advance(pawl.DefaultRetainBlobs + time.Minute)
			need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
			p.Advance(2 * pawl.DefaultRetainUploads)
			need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
		}
	})
}

func named(t *testing.T, e *engine.Engine, address, what string) {
	t.Helper()
	found := need[[]engine.Breach](t)(e.Check(t.Context()))
	if len(found) != 1 || !strings.Contains(found[0].Subject, address) || !strings.Contains(found[0].Found, what) || found[0].Repair == "" {
		t.Errorf("doctor finds %+v, not %s", found, what)
	}
}

// Blobs are read where they were written, whichever store has the new ones. A program that
// does not know their store says so, and an upload moves them.
func TestAnotherStoreReadsOldBlobs(t *testing.T) {
	outside(t, func(t *testing.T, p *pawltest.Pawl, dir *objects.Directory, _ func() []string) {
		put := func(e *engine.Engine, n uint64) string {
			return need[pawl.Blob](t)(e.PutBlob(t.Context(), pawl.BlobUpload{Content: noise(n, 1000)})).Address
		}
		other := directory(t, t.TempDir())
		both := p.Another(engine.Options{Blobs: other, BlobStores: []objects.Store{dir}})
		plain := p.Another(engine.Options{})
		all := []string{put(p.Engine, 1), put(plain, 2), put(both, 3)}
		for _, address := range all {
			if got, _ := digest(t, openBlob(t, both, address)); got != address {
				t.Errorf("%s is read as %s", address, got)
			}
		}
		if unknown := need[[]string](t)(both.UnknownBlobStores(t.Context())); len(unknown) != 0 {
			t.Errorf("the stores %v are unknown", unknown)
		}
		if unknown := need[[]string](t)(p.Engine.UnknownBlobStores(t.Context())); len(unknown) != 1 || unknown[0] != other.Name() {
			t.Errorf("the stores %v are unknown", unknown)
		}
		_, _, err := plain.OpenBlob(t.Context(), all[2])
		if !errors.Is(err, pawl.ErrUnavailable) || !strings.Contains(err.Error(), other.Name()) {
			t.Errorf("a store that is not configured: %v", err)
		}
		named(t, p.Engine, all[2], "which is not configured")
		lost := p.Another(engine.Options{BlobStores: []objects.Store{dir, objects.Lost(other.Name())}})
		named(t, lost, all[2], "bytes of it are missing")
		if b := need[pawl.Blob](t)(lost.PutBlob(t.Context(), pawl.BlobUpload{Content: noise(3, 1000)})); b.Existed {
			t.Error("a blob that is lost exists")
		}
		if got, _ := digest(t, openBlob(t, p.Engine, all[2])); got != all[2] {
			t.Errorf("it is read as %s", got)
		}
	})
}

// Retention that looks at a blob while others upload and refer to the same bytes never removes
// a blob that a task refers to. All that is unused is removed at once here.
func TestRetentionBesideUploads(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenReal(t, which, engine.Options{Blobs: directory(t, t.TempDir())})
			ctx, stop := context.WithCancel(t.Context())
			var removing, all sync.WaitGroup
			var removed atomic.Int64
			removing.Go(func() {
				for ctx.Err() == nil {
					removed.Add(removeUnused(t, p))
				}
			})
			removing.Go(func() {
				for ctx.Err() == nil {
					removeBytes(t, p)
				}
			})
			var kept sync.Map
			rounds := 0
			for ; rounds < times(10, 200) || removed.Load() < 5; rounds++ {
				between := func() { time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond) }
				if rounds%2 == 0 {
					between = func() { removed.Add(removeUnused(t, p)) }
				}
				for range 4 {
					all.Go(func() { kept.Store(referred(t, p, uint64(rounds), between), true) })
				}
				all.Wait()
			}
			stop()
			removing.Wait()
			kept.Range(func(address, _ any) bool {
				rounds--
				if got, _ := digest(t, openBlob(t, p.Engine, address.(string))); got != address {
					t.Errorf("%s is read as %s", address, got)
				}
				return true
			})
			if rounds != 0 {
				t.Errorf("%d blobs more were referred to than kept", rounds)
			}
		})
	}
}

// removeUnused removes unused blobs, however new they are.
func removeUnused(t *testing.T, p *pawltest.Pawl) (removed int64) {
	err := p.Exec("UPDATE pawl.uploaded_blobs SET used_at = 0")
	if err == nil {
		err = p.Engine.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
			now, err := tx.Now(ctx)
			if err != nil {
				return err
			}
			by := now - pawl.DefaultRetainBlobs.Microseconds()
			unused := blobs.Declared().Unused[0]()
			idle, _, err := unused.List(ctx, tx, by, store.BlobPlace{}, 1000)
			if err == nil {
				removed, err = unused.Remove(ctx, tx, by, idle)
			}
			return err
		})
	}
	if err != nil {
		t.Error(err)
	}
	return removed
}

// removeBytes removes the bytes of removed blobs, however new they are. A sweep has many
// transactions: on a busy machine it lasts longer than many uploads.
func removeBytes(t *testing.T, p *pawltest.Pawl) {
	err := p.Exec("UPDATE pawl.uploads SET used_at = 0 WHERE state = 2")
	if err == nil {
		_, err = p.Engine.Sweep(t.Context())
	}
	if err != nil {
		t.Error(err)
	}
}

// referred uploads a blob until a task refers to it, and reads it. The first time it calls
// between before the task is created.
func referred(t *testing.T, p *pawltest.Pawl, seed uint64, between func()) string {
	for ; ; between = func() {} {
		b, err := p.Engine.PutBlob(t.Context(), pawl.BlobUpload{Content: noise(seed, 1000)})
		if err == nil {
			between()
			_, err = pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "t", Payload: []byte(`{"$blob":"` + b.Address + `"}`)})
		}
		switch {
		case errors.Is(err, pawl.ErrInvalid): // it was removed between the two calls
			continue
		case err != nil:
			t.Error(err)
			return ""
		}
		_, r, err := p.Engine.OpenBlob(t.Context(), b.Address)
		if err != nil {
			t.Error(err)
			return b.Address
		}
		defer r.Close()
		if _, err := io.Copy(io.Discard, r); err != nil { // it was compared with its address
			t.Error(err)
		}
		return b.Address
	}
}
