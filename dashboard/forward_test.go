package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
)

// What a browser follows ends with its session: streams check their callers again.
func TestWhatIsFollowedEndsWithTheSession(t *testing.T) {
	d := &server{opts: Options{Gate: access.New(access.Options{Required: true})}, sessions: newSessions(nil, time.Hour, time.Hour)}
	of := d.sessions.beginAs(access.Principal{ID: "ann", Grants: []access.Grant{{Namespace: pawl.AnyNamespace, Roles: []string{"reader"}}}})
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/ui/live", nil)
	r.AddCookie(&http.Cookie{Name: sessionCookie, Value: url.QueryEscape(d.sessions.seal(of))})
	pass, err := d.enter(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.opts.Gate.CheckAgain(t.Context(), pass); err != nil {
		t.Errorf("while the session lasts: %v", err)
	}
	d.sessions.end(of)
	if err := d.opts.Gate.CheckAgain(t.Context(), pass); !errors.Is(err, errEnded) {
		t.Errorf("after the logout: %v", err)
	}
}

// A user with roles in some namespaces chooses among these, and learns of no others.
func TestAUserOfSomeNamespacesLearnsOfNoOther(t *testing.T) {
	d := &server{opts: Options{Gate: access.New(access.Options{Required: true}), Namespaces: func(context.Context, int) ([]string, error) {
		return []string{"team-a", "team-b", "team-c"}, nil
	}}}
	for in, want := range map[string]string{"team-b": "team-a team-b", pawl.AnyNamespace: "default team-a team-b team-c"} {
		grants := []access.Grant{{Namespace: "team-a", Roles: []string{"reader"}}, {Namespace: in, Roles: []string{"reader"}}}
		pass, err := d.opts.Gate.EnterAs(access.Principal{ID: "ann", Grants: grants})
		if got := strings.Join(d.namespaces(t.Context(), pass, "team-a"), " "); err != nil || got != want {
			t.Errorf("%s: %q, want %q: %v", in, got, want, err)
		}
	}
}

// Nothing of the dashboard stays in a browser.
func TestWhatIsForwardedIsNotStored(t *testing.T) {
	w := httptest.NewRecorder()
	forwarded := unstored{w}
	forwarded.Header().Set("Cache-Control", "private, immutable")
	forwarded.WriteHeader(http.StatusOK)
	if got := w.Result().Header.Get("Cache-Control"); got != "no-store" {
		t.Error(got)
	}
}
