//go:build unix

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store/objects"
)

// The points at which a process that uploads is killed, and the point after them.
const (
	killedHalfway    = "halfway"
	killedAtTheEnd   = "at the end" // all bytes were read
	killedPublishing = "publishing" // before the address is inserted
	killedStoring    = "storing"    // in the transaction, after it was inserted
	killedAfter      = "after"      // before the caller has the answer
)

// A process is killed with SIGKILL in the middle of an upload of 64 MiB. Nothing of the blob
// can be read, doctor finds nothing, another upload works, and a sweep removes what is left.
func TestKilledUploadsLeaveNothing(t *testing.T) {
	for _, which := range pawltest.Databases {
		for _, place := range []string{"database", "directory"} {
			t.Run(string(which)+"/"+place, func(t *testing.T) {
				t.Parallel()
				var o engine.Options
				path := ""
				if place == "directory" {
					path = t.TempDir()
					o.Blobs = directory(t, path)
				}
				p := pawltest.OpenReal(t, which, o)
				points := []string{killedHalfway, killedAtTheEnd, killedPublishing, killedStoring, killedAfter}
				for n, point := range points {
					killUpload(t, p, path, uint64(n), point)
				}
				for n := range times(1, 50) {
					killUpload(t, p, path, uint64(100+n), "")
				}
			})
		}
	}
}

// killUpload kills a process that uploads at a point, or at random.
func killUpload(t *testing.T, p *pawltest.Pawl, path string, seed uint64, point string) {
	t.Helper()
	victim := start(t, p, "uploader", "PAWL_TEST_BLOBS="+path, fmt.Sprint("PAWL_TEST_SEED=", seed), "PAWL_TEST_FAILPOINT="+point)
	if point == "" {
		timer := time.AfterFunc(time.Duration(rand.IntN(1500))*time.Millisecond, func() { _ = victim.Process.Kill() })
		defer timer.Stop()
	}
	entry, stored := victim.read(t)
	_ = victim.Wait()
	if stored && point != "" {
		t.Fatalf("%s: the process was not killed: %+v", point, entry)
	}
	size := uploadBytes()
	want, _ := digest(t, noise(seed, size))
	_, content, err := p.Engine.OpenBlob(t.Context(), want)
	there := err == nil
	if there {
		_ = content.Close()
	}
	if err != nil && !errors.Is(err, pawl.ErrNotFound) || point != "" && there != (point == killedAfter) || stored && !there {
		t.Errorf("%s: after the kill the blob is there: %t, %v", point, there, err)
	}
	if breaches := need[[]engine.Breach](t)(p.Engine.Check(t.Context())); len(breaches) > 0 {
		t.Errorf("%s: doctor finds %+v", point, breaches)
	}
	if b := need[pawl.Blob](t)(p.Engine.PutBlob(t.Context(), pawl.BlobUpload{Content: noise(seed, size)})); b.Existed != there {
		t.Errorf("%s: another upload is stored as %+v", point, b)
	}
	if got, n := digest(t, openBlob(t, p.Engine, want)); got != want || n != size {
		t.Errorf("%s: %d bytes of %s are read", point, n, got)
	}
	onlyOneIsLeft(t, p, path, point)
}

// onlyOneIsLeft compares what is stored with one blob, and removes it.
func onlyOneIsLeft(t *testing.T, p *pawltest.Pawl, path, point string) {
	t.Helper()
	sweep := func(changes ...string) {
		for _, change := range changes {
			if err := p.Exec(change); err != nil {
				t.Fatal(err)
			}
		}
		another := p.Another(engine.Options{BlobStores: storesAt(t, path)})
		need[pawl.SweepStats](t)(another.Sweep(t.Context()))
		_ = another.Close() // its connections, of which the server has a limited number
	}
	const unseen = "UPDATE pawl.uploads SET used_at = 0 WHERE state <> 1"
	for _, want := range []int64{1, 0} {
		uploads, pieces, files := queried(t, p, "SELECT COUNT(*) FROM pawl.uploads"), want*uploadBytes()/pawl.MaxBlobPiece, int64(0)
		sweep(unseen)
		if path != "" {
			pieces, files = 0, want
		}
		left := queried(t, p, "SELECT COUNT(*) FROM pawl.uploads")
		if left != want || queried(t, p, "SELECT COUNT(*) FROM pawl.upload_pieces") != pieces {
			t.Errorf("%s: of %d uploads %d are left", point, uploads, left)
		}
		if path != "" && int64(len(objectsIn(t, path))) != files {
			t.Errorf("%s: %v is left", point, objectsIn(t, path))
		}
		sweep("UPDATE pawl.uploaded_blobs SET used_at = 0") // retention removes it
	}
}

func storesAt(t *testing.T, path string) []objects.Store {
	if path == "" {
		return nil
	}
	return []objects.Store{directory(t, path)}
}

// uploadOptions are the options of the process that uploads. It is killed before a statement
// of its last transaction if its failpoint is there.
func uploadOptions() (engine.Options, error) {
	o := engine.Options{Schema: os.Getenv("PAWL_TEST_SCHEMA"), Statement: func(query string) {
		switch os.Getenv("PAWL_TEST_FAILPOINT") {
		case killedPublishing:
			if strings.Contains(query, "uploaded_blobs (namespace") {
				kill()
			}
		case killedStoring:
			if strings.Contains(query, "SET state = 1") {
				kill()
			}
		}
	}}
	if path := os.Getenv("PAWL_TEST_BLOBS"); path != "" {
		dir, err := objects.OpenDirectory(context.Background(), path)
		o.Blobs = dir
		return o, err
	}
	return o, nil
}

// uploadBytes is the size of an upload: several pieces, or in the long run the most that is taken.
func uploadBytes() int64 { return int64(times(16*pawl.MaxBlobPiece, pawl.DefaultMaxBlobBytes)) }

// uploadUntilKilled uploads uploadBytes.
func uploadUntilKilled(e *engine.Engine) error {
	seed, point := uint64(0), os.Getenv("PAWL_TEST_FAILPOINT")
	if _, err := fmt.Sscan(os.Getenv("PAWL_TEST_SEED"), &seed); err != nil {
		return err
	}
	size := uploadBytes()
	killAt := func(at string) io.Reader {
		return readerFunc(func([]byte) (int, error) {
			if point == at {
				kill()
			}
			return 0, io.EOF
		})
	}
	all := noise(seed, size)
	b, err := e.PutBlob(context.Background(), pawl.BlobUpload{
		Content: io.MultiReader(io.LimitReader(all, size/2), killAt(killedHalfway), all, killAt(killedAtTheEnd)),
	})
	if err != nil {
		return err
	}
	if point == killedAfter {
		kill()
	}
	write(entry{Result: b.Address})
	return nil
}
