package mcp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/mcp"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// A proxy on the same machine passes requests on to a loopback address, under the public name of
// the server. Without keys, such a request may be that of a web page (DNS rebinding).
func TestTheNameOfTheServer(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	_, token, err := p.Engine.CreateAPIKey(t.Context(), pawl.NewAPIKey{Name: "k", Roles: pawl.KeyRoles})
	if err != nil {
		t.Fatal(err)
	}
	mounted := func(required bool, hosts ...string) http.Handler {
		gate := access.New(access.Options{Keys: p.Engine, Required: required, Log: quiet})
		return server.New(p.Service, server.Options{Log: quiet, Gate: gate, Hosts: hosts,
			At: map[string]http.Handler{"/mcp": mcp.New(p.Service, mcp.Options{Log: quiet, Gate: gate}).HTTP()}})
	}
	bearer := []string{"Authorization", "Bearer " + token}
	bodies := map[string]string{
		"a tool":            calling("1", `{"name":"work_list","arguments":{}}`),
		"a call of the SDK": `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
	}
	for _, c := range []struct {
		what    string
		handler http.Handler
		host    string
		headers []string
		want    int
	}{
		{"with keys", mounted(true), "pawl.example", bearer, 200},
		{"with keys, a host with a port", mounted(true), "pawl.example:8443", bearer, 200},
		{"with keys, no key", mounted(true), "pawl.example", nil, 401},
		{"with keys and hosts", mounted(true, "pawl.example"), "pawl.example", bearer, 200},
		{"with keys and hosts, another host", mounted(true, "pawl.example"), "evil.example", bearer, 403},
		{"without keys", mounted(false), "evil.example", nil, 403},
		{"without keys, a key of a caller", mounted(false), "evil.example", bearer, 403},
		{"without keys, a host that was given", mounted(false, "pawl.example"), "pawl.example", nil, 200},
		{"without keys, another host", mounted(false, "pawl.example"), "evil.example", nil, 403},
		{"without keys, another name of loopback", mounted(false), "LOCALHOST.", nil, 200},
		{"the handler alone", mcp.New(p.Service, mcp.Options{Log: quiet}).HTTP(), "evil.example", nil, 403},
		{"the handler alone, loopback", mcp.New(p.Service, mcp.Options{Log: quiet}).HTTP(), "[::1]:80", nil, 200},
	} {
		srv := httptest.NewServer(c.handler)
		for what, body := range bodies {
			if status, raw := post(t, srv.URL, body, append(c.headers, "Host", c.host)...); status != c.want {
				t.Errorf("%s, %s: %d %s, want %d", c.what, what, status, raw, c.want)
			} else if status == 403 && !strings.Contains(raw, "Hosts") {
				t.Errorf("%s, %s: %q says nothing of the remedy", c.what, what, raw)
			}
		}
		srv.Close()
	}
}
