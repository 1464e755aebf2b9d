package mcpgate_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/internal/mcpgate"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// served is a server of a database, whose process can be replaced.
type served struct {
	url  string
	now  atomic.Pointer[http.Handler]
	next func() http.Handler
}

func serve(t *testing.T, p *pawltest.Pawl) *served {
	t.Helper()
	s := &served{next: func() http.Handler {
		g := access.New(access.Options{Keys: p.Engine, Log: quiet})
		return server.New(p.Service, server.Options{Gate: g, Log: slog.New(slog.DiscardHandler)})
	}}
	first := s.next()
	s.now.Store(&first)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := s.now.Load(); h != nil {
			(*h).ServeHTTP(w, r)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(srv.Close)
	s.url = srv.URL
	return s
}

// restart ends the process. The next one answers a second later.
func (s *served) restart() {
	s.now.Store(nil)
	time.AfterFunc(time.Second, func() {
		next := s.next()
		s.now.Store(&next)
	})
}

func (s *served) client(key string) *client.Client {
	return client.NewWith(s.url, key, client.Options{Timeout: 10 * time.Second})
}

// A session whose lease is lost ends, and says so.
func TestASessionThatLosesItsLeaseEnds(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	svc := serve(t, p).client("")
	ctx, session, err := mcpgate.Begin(t.Context(), svc, mcpgate.Options{Name: "shop", Log: quiet, SessionLease: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pawl.Cancel(t.Context(), svc, mustItem(t, svc, session.Fence.ItemID).TaskID, "enough"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
		t.Fatal("the session goes on")
	}
	if err := session.End(t.Context(), nil); pawl.CodeOf(err) != pawl.CodeLeaseLost || !strings.Contains(err.Error(), "session") {
		t.Errorf("it ends with %v", err)
	}
}

func mustItem(t *testing.T, svc pawl.Service, id string) pawl.Item {
	t.Helper()
	item, err := svc.GetItem(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return item
}

// A key without a role that a session needs is refused with that role, and leaves no task that no worker would claim.
func TestASessionNeedsItsRoles(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	s := serve(t, p)
	for lacks, roles := range map[string][]string{"submitter": {"claimer", "reader"}, "claimer": {"submitter", "reader"}} {
		_, token, err := p.Engine.CreateAPIKey(t.Context(), pawl.NewAPIKey{Name: "k", ActorID: "k",
			Namespace: pawl.DefaultNamespace, Roles: roles})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = mcpgate.Begin(t.Context(), s.client(token), mcpgate.Options{Name: "shop", Log: quiet})
		if pawl.CodeOf(err) != pawl.CodeForbidden || !strings.Contains(err.Error(), "needs the role "+lacks) {
			t.Errorf("without the role %s: %v", lacks, err)
		}
	}
	open, err := p.Service.ListTasks(t.Context(), pawl.TaskFilter{States: []pawl.TaskState{pawl.TaskQueued}})
	if err != nil || len(open.Items) != 0 {
		t.Errorf("these are left: %+v, %v", open.Items, err)
	}
}
