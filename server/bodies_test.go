package server_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// slowMaker blocks every create until it is released.
type slowMaker struct {
	pawl.Service
	inside atomic.Int64
	most   atomic.Int64
	free   chan struct{}
}

func (s *slowMaker) CreateTasks(ctx context.Context, tasks []pawl.NewTask) ([]pawl.Result[pawl.Task], error) {
	n := s.inside.Add(1)
	defer s.inside.Add(-1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	<-s.free
	return s.Service.CreateTasks(ctx, tasks)
}

// Of many large bodies that come at once, those that are read stay within the limit. The
// others are refused with limit, and small calls still succeed.
func TestBodiesInFlightAreBounded(t *testing.T) {
	s := &slowMaker{Service: pawltest.Open(t, pawltest.SQLite).Service, free: make(chan struct{})}
	srv := serve(t, s, server.Options{Limits: server.Limits{BodiesInFlight: 3 << 20}})
	body := `{"type":"a","payload":"` + strings.Repeat("x", 900<<10) + `"}`
	var made, refused atomic.Int64
	var once sync.Once
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			r := ask(t, srv, "POST", "/v1/tasks", body)
			switch {
			case r.StatusCode == http.StatusCreated:
				made.Add(1)
			case r.StatusCode == http.StatusTooManyRequests && r.str("code") == "limit" && r.Header.Get("Retry-After") == "1":
				refused.Add(1)
			default:
				t.Errorf("%s %s", r.Status, r.text)
			}
			if refused.Load() == 17 && made.Load() == 0 {
				if small := ask(t, srv, "GET", "/v1/tasks", ""); small.StatusCode != 200 {
					t.Errorf("a small call: %s", small.Status)
				}
				if small := ask(t, srv, "POST", "/v1/claims", `{"worker_id":"w"}`); small.StatusCode != 200 {
					t.Errorf("a small body: %s", small.Status)
				}
				once.Do(func() { close(s.free) })
			}
		})
	}
	all.Wait()
	if made.Load() != 3 || refused.Load() != 17 || s.most.Load() != 3 {
		t.Errorf("%d made, %d refused, %d at once", made.Load(), refused.Load(), s.most.Load())
	}
	if r := ask(t, srv, "POST", "/v1/tasks", body); r.StatusCode != 201 {
		t.Errorf("afterwards: %s", r.Status)
	}
}

// slowUploads is a service whose store takes a fixed amount of memory for an upload, which is
// blocked until it is released.
type slowUploads struct {
	pawl.Service
	begun, free chan struct{}
}

func (*slowUploads) UploadMemory() int64 { return 5 << 20 }

func (s *slowUploads) PutBlob(ctx context.Context, upload pawl.BlobUpload) (pawl.Blob, error) {
	s.begun <- struct{}{}
	<-s.free
	return s.Service.PutBlob(ctx, upload)
}

// An upload of more than one piece counts for the memory that the store of blobs takes.
func TestUploadsCountForTheMemoryOfTheirStore(t *testing.T) {
	s := &slowUploads{Service: pawltest.Open(t, pawltest.SQLite).Service, begun: make(chan struct{}, 9), free: make(chan struct{})}
	srv := serve(t, s, server.Options{Limits: server.Limits{BodiesInFlight: 44 << 20}}) // a quarter of it for uploads
	large, small := strings.Repeat("x", pawl.MaxBlobPiece), "x"
	var all sync.WaitGroup
	for _, body := range []string{large, large, small} { // 5, 5 and a half MiB, of 11
		all.Go(func() {
			if r := ask(t, srv, "POST", "/v1/blobs", body); r.StatusCode != http.StatusCreated && r.StatusCode != http.StatusOK {
				t.Errorf("%s %s", r.Status, r.text)
			}
		})
		<-s.begun
	}
	if r := ask(t, srv, "POST", "/v1/blobs", large); r.StatusCode != http.StatusTooManyRequests || r.str("code") != "limit" {
		t.Errorf("one more: %s %s", r.Status, r.text)
	}
	close(s.free)
	all.Wait()
}
