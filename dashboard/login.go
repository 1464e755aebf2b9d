package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/access/signin"
	"github.com/pawl-work/pawl/api"
)

// The cookies: the session, and the namespace that the user chose.
const (
	sessionCookie   = "pawl_session"
	namespaceCookie = "pawl_namespace"
)

func cookieValue(r *http.Request, name string) string {
	c, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	value, _ := url.QueryUnescape(c.Value) // a malformed value is empty
	return value
}

// setCookie sets a cookie until the browser closes, or with "" clears it. It is sent
// for /ui/ only, and only on same-site requests.
func setCookie(w http.ResponseWriter, r *http.Request, name, value string) {
	sendCookie(w, r, http.Cookie{Name: name, Value: value, Path: "/ui/", SameSite: http.SameSiteStrictMode})
}

func sendCookie(w http.ResponseWriter, r *http.Request, c http.Cookie) {
	c.HttpOnly, c.Secure = true, secure(r)
	if c.Value == "" {
		c.MaxAge = -1
	}
	c.Value = url.QueryEscape(c.Value)
	http.SetCookie(w, &c)
}

// secure reports whether the browser uses TLS.
func secure(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

// enter identifies the caller: by the session, or by what a trusted proxy says. A session that
// has ended is an error.
func (d *server) enter(r *http.Request) (access.Pass, error) {
	if !d.opts.Gate.Required() || access.Proxied(r) {
		anonymous := r.Clone(r.Context())
		anonymous.Header.Del("Authorization") // of the proxy
		return d.opts.Gate.EnterRequest(anonymous)
	}
	s, err := d.sessions.open(cookieValue(r, sessionCookie))
	if err == nil {
		err = d.stillOpen(r.Context(), s)
	}
	var pass access.Pass
	switch {
	case err != nil:
		return access.Pass{}, err
	case s.Who != nil:
		pass, err = d.opts.Gate.EnterAs(*s.Who)
	default:
		pass, err = d.opts.Gate.Enter(access.From(r.Context(), r.RemoteAddr), s.Key)
	}
	pass.Still = func(ctx context.Context) error { // what the browser follows ends with the session
		s, err := d.sessions.open(cookieValue(r, sessionCookie))
		if err == nil {
			err = d.stillOpen(ctx, s)
		}
		return err
	}
	return pass, err
}

// stillOpen refuses a session that was ended on another server of the database, or on this one
// before it was started again. It asks the database at most once in checkAfter for a session.
func (d *server) stillOpen(ctx context.Context, s session) error {
	if s.ID == "" || !d.sessions.toCheck(s) {
		return nil
	}
	over, err := d.happened(ctx, logout, s.ID)
	if over {
		d.sessions.end(s)
		return errEnded
	}
	if err != nil {
		d.sessions.forget(s)
	}
	return err
}

// automaticHeader marks requests that a page makes without the user; they do not keep
// the session alive.
const automaticHeader = "Pawl-Automatic"

// touchSession keeps the session alive.
func (d *server) touchSession(w http.ResponseWriter, r *http.Request) {
	if !d.opts.Gate.Required() || r.Header.Get(automaticHeader) != "" {
		return
	}
	s, err := d.sessions.open(cookieValue(r, sessionCookie))
	if err != nil || s.ID == "" {
		return
	}
	if s, due := d.sessions.renew(s); due {
		setCookie(w, r, sessionCookie, d.sessions.seal(s))
	}
}

// authorize checks the session's key for a role and returns the request with the
// caller in its context. Without a required key the actor type is user; with a key
// the caller is the key's, as over HTTP.
func (d *server) authorize(r *http.Request, role string) (*http.Request, error) {
	return d.authorizeFor(r, role, false)
}

// authorizeFor is authorize; global marks requests that concern all namespaces.
func (d *server) authorizeFor(r *http.Request, role string, global bool) (*http.Request, error) {
	pass, err := d.enter(r)
	if err != nil {
		return r, err
	}
	asked := pass.Asked
	if pass.Key == nil {
		asked.ActorType = pawl.ActorUser
	}
	if pass.Key == nil || pass.Roams() {
		asked.Namespace = cookieValue(r, namespaceCookie)
	}
	pass = pass.Asking(asked)
	ctx, err := d.opts.Gate.Admit(access.With(r.Context(), pass), role, global, func(c pawl.Caller) string { return c.ActorID })
	return r.WithContext(ctx), err
}

// deny shows the login page if the key is missing or invalid, else the error.
func (d *server) deny(w http.ResponseWriter, r *http.Request, err error) {
	none := pawl.CodeOf(err) == pawl.CodeUnauthenticated
	if cookieValue(r, sessionCookie) != "" || !none { // a first visit without a cookie is not logged
		d.opts.Gate.Refused(r.Context(), "dashboard", err, "method", r.Method, "path", r.URL.Path, "remote", r.RemoteAddr)
	}
	if none {
		d.showLogin(w, r, err)
		return
	}
	d.showError(w, r, err)
}

// loginPage is the data of the login page.
type loginPage struct {
	Next     string
	Problem  string // why the login was refused
	Provider string // where users can log in; "" = with a key only
}

func (d *server) showLogin(w http.ResponseWriter, r *http.Request, why error) {
	k, status := loginPage{Next: "/ui/"}, http.StatusOK
	if r.Method == http.MethodGet && r.URL.Path != "/ui/login" && r.URL.Path != signin.CallbackPath {
		k.Next = r.URL.RequestURI()
	} else {
		k.Next = safeNext(r.PostFormValue("next"))
	}
	if p := d.opts.SignIn; p != nil {
		k.Provider = p.Issuer()
	}
	if why != nil {
		status = http.StatusUnauthorized
		back := r.URL.Path == signin.CallbackPath // any site can lead a browser there: that ends no session
		if cookieValue(r, sessionCookie) != "" || r.URL.Path == "/ui/login" || back {
			k.Problem = api.ProblemOf(why, "").Detail
		}
		if k.Problem != "" && !back {
			setCookie(w, r, sessionCookie, "")
		}
	}
	d.render(w, &request{Request: r, pass: access.Of(r.Context())}, status, "login", &k)
}

// alone reports whether a page has no menu: it is shown to who is not logged in.
func alone(page string) bool { return page == "login" || page == "onward" }

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Host
}

// safeNext returns next if it is a path below /ui/, else /ui/. Browsers resolve dot
// segments and treat a backslash as a slash.
func safeNext(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || strings.ContainsAny(u.Path, "\\") ||
		!strings.HasPrefix(u.Path, "/ui/") || strings.TrimSuffix(path.Clean(u.Path), "/")+"/" != strings.TrimSuffix(u.Path, "/")+"/" {
		return "/ui/"
	}
	return (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}).String()
}

func (d *server) login(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimSpace(r.PostFormValue("key"))
	if d.opts.Gate.Required() {
		if _, err := d.opts.Gate.Enter(access.From(r.Context(), r.RemoteAddr), key); err != nil {
			d.opts.Gate.Refused(r.Context(), "dashboard", err, "method", r.Method, "path", r.URL.Path, "remote", r.RemoteAddr)
			d.showLogin(w, r, err)
			return
		}
		d.endSession(r)
		setCookie(w, r, sessionCookie, d.sessions.seal(d.sessions.begin(key)))
	}
	http.Redirect(w, r, safeNext(r.PostFormValue("next")), http.StatusSeeOther)
}

func (d *server) logout(w http.ResponseWriter, r *http.Request) {
	s := d.endSession(r)
	setCookie(w, r, sessionCookie, "")
	setCookie(w, r, namespaceCookie, "")
	if d.logoutAtProvider(w, r, s) {
		return
	}
	http.Redirect(w, r, "/ui/", http.StatusSeeOther)
}

// endSession ends the session of a request, if it has one: on this server at once, on the others
// of the database within checkAfter.
func (d *server) endSession(r *http.Request) session {
	s, err := d.sessions.open(cookieValue(r, sessionCookie))
	if err != nil || s.ID == "" {
		return s
	}
	d.sessions.end(s)
	if _, err := d.once(r.Context(), logout, s.ID, d.sessions.length); err != nil {
		d.opts.Log.WarnContext(r.Context(), "a logout could not be stored: other servers accept the session until it ends", "error", err)
	}
	return s
}

// setNamespace sets the namespace cookie. It has no effect for a key that is bound to
// a namespace.
func (d *server) setNamespace(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimSpace(r.PostFormValue("namespace"))
	if len(name) > pawl.MaxIDLen {
		d.showError(w, r, pawl.Invalid("/namespace", "is over %d bytes", pawl.MaxIDLen))
		return
	}
	if name == pawl.AnyNamespace {
		d.showError(w, r, pawl.NoNamespace())
		return
	}
	setCookie(w, r, namespaceCookie, name)
	http.Redirect(w, r, "/ui/", http.StatusSeeOther)
}

// forward forwards a browser's EventSource or download, which cannot send an Authorization
// header, to the API with the session's pass. The id is between the parts of the path.
func (d *server) forward(next http.Handler, before, after string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r, err := d.authorize(r, "reader")
		if err != nil {
			d.deny(w, r, err)
			return
		}
		on := r.Clone(r.Context())
		on.URL.Path = before + r.PathValue("id") + after
		on.URL.RawPath = before + url.PathEscape(r.PathValue("id")) + after
		on.Header.Del("Cookie")
		on.Header.Del("Authorization")
		if ns := access.Of(r.Context()).Asked.Namespace; ns != "" {
			on.Header.Set(api.NamespaceHeader, url.PathEscape(ns))
		}
		next.ServeHTTP(unstored{w}, on)
	}
}

// unstored is the writer of an answer of the API that the browser does not store.
type unstored struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (u unstored) WriteHeader(status int) {
	u.Header().Set("Cache-Control", "no-store")
	u.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (u unstored) Write(p []byte) (int, error) {
	u.Header().Set("Cache-Control", "no-store")
	return u.ResponseWriter.Write(p)
}

// Unwrap returns the writer under it, for http.ResponseController.
func (u unstored) Unwrap() http.ResponseWriter { return u.ResponseWriter }
