package server_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/dashboard"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// sender sends a request from an address; headers are given in pairs.
type sender func(remote, method, path string, headers ...string) *httptest.ResponseRecorder

// proxied is a server behind proxies of 10.0.0.0/8.
func proxied(t *testing.T, log *strings.Builder) (*pawltest.Pawl, sender) {
	t.Helper()
	p := pawltest.Open(t, pawltest.SQLite)
	groups, err := access.ParseGroups([]string{"ops=reader,operator@*", "billing=reader,submitter@billing,default"})
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := access.NewProxy(access.ProxyOptions{
		From: []string{"10.0.0.0/8", "unix"}, UserHeader: "X-User", GroupsHeader: "X-Groups", Groups: groups,
	})
	if err != nil {
		t.Fatal(err)
	}
	gate := access.New(access.Options{Keys: p.Engine, Proxy: proxy, Required: true, Log: slog.New(slog.NewTextHandler(log, nil))})
	quiet := slog.New(slog.DiscardHandler)
	front := dashboard.New(p.Engine, dashboard.Options{Gate: gate, Log: quiet})
	h := server.New(p.Service, server.Options{Gate: gate, Log: quiet, Front: front})
	return p, func(remote, method, path string, headers ...string) *httptest.ResponseRecorder {
		t.Helper()
		body := ""
		if method == http.MethodPost {
			body = `{"type":"a"}`
		}
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		r.RemoteAddr, r.Host = remote, "pawl.test"
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Add(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
}

func TestATrustedProxyNamesTheUser(t *testing.T) {
	var log strings.Builder
	p, call := proxied(t, &log)
	const proxy, stranger = "10.1.2.3:4711", "192.0.2.1:4711"
	_, key, err := p.Engine.CreateAPIKey(t.Context(), pawl.NewAPIKey{Name: "robot", Roles: []string{"reader"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, remote, path string
		status             int
		headers            []string
	}{
		{"the API", proxy, "/v1/tasks", 200, []string{"X-User", "ann", "X-Groups", "x, ops"}},
		{"the dashboard", proxy, "/ui/", 200, []string{"X-User", "ann", "X-Groups", "ops"}},
		{"over IPv6", "[::ffff:10.0.0.1]:1", "/v1/tasks", 200, []string{"X-User", "ann", "X-Groups", "ops"}},
		{"over a socket", "@", "/v1/tasks", 200, []string{"X-User", "ann", "X-Groups", "ops"}},
		{"two lines of groups", proxy, "/v1/tasks", 200, []string{"X-User", "ann", "X-Groups", "x", "X-Groups", "ops"}},
		{"the proxy's own login", proxy, "/v1/tasks", 200, []string{"X-User", "ann", "X-Groups", "ops", "Authorization", "Basic eDp5"}},
		{"an API key", proxy, "/v1/tasks", 200, []string{"Authorization", "Bearer " + key}},
		{"an API key beside a user", proxy, "/v1/stats", 200, []string{"X-User", "ann", "Authorization", "Bearer " + key}},
		{"all namespaces", proxy, "/v1/sweeps", 200, []string{"X-User", "ann", "X-Groups", "ops"}},
		{"its own namespace", proxy, "/v1/tasks", 200, []string{"X-User", "bob", "X-Groups", "billing", "Pawl-Namespace", "billing"}},

		{"another namespace", proxy, "/v1/tasks", 404, []string{"X-User", "bob", "X-Groups", "billing", "Pawl-Namespace", "x"}},
		{"all, of two namespaces", proxy, "/v1/sweeps", 403, []string{"X-User", "bob", "X-Groups", "billing"}},
		{"no roles", proxy, "/v1/tasks", 403, []string{"X-User", "ann", "X-Groups", "x"}},
		{"no roles in the dashboard", proxy, "/ui/", 403, []string{"X-User", "ann"}},
		{"no user", proxy, "/v1/tasks", 401, []string{"X-Groups", "ops"}},
		{"two users", proxy, "/v1/tasks", 401, []string{"X-User", "ann", "X-User", "bob", "X-Groups", "ops"}},
		{"an empty user", proxy, "/v1/tasks", 401, []string{"X-User", " ", "X-Groups", "ops"}},
		{"a wrong key", proxy, "/v1/tasks", 401, []string{"X-User", "ann", "X-Groups", "ops", "Authorization", "Bearer x"}},
		{"a stranger", stranger, "/v1/tasks", 401, []string{"X-User", "ann", "X-Groups", "ops"}},
		{"a stranger in the dashboard", stranger, "/ui/", 401, []string{"X-User", "ann", "X-Groups", "ops"}},
		{"a stranger who says to be the proxy", stranger, "/v1/tasks", 401,
			[]string{"X-User", "ann", "X-Groups", "ops", "X-Forwarded-For", "10.1.2.3", "X-Real-Ip", "10.1.2.3"}},
		{"a stranger's groups", stranger, "/v1/sweeps", 403, []string{"X-Groups", "ops", "Authorization", "Bearer " + key}},
		{"a page of another site", proxy, "/v1/tasks", 403, []string{"X-User", "ann", "X-Groups", "ops", "Origin", "https://elsewhere.test"}},
	} {
		if got := call(c.remote, http.MethodGet, c.path, c.headers...); got.Code != c.status {
			t.Errorf("%s: %d %s, want %d", c.what, got.Code, got.Body, c.status)
		}
	}
	if n := strings.Count(log.String(), "no trusted proxy"); n != 4 {
		t.Errorf("%d lines about headers of strangers: %s", n, log.String())
	}
	forms := []string{"X-User", "bob", "X-Groups", "billing", "Origin", "https://pawl.example"}
	if got := call(proxy, http.MethodPost, "/v1/tasks", forms...); got.Code != 403 {
		t.Errorf("the origin of a name that is not the server's: %d", got.Code)
	}
	forms = append(forms, "X-Forwarded-Host", "pawl.example", "Pawl-Actor", "user/eve")
	if got := call(proxy, http.MethodPost, "/v1/tasks", forms...); got.Code != 201 {
		t.Errorf("the origin that the proxy was called by: %d %s", got.Code, got.Body)
	}
	events, err := p.Engine.ListEvents(t.Context(), pawl.EventFilter{Page: pawl.Page{Limit: 1}})
	if err != nil || len(events.Items) != 1 ||
		events.Items[0].ActorType+"/"+events.Items[0].ActorID != "user/bob" || events.Items[0].KeyID != "proxy#bob" {
		t.Errorf("the event names %+v %v", events.Items, err)
	}
}

// Behind a proxy, each client has its own bound of wrong keys, and cannot take another one's.
func TestClientsBehindAProxyAreApart(t *testing.T) {
	_, call := proxied(t, new(strings.Builder))
	wrong := func(remote, client string) int {
		t.Helper()
		return call(remote, http.MethodGet, "/v1/tasks", "Authorization", "Bearer x", "X-Forwarded-For", client).Code
	}
	for range 25 {
		wrong("10.0.0.1:1", "203.0.113.5, 198.51.100.7, 10.0.0.2") // the last address that is no proxy's counts
	}
	for _, c := range []struct {
		remote, client string
		status         int
	}{
		{"10.0.0.1:1", "198.51.100.7", 429},
		{"10.0.0.9:1", "1.1.1.1, 198.51.100.7", 429},
		{"10.0.0.1:1", "203.0.113.5", 401},
		{"192.0.2.1:1", "198.51.100.7", 401}, // no proxy: what it says is not read
	} {
		if got := wrong(c.remote, c.client); got != c.status {
			t.Errorf("%s for %s: %d, want %d", c.remote, c.client, got, c.status)
		}
	}
}
