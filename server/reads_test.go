package server_test

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// slowLists blocks each list of tasks until its context ends, and counts how many run at once.
type slowLists struct {
	pawl.Service
	inside, most atomic.Int64
}

func (s *slowLists) ListTasks(ctx context.Context, _ pawl.TaskFilter) (pawl.List[pawl.Task], error) {
	n := s.inside.Add(1)
	defer s.inside.Add(-1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	<-ctx.Done()
	return pawl.List[pawl.Task]{}, ctx.Err()
}

// The reads of one key are limited in number and in time. Reads of another key do not wait for
// them.
func TestReadsOfAKeyAreBounded(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	s := &slowLists{Service: p.Service}
	gate := access.New(access.Options{Keys: p.Engine, Required: true, Log: slog.New(slog.DiscardHandler)})
	h := &testServer{t, p, serve(t, s, server.Options{Gate: gate, Limits: server.Limits{ReadTime: 500 * time.Millisecond, ReadsPerKey: 3}})}
	_, greedy := h.key(pawl.NewAPIKey{Roles: []string{"reader"}})
	_, other := h.key(pawl.NewAPIKey{Roles: []string{"reader"}})
	var late, refused atomic.Int64
	var all sync.WaitGroup
	for range 9 {
		all.Go(func() {
			switch r := h.ask(greedy, "GET", "/v1/tasks", ""); {
			case r.StatusCode == http.StatusServiceUnavailable && r.str("code") == "unavailable":
				late.Add(1)
			case r.StatusCode == http.StatusTooManyRequests && r.str("code") == "limit" && r.Header.Get("Retry-After") != "":
				refused.Add(1)
			default:
				t.Errorf("%s %s", r.Status, r.text)
			}
		})
	}
	if r := h.ask(other, "GET", "/v1/stats", ""); r.StatusCode != 200 {
		t.Errorf("another key: %s %s", r.Status, r.text)
	}
	all.Wait()
	if s.most.Load() != 3 || late.Load() < 3 || late.Load()+refused.Load() != 9 {
		t.Errorf("%d at once, %d late, %d refused", s.most.Load(), late.Load(), refused.Load())
	}
	if r := h.ask(greedy, "GET", "/v1/stats", ""); r.StatusCode != 200 {
		t.Errorf("afterwards: %s", r.Status)
	}
}

// slowReads blocks whatever reads until its context ends, or until two run at once, and counts how many do.
type slowReads struct {
	pawl.Service
	inside, most atomic.Int64
	two          context.Context
	tooMany      context.CancelFunc
}

func (s *slowReads) wait(ctx context.Context) error {
	n := s.inside.Add(1)
	defer s.inside.Add(-1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	if n > 1 {
		s.tooMany()
	}
	select {
	case <-ctx.Done():
	case <-s.two.Done():
	}
	return context.DeadlineExceeded
}

func (s *slowReads) GetKeys(ctx context.Context, _ []pawl.KeyName) ([]pawl.Result[pawl.Key], error) {
	return nil, s.wait(ctx)
}

func (s *slowReads) CreateTasks(ctx context.Context, _ []pawl.NewTask) ([]pawl.Result[pawl.Task], error) {
	return nil, s.wait(ctx)
}

func (s *slowReads) CountBulk(ctx context.Context, _ pawl.BulkCall) (int64, error) {
	return 0, s.wait(ctx)
}

// What reads without being a GET is bounded with the other reads of its key, by whichever door it
// comes: reads of keys in a batch, dry runs, tools of MCP and pages.
func TestAllReadsOfAKeyAreBounded(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	s := &slowReads{Service: p.Service}
	s.two, s.tooMany = context.WithCancel(t.Context())
	defer s.tooMany()
	log := slog.New(slog.DiscardHandler)
	gate := access.New(access.Options{Keys: p.Engine, Required: true, Log: log})
	h := &testServer{t, p, serve(t, s, server.Options{Gate: gate, Limits: server.Limits{ReadTime: 300 * time.Millisecond, ReadsPerKey: 1}})}
	_, key := h.key(pawl.NewAPIKey{Roles: pawl.KeyRoles})
	var all sync.WaitGroup
	for path, body := range map[string]string{
		"/v1/idempotency-keys:get": `{"items":[{"key":"k"}]}`, "/v1/tasks": `{"type":"a","dry_run":true}`,
		"/v1/tasks:batch": `{"items":[{"type":"a","dry_run":true}]}`, "/v1/bulk": `{"verb":"cancel","filter":{"type":"a"},"dry_run":true}`,
	} {
		for range 2 {
			all.Go(func() { h.ask(key, "POST", path, body) })
		}
	}
	all.Wait()
	if s.most.Load() != 1 {
		t.Errorf("%d at once", s.most.Load())
	}
}

// The check of a whole database may take longer than other reads.
func TestTheTimeOfACheckIsNotBounded(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	h := &testServer{t, p, serve(t, p.Service, server.Options{Limits: server.Limits{ReadTime: time.Nanosecond, ReadsPerKey: 1}})}
	if r := h.ask("", "GET", "/v1/tasks", ""); r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a read: %s %s", r.Status, r.text)
	}
	if r := h.ask("", "POST", "/v1/doctor", `{}`); r.StatusCode != http.StatusOK {
		t.Errorf("the check: %s %s", r.Status, r.text)
	}
}
