package server_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// Requests that a page of another site can make a browser send are refused.
func TestForeignHostsAndOrigins(t *testing.T) {
	srv := serve(t, unreachable{}, server.Options{Hosts: []string{"work.example"}})
	at := srv.Listener.Addr().String()
	for _, c := range []struct {
		name    string
		method  string
		headers []string
		want    int
	}{
		{"our address", "GET", nil, 200},
		{"localhost", "GET", []string{"Host", "localhost:7033"}, 200},
		{"localhost without port", "GET", []string{"Host", "LOCALHOST"}, 200},
		{"IPv6", "GET", []string{"Host", "[::1]:7033"}, 200},
		{"a name that was given", "GET", []string{"Host", "Work.example:80"}, 200},
		{"another name", "GET", []string{"Host", "evil.example"}, 403},
		{"a name that begins like ours", "GET", []string{"Host", "localhost.evil.example"}, 403},
		{"an address that is not loopback", "GET", []string{"Host", "10.0.0.1:7033"}, 403},
		{"our own page", "POST", []string{"Origin", "http://" + at}, 405},
		{"another page writes", "POST", []string{"Origin", "http://evil.example"}, 403},
		{"another page reads", "GET", []string{"Origin", "http://evil.example"}, 403},
		{"a page of another port", "GET", []string{"Origin", "http://127.0.0.1:1"}, 403},
		{"a page without origin", "GET", []string{"Origin", "null"}, 403},
		{"an image of another site", "GET",
			[]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, 403},
		{"a script of another port", "GET",
			[]string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script"}, 403},
		{"a frame of another site", "GET",
			[]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, 403},
		{"a link of another site", "GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest",
			"document"}, 200},
		{"an address that was typed", "GET", []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 200},
		{"a form of another site", "POST", []string{"Sec-Fetch-Site", "cross-site"}, 403},
	} {
		r := ask(t, srv, c.method, "/openapi.json", "", c.headers...)
		if r.StatusCode != c.want || c.want == 403 && (r.str("code") != "forbidden" || r.str("title") != "This caller may not do this") {
			t.Errorf("%s: %s, want %d\n%s", c.name, r.Status, c.want, r.text)
		}
		if c.name == "another name" && !strings.Contains(r.str("detail"), "evil.example; serve.hosts (--hosts), or Hosts in the options") {
			t.Errorf("%s: it does not say where names are set: %s", c.name, r.text)
		}
		if r.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: without nosniff", c.name)
		}
	}
}

// Load balancers name a server by its address, or with HTTP/1.0 not at all.
func TestProbesNeedNoHost(t *testing.T) {
	srv := serve(t, unreachable{}, server.Options{Hosts: []string{"work.example"}, Ready: func(context.Context) error { return nil }})
	for _, path := range []string{"/healthz", "/readyz"} {
		if r := ask(t, srv, "GET", path, "", "Host", "10.0.0.1:7033"); r.StatusCode != 200 {
			t.Errorf("%s: %s", path, r.Status)
		}
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.0\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if status := statusOf(conn); status != 200 {
			t.Errorf("%s of HTTP/1.0: %d", path, status)
		}
	}
	if r := ask(t, srv, "GET", "/metrics", "", "Host", "10.0.0.1:7033"); r.StatusCode != 403 {
		t.Errorf("metrics without a key: %s", r.Status)
	}
	if r := ask(t, srv, "GET", "/metrics", "", "Host", "10.0.0.1:7033", "Authorization", "Bearer none"); r.StatusCode != 401 {
		t.Errorf("metrics with a key that is none: %s", r.Status)
	}
}

// The metrics answer a key whatever the Host is, HTTP/1.0 without one included.
func TestMetricsWithAKeyNeedNoHost(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	gate := access.New(access.Options{Keys: p.Engine, Required: true, Log: slog.New(slog.DiscardHandler)})
	h := &testServer{t, p, serve(t, p.Service, server.Options{Gate: gate, Hosts: []string{"work.example"}})}
	_, token := h.key(pawl.NewAPIKey{Roles: []string{"reader"}, Namespace: pawl.AnyNamespace})
	for head, want := range map[string]int{
		"HTTP/1.0\r\nAuthorization: " + token:                            200,
		"HTTP/1.0\r\nHost: elsewhere.example\r\nAuthorization: " + token: 200,
		"HTTP/1.1\r\nHost: 10.9.8.7:1\r\nAuthorization: " + token:        200,
		"HTTP/1.1\r\nHost:\r\nAuthorization: " + token:                   200,
		"HTTP/1.0":                               403,
		"HTTP/1.0\r\nAuthorization: Bearer none": 401,
	} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", h.srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET /metrics "+head+"\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if status := statusOf(conn); status != want {
			t.Errorf("%q: %d, want %d", head, status, want)
		}
	}
}

// A server without API keys trusts the caller's namespace and actor.
func TestNamespaceAndActor(t *testing.T) {
	h := open(t)
	r := ask(t, h.srv, "POST", "/v1/tasks", `{"type":"a"}`, "Pawl-Namespace", "b%C3%A9", "Pawl-Actor", "user/Ana%20M")
	if r.StatusCode != 201 || r.str("namespace") != "bé" {
		t.Fatalf("%s %s", r.Status, r.text)
	}
	if other := ask(t, h.srv, "GET", "/v1/tasks/"+r.str("id"), ""); other.StatusCode != 404 {
		t.Errorf("seen from the default namespace: %s", other.Status)
	}
	events := ask(t, h.srv, "GET", "/v1/events", "", "Pawl-Namespace", "b%C3%A9").items()
	if len(events) != 1 || events[0]["actor_type"] != "user" || events[0]["actor_id"] != "Ana M" {
		t.Errorf("events: %v", events)
	}
}

// A name with a slash is refused at every place where a caller names an actor: it would be
// another actor than the one whose type and id it shows.
func TestTheNameOfAnActorHasNoSlash(t *testing.T) {
	h := open(t)
	if r := ask(t, h.srv, "PUT", "/v1/types/essay", `{"approval":{"mode":"manual"}}`); r.StatusCode != 201 {
		t.Fatalf("%s %s", r.Status, r.text)
	}
	task := ask(t, h.srv, "POST", "/v1/tasks", `{"type":"essay","requested_by":{"type":"user","id":"boss"}}`).str("id")
	for _, actor := range []string{"/user/boss", "user/user/boss", "user/user%2Fboss", "/user%2Fboss", "spirit/boss"} {
		if r := ask(t, h.srv, "POST", "/v1/tasks/"+task+":approve", `{}`, "Pawl-Actor", actor); r.StatusCode != 400 {
			t.Errorf("%s: %s %s", actor, r.Status, r.text)
		}
	}
	for _, by := range []string{"user/a/b", "boss", "/boss", "user/", "spirit/boss"} {
		if r := ask(t, h.srv, "PUT", "/v1/types/essay", `{"approval":{"mode":"manual","by":["`+by+`"]}}`); r.StatusCode != 400 {
			t.Errorf("by %s: %s %s", by, r.Status, r.text)
		}
	}
	_, _, err := h.p.Engine.CreateAPIKey(t.Context(), pawl.NewAPIKey{Name: "n", Roles: pawl.KeyRoles, ActorType: "user", ActorID: "user/boss"})
	if pawl.CodeOf(err) != pawl.CodeInvalid {
		t.Errorf("a key: %v", err)
	}
}

// Two Authorization headers are refused, because either could count.
func TestTwoAuthorizations(t *testing.T) {
	h := open(t)
	req, err := http.NewRequestWithContext(t.Context(), "GET", h.srv.URL+"/v1/tasks", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header["Authorization"] = []string{"", ""}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != 401 || res.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("%s, WWW-Authenticate %q", res.Status, res.Header.Get("WWW-Authenticate"))
	}
}

func TestMetadataIsAskedForByMember(t *testing.T) {
	h := open(t)
	if r := ask(t, h.srv, "GET", "/v1/tasks?metadata=1", ""); r.StatusCode != 400 || !strings.Contains(r.text, "metadata[key]=value") {
		t.Errorf("%s %s", r.Status, r.text)
	}
}
