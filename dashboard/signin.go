package dashboard

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/access/signin"
)

// The cookies of a login at the identity provider: what the login has to know when the browser
// returns, and the ID token, a hint for the logout.
const (
	flowCookie = "pawl_signin"
	hintCookie = "pawl_id_token"
)

const (
	flowLasts  = 10 * time.Minute
	mostCookie = 4000 // bytes of a value; browsers drop a cookie of more than 4096 bytes
)

var (
	flowContext = []byte("pawl dashboard sign-in 1")
	hintContext = []byte("pawl dashboard id token 1")
)

// flow is the content of the cookie of a login, encrypted.
type flow struct {
	signin.Flow
	Next  string    `json:"next"`
	Begun time.Time `json:"begun"`
}

// sendFlow sets the cookie of a login, or with "" clears it. The provider's page leads the browser
// back, so the cookie is Lax and not Strict.
func sendFlow(w http.ResponseWriter, r *http.Request, value string) {
	sendCookie(w, r, http.Cookie{Name: flowCookie, Value: value, Path: "/ui/oidc/", SameSite: http.SameSiteLaxMode,
		MaxAge: int(flowLasts.Seconds())})
}

// beginSignIn leads the browser to the identity provider.
func (d *server) beginSignIn(w http.ResponseWriter, r *http.Request) {
	address, f, err := d.opts.SignIn.Begin(r.Context())
	if err != nil {
		d.showError(w, r, err)
		return
	}
	sendFlow(w, r, d.sessions.sealAs(flow{f, safeNext(r.URL.Query().Get("next")), d.sessions.now()}, flowContext))
	http.Redirect(w, r, address, http.StatusSeeOther)
}

// finishSignIn begins a session for the user that the identity provider names.
func (d *server) finishSignIn(w http.ResponseWriter, r *http.Request) {
	sendFlow(w, r, "")
	from := access.From(r.Context(), r.RemoteAddr)
	f, who, hint, err := flow{}, access.Principal{}, "", d.opts.Gate.AllowLogin(from)
	if err == nil {
		f, err = d.takeFlow(r)
	}
	if err == nil {
		who, hint, err = d.opts.SignIn.Finish(r.Context(), f.Flow, r.URL.Query())
	}
	if pawl.CodeOf(err) == pawl.CodeUnauthenticated {
		d.opts.Gate.WrongLogin(from)
	}
	if err == nil {
		_, err = d.opts.Gate.EnterAs(who) // who has no roles is told so
	}
	if err != nil {
		d.opts.Gate.Refused(r.Context(), "dashboard", err, "method", r.Method, "path", r.URL.Path, "remote", r.RemoteAddr)
		if pawl.CodeOf(err) == pawl.CodeUnauthenticated {
			d.showLogin(w, r, err)
		} else {
			d.showError(w, r, err)
		}
		return
	}
	d.endSession(r)
	value := d.sessions.seal(d.sessions.beginAs(who))
	if len(value) > mostCookie {
		d.showError(w, r, &pawl.Error{Code: pawl.CodeForbidden, Message: "the roles of your groups are too many for a cookie"})
		return
	}
	setCookie(w, r, sessionCookie, value)
	if hint = d.sessions.sealAs(hint, hintContext); len(hint) <= mostCookie {
		sendCookie(w, r, http.Cookie{Name: hintCookie, Value: hint, Path: "/ui/logout", SameSite: http.SameSiteStrictMode})
	}
	// A redirect would belong to the navigation from the provider's site, on which the browser
	// does not send the session's cookie.
	d.onward(w, r, "Logged in", f.Next)
}

// takeFlow returns the login that the browser has begun. Each is taken once, on all servers of
// the database.
func (d *server) takeFlow(r *http.Request) (f flow, err error) {
	over := &pawl.Error{Code: pawl.CodeUnauthenticated, Message: "this login was not begun in this browser, or is over; log in again"}
	if !d.sessions.openAs(cookieValue(r, flowCookie), flowContext, &f) || d.sessions.now().Sub(f.Begun) >= flowLasts ||
		f.State != r.URL.Query().Get("state") {
		return f, over
	}
	first, err := d.firstUse(r.Context(), f)
	if err == nil && !first {
		err = over
	}
	return f, err
}

// firstUse reports whether a login was not finished before, and marks it as finished: on this
// server, and in the database if the service has one.
func (d *server) firstUse(ctx context.Context, f flow) (bool, error) {
	if !d.sessions.endOnce(f.State, f.Begun.Add(flowLasts)) {
		return false, nil
	}
	return d.once(ctx, "sign-in", f.State, 2*flowLasts)
}

// onward shows a page that leads to an address, as if the user had followed a link on it.
func (d *server) onward(w http.ResponseWriter, r *http.Request, title, to string) {
	if strings.HasPrefix(to, "/ui/") {
		to = d.opts.Prefix + to
	}
	d.render(w, &request{Request: r, pass: access.Of(r.Context())}, http.StatusOK, "onward", &struct{ Title, To string }{title, to})
}

// logoutAtProvider leads the browser to the identity provider, to log out there, too. It reports
// whether the session was one of the provider and the provider has such a page.
func (d *server) logoutAtProvider(w http.ResponseWriter, r *http.Request, s session) bool {
	if d.opts.SignIn == nil || s.Who == nil {
		return false
	}
	var hint string
	d.sessions.openAs(cookieValue(r, hintCookie), hintContext, &hint)
	sendCookie(w, r, http.Cookie{Name: hintCookie, Path: "/ui/logout"})
	to := d.opts.SignIn.LogoutURL(r.Context(), hint)
	if to == "" {
		return false
	}
	d.onward(w, r, "Logged out", to) // a form may not redirect to another site
	return true
}
