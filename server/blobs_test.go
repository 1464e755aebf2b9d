package server_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/objects"
)

func eachBlobServer(t *testing.T, fn func(t *testing.T, h *testServer)) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) { fn(t, &testServer{t, p, serve(t, p.Service, server.Options{})}) })
}

func noise(seed byte, n int64) io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{seed}), n) }

func addressOf(t testing.TB, r io.Reader) string {
	t.Helper()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		t.Error(err)
	}
	return pawl.BlobAddress(h.Sum(nil))
}

// A blob of 64 MiB goes through HTTP and the client in flat memory, with and without its
// length.
func TestLargeBlobOverHTTP(t *testing.T) {
	for _, which := range pawltest.Databases { // one after the other: the heap is that of one
		t.Run(string(which), func(t *testing.T) {
			p := pawltest.Open(t, which)
			h := &testServer{t, p, serve(t, p.Service, server.Options{})}
			c := client.New(h.srv.URL, "")
			const size = pawl.DefaultMaxBlobBytes
			want := addressOf(t, noise(1, size))
			grown := pawltest.HeapGrowth(func() {
				for _, announced := range []int64{0, size} {
					b, err := c.PutBlob(t.Context(), pawl.BlobUpload{Content: noise(1, size), Size: announced, Address: want})
					if err != nil || b.Address != want || b.Size != size || b.Existed != (announced > 0) {
						t.Errorf("%+v %v", b, err)
					}
				}
				b, r, err := c.OpenBlob(t.Context(), want)
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				if got := addressOf(t, r); got != want || b.Size != size {
					t.Errorf("%s was read, %d bytes", got, b.Size)
				}
			})
			if t.Logf("the heap grew by %d KiB", grown>>10); grown > 24<<20 {
				t.Errorf("the heap grew by %d bytes", grown)
			}
		})
	}
}

// A blob is read by the conventions of HTTP: ranges, ETag, HEAD.
func TestBlobsByTheConventions(t *testing.T) {
	eachBlobServer(t, func(t *testing.T, h *testServer) {
		put := h.do(201, "POST", "/v1/blobs", "0123456789", "Content-Type", "image/png")
		address := put.str("address")
		path := put.Header.Get("Location")
		if address != addressOf(t, strings.NewReader("0123456789")) || put.json["size"] != 10.0 || path == "" {
			t.Errorf("%s, at %s", put.text, path)
		}
		if again := h.do(200, "POST", "/v1/blobs", "0123456789"); again.json["existed"] != true {
			t.Errorf("again: %s", again.text)
		}
		if r := h.do(200, "GET", path, ""); r.text != "0123456789" || r.Header.Get("ETag") != `"`+address+`"` ||
			r.Header.Get("Content-Type") != "application/octet-stream" || r.Header.Get("Content-Length") != "10" {
			t.Errorf("%s %v", r.text, r.Header)
		}
		if r := h.do(200, "HEAD", path, ""); r.text != "" || r.Header.Get("Content-Length") != "10" || r.Header.Get("Accept-Ranges") != "bytes" {
			t.Errorf("HEAD: %q %v", r.text, r.Header)
		}
		if r := h.do(206, "GET", path, "", "Range", "bytes=3-5"); r.text != "345" || r.Header.Get("Content-Range") != "bytes 3-5/10" {
			t.Errorf("range: %q %v", r.text, r.Header)
		}
		if r := h.do(206, "GET", path, "", "Range", "bytes=-2", "If-Range", `"`+address+`"`); r.text != "89" {
			t.Errorf("the end: %q", r.text)
		}
		if r := h.do(200, "GET", path, "", "Range", "bytes=-2", "If-Range", `"another"`); r.text != "0123456789" {
			t.Errorf("another blob's range: %q", r.text)
		}
		if r := h.do(200, "GET", path, "", "Range", "bytes=0-0,9-9"); r.text != "0123456789" {
			t.Errorf("a list of ranges, which is ignored: %q", r.text)
		}
		h.do(304, "GET", path, "", "If-None-Match", `"`+address+`"`)
		h.do(416, "GET", path, "", "Range", "bytes=20-")
		h.do(404, "GET", "/v1/blobs/sha256:"+strings.Repeat("0", 64), "")
		h.do(404, "GET", "/v1/blobs/x", "")
		h.do(404, "GET", path, "", "Pawl-Namespace", "elsewhere")
		h.do(405, "DELETE", path, "")
		sum := sha256.Sum256([]byte("0123456789"))
		digest := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
		h.do(200, "POST", "/v1/blobs", "0123456789", "Repr-Digest", digest)
		h.do(400, "POST", "/v1/blobs", "012345678", "Repr-Digest", digest)
		h.do(400, "POST", "/v1/blobs", "0123456789", "Repr-Digest", "sha-256=x")
		h.do(415, "POST", "/v1/blobs", "0123456789", "Content-Encoding", "gzip")
		if r := ask(t, h.srv, "POST", "/v1/blobs", strings.Repeat("x", pawl.DefaultMaxBlobBytes+1)); r.str("code") != "too_large" {
			t.Errorf("too large: %s", r.text)
		}
	})
}

// An upload whose connection is cut leaves nothing, and one that stops is given up.
func TestUploadsThatAreCut(t *testing.T) {
	eachBlobServer(t, func(t *testing.T, h *testServer) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(h.srv.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST /v1/blobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", 10*pawl.MaxBlobPiece)
		if _, err := io.Copy(conn, noise(2, 2*pawl.MaxBlobPiece)); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		rows := func() (n int) {
			err := h.p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) error {
				_, err := store.Row(ctx, tx, []any{&n}, "SELECT COUNT(*) FROM pawl.uploads")
				return err
			})
			if err != nil {
				t.Error(err)
			}
			return n
		}
		for deadline := time.Now().Add(60 * time.Second); rows() > 0; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d uploads are left", rows())
			}
		}
		r, w := io.Pipe()
		defer w.Close()
		go func() { _, _ = w.Write(bytes.Repeat([]byte("x"), 100)) }() // and no more
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := client.New(h.srv.URL, "").PutBlob(ctx, pawl.BlobUpload{Content: r}); err == nil {
			t.Error("an upload that stopped was stored")
		}
	})
}

// Who may submit or claim uploads, who may read or claim reads; an unauthenticated upload is
// refused without being read.
func TestBlobsNeedAKey(t *testing.T) {
	h := gated(t, pawltest.Open(t, pawltest.SQLite), access.Options{})
	_, worker := h.key(pawl.NewAPIKey{Roles: []string{"claimer"}})
	put := h.ask(worker, "POST", "/v1/blobs", "bytes")
	if got := h.ask(worker, "GET", put.Header.Get("Location"), ""); got.text != "bytes" {
		t.Errorf("a worker reads %s", got.text)
	}
	_, approver := h.key(pawl.NewAPIKey{Roles: []string{"approver"}})
	for method, path := range map[string]string{"POST": "/v1/blobs", "GET": put.Header.Get("Location")} {
		if got := h.ask(approver, method, path, ""); got.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s", method, got.text)
		}
	}
	_, other := h.key(pawl.NewAPIKey{Roles: pawl.KeyRoles, Namespace: "elsewhere"})
	if got := h.ask(other, "GET", put.Header.Get("Location"), ""); got.StatusCode != http.StatusNotFound {
		t.Errorf("another namespace's key: %s", got.text)
	}
	if got := ask(t, h.srv, "POST", "/v1/blobs", strings.Repeat("x", 5<<20)); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: %s", got.Status)
	}
}

// A blob whose bytes cannot be read is answered with a problem, not with the beginning of an
// answer: 503 if its store is down, 500 if the bytes are missing.
func TestBlobsThatCannotBeRead(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "blobs")
			dir, err := objects.OpenDirectory(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			p := pawltest.OpenWith(t, which, engine.Options{Blobs: dir})
			h := &testServer{t, p, serve(t, p.Service, server.Options{})}
			at := h.do(201, "POST", "/v1/blobs", "0123456789").Header.Get("Location")
			refused := func(status int, code, method string, header ...string) {
				t.Helper()
				r := h.do(status, method, at, "", header...)
				if r.str("code") != code || r.Header.Get("Content-Type") != api.ProblemType || r.Header.Get("ETag") != "" ||
					r.Header.Get("Content-Range") != "" {
					t.Errorf("%s %v", r.text, r.Header)
				}
			}
			if err := os.Rename(path, path+".away"); err != nil {
				t.Fatal(err)
			}
			refused(503, "unavailable", "GET")
			refused(503, "unavailable", "GET", "Range", "bytes=3-5")
			h.do(304, "GET", at, "", "If-None-Match", `"`+strings.TrimPrefix(at, "/v1/blobs/")+`"`)
			if r := h.do(503, "POST", "/v1/blobs", "others"); r.str("code") != "unavailable" {
				t.Error(r.text)
			}
			if err := os.Rename(path+".away", path); err != nil {
				t.Fatal(err)
			}
			if r := h.do(206, "GET", at, "", "Range", "bytes=3-5"); r.text != "345" {
				t.Errorf("the store is up again: %s", r.text)
			}
			files, err := filepath.Glob(filepath.Join(path, "*", "upl_*"))
			if err != nil || len(files) != 1 {
				t.Fatalf("%v, %v", files, err)
			}
			if err := os.Remove(files[0]); err != nil {
				t.Fatal(err)
			}
			refused(500, "internal", "GET")
			refused(500, "internal", "GET", "Range", "bytes=3-5")
			h.do(201, "POST", "/v1/blobs", "0123456789") // which repairs it
			h.do(200, "GET", at, "")
		})
	}
}
