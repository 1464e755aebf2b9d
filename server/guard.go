package server

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
)

// guard refuses what a web page of another site could send: a request for another host name
// (DNS rebinding), or one from another origin (CSRF).
func (s *server) guard(r *http.Request) error {
	switch {
	case !s.ours(r.Host) && !s.probe(r) && (!s.gate.Required() || len(s.opts.Hosts) > 0): // pages have no key to send
		return &pawl.Error{Code: pawl.CodeForbidden, Message: "this server does not go by the name " + r.Host +
			"; serve.hosts (--hosts), or Hosts in the options of a Go program, names its hosts"}
	case s.cross.Check(r) != nil, foreign(r), embedded(r):
		return &pawl.Error{Code: pawl.CodeForbidden, Message: "requests from other origins are refused"}
	}
	return nil
}

// probe reports whether a request is one that watches the server: those of load balancers and of
// Prometheus name an address, or with HTTP/1.0 no host at all. Their answers show nothing of
// the work to a page that has no key.
func (s *server) probe(r *http.Request) bool {
	switch r.URL.Path {
	case "/healthz", "/readyz":
		return true
	case "/metrics":
		return r.Header.Get("Authorization") != ""
	}
	return false
}

func (s *server) ours(host string) bool {
	name := access.Hostname(host)
	return access.Loopback(name) || slices.ContainsFunc(s.opts.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
}

// embedded reports whether a browser sends the request for another site's page and not because
// its user follows a link. The page cannot read the answer, but it could hold connections or
// measure times.
func embedded(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
	}
	return false
}

// foreign reports whether a browser sends the request, of any method, for a page of an origin
// other than the one addressed.
func foreign(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host)
}
