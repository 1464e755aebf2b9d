package s3_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store/objects/s3"
)

func TestMain(m *testing.M) { pawltest.Main(m) }

func open(t *testing.T, address string) *s3.Store {
	t.Helper()
	s, err := s3.Open(address, credentials.NewStaticV4(accessKey, "secret", ""))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func noise(seed byte, n int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{seed}), n)
}

func TestObjects(t *testing.T) {
	f, address := newFake(t)
	s, ctx := open(t, address+"/"+bucket+"/some/place"), t.Context()
	if s.Name() != "s3:blobs/some/place/" {
		t.Errorf("it is %s", s.Name())
	}
	const part = 5 << 20
	for _, size := range []int64{0, 1, part - 1, part, part + 1, 2*part + 7} {
		if err := s.Write(ctx, "upl_1", noise(1, size)); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		all, _ := io.ReadAll(noise(1, size))
		for _, offset := range []int64{0, size / 2, size} {
			r, err := s.Read(ctx, "upl_1", offset)
			if err != nil {
				t.Fatalf("%d bytes from %d on: %v", size, offset, err)
			}
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, all[offset:]) {
				t.Errorf("%d bytes from %d on: %d bytes, %v", size, offset, len(got), err)
			}
			_ = r.Close()
		}
		if got := f.stored(); len(got) != 1 || got[0] != "some/place/upl_1" || f.unfinished() != 0 {
			t.Errorf("%d bytes: stored is %v", size, got)
		}
		for range 2 {
			if err := s.Remove(ctx, "upl_1"); err != nil {
				t.Fatal(err)
			}
		}
		if got := f.stored(); len(got) != 0 {
			t.Errorf("%d bytes: %v is left", size, got)
		}
	}
	if _, err := s.Read(ctx, "upl_1", 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an object that is missing: %v", err)
	}
	none := open(t, address+"/elsewhere")
	_, read := none.Read(ctx, "upl_1", 0)
	for verb, err := range map[string]error{"read": read, "write": none.Write(ctx, "k", noise(1, 1)), "remove": none.Remove(ctx, "k")} {
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of a bucket that is missing: %v", verb, err)
		}
	}
}

// An upload that is cut off leaves nothing. Parts that a crash leaves are removed with the key.
func TestUnfinishedUploadsAreRemoved(t *testing.T) {
	f, address := newFake(t)
	s, ctx := open(t, address+"/"+bucket), t.Context()
	half := func() io.Reader { return io.MultiReader(noise(1, 7<<20), iotest.ErrReader(errors.New("cut off"))) }
	if err := s.Write(ctx, "upl_1", half()); err == nil || f.unfinished() != 0 || len(f.stored()) != 0 {
		t.Errorf("cut off: %v, %d are unfinished, stored is %v", err, f.unfinished(), f.stored())
	}
	f.fail = func(r *http.Request) bool { return r.Method == http.MethodDelete } // as if the process were killed
	if err := s.Write(ctx, "upl_1", half()); err == nil || f.unfinished() != 1 {
		t.Errorf("killed: %v, %d are unfinished", err, f.unfinished())
	}
	if err := s.Remove(ctx, "upl_1"); err == nil {
		t.Error("a removal that was refused is none")
	}
	f.fail = nil
	if err := s.Remove(ctx, "upl_1"); err != nil || f.unfinished() != 0 {
		t.Errorf("removed: %v, %d are unfinished", err, f.unfinished())
	}
}

// An upload has one part in memory, whatever its size.
func TestAnUploadHasOnePartInMemory(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // keeps nothing
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("ETag", `"e"`)
		switch q := r.URL.Query(); {
		case q.Has("location"):
			fmt.Fprint(w, `<LocationConstraint>eu-test-1</LocationConstraint>`)
		case q.Has("uploads"):
			fmt.Fprint(w, `<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>`)
		case r.Method == http.MethodPost:
			fmt.Fprint(w, `<CompleteMultipartUploadResult><Bucket>blobs</Bucket><Key>upl_1</Key><ETag>"e"</ETag></CompleteMultipartUploadResult>`)
		}
	}))
	defer srv.Close()
	s := open(t, srv.URL+"/"+bucket)
	for _, size := range []int64{1, 4 << 20, 40 << 20} {
		grown := pawltest.HeapGrowth(func() {
			if err := s.Write(t.Context(), "upl_1", noise(1, size)); err != nil {
				t.Error(err)
			}
		})
		if t.Logf("%d bytes: the heap grew by %d KiB", size, grown>>10); int64(grown) > s.WriteMemory()+2<<20 {
			t.Errorf("%d bytes: the heap grew by %d", size, grown)
		}
	}
}

func TestAddresses(t *testing.T) {
	for _, bad := range []string{"", "blobs", "ftp://h/b", "https://h", "https://h/", "https://k:secret@h/b", "https://h/b?x=1",
		"https://h/b#reg=1", "https://h/b#%zz", "https://h:x/b"} {
		if _, err := s3.Open(bad, nil); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for address, name := range map[string]string{"https://s3.example.com/b#region=eu-1": "s3:b/", "http://h:9000/b/p/q/": "s3:b/p/q/"} {
		if s, err := s3.Open(address, nil); err != nil || s.Name() != name {
			t.Errorf("%s: %v, %v", address, s, err)
		}
	}
}

// Blobs in a bucket are stored, read, checked and removed by the engine, on every database.
func TestBlobsInABucket(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			f, address := newFake(t)
			s := open(t, address+"/"+bucket)
			p := pawltest.OpenWith(t, which, engine.Options{Blobs: s})
			ctx := t.Context()
			const size = 12<<20 + 3
			put := func() (b pawl.Blob) {
				b, err := p.Engine.PutBlob(ctx, pawl.BlobUpload{Content: noise(2, size)})
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
			b := put()
			if again := put(); !again.Existed || len(f.stored()) != 1 {
				t.Errorf("uploaded twice it is %+v, and stored is %v", again, f.stored())
			}
			reads(t, p.Engine, b.Address)
			for _, body := range [][]byte{nil, make([]byte, size-1)} {
				f.change(f.stored()[0], body)
				if found, err := p.Engine.Check(ctx); err != nil || len(found) != 1 || !strings.Contains(found[0].Subject, b.Address) {
					t.Errorf("doctor finds %+v, %v", found, err)
				}
				if put().Existed {
					t.Error("an upload does not repair a blob that is missing")
				}
				reads(t, p.Engine, b.Address)
			}
			for _, age := range []time.Duration{pawl.DefaultRetainBlobs, pawl.DefaultRetainUploads} {
				p.Advance(age + time.Minute)
				if _, err := p.Engine.Sweep(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if got := f.stored(); len(got) != 0 {
				t.Errorf("%v is left", got)
			}
		})
	}
}

func reads(t *testing.T, e *engine.Engine, address string) {
	t.Helper()
	_, r, err := e.OpenBlob(context.WithoutCancel(t.Context()), address)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil || pawl.BlobAddress(h.Sum(nil)) != address {
		t.Errorf("%x is read, %v", h.Sum(nil), err)
	}
}
