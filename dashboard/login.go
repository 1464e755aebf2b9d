package dashboard

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
)

// The cookies: the session of somebody who logged in, and the namespace that was
// chosen where that is allowed.
const (
	sessionCookie   = "pawl_session"
	namespaceCookie = "pawl_namespace"
)

func cookie(r *http.Request, name string) string {
	c, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	value, _ := url.QueryUnescape(c.Value) // what is none is no key and no namespace
	return value
}

// keep sets a cookie for as long as the browser runs, or with "" clears it. The
// browser sends it to pages of ours only, and only when a page of ours leads there.
func keep(w http.ResponseWriter, r *http.Request, name, value string) {
	c := &http.Cookie{Name: name, Value: url.QueryEscape(value), Path: "/ui/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// token is the API key of a visitor; where none is asked for, none is heard. A
// session that has ended is an error.
func (d *desk) token(r *http.Request) (string, error) {
	if !d.o.Gate.Required() {
		return "", nil
	}
	s, err := d.sessions.open(cookie(r, sessionCookie))
	return s.Key, err
}

// automatic is the header of what a page asks for by itself; that keeps no
// session alive.
const automatic = "Pawl-Automatic"

// used keeps the session of a visitor alive.
func (d *desk) used(w http.ResponseWriter, r *http.Request) {
	if !d.o.Gate.Required() || r.Header.Get(automatic) != "" {
		return
	}
	s, err := d.sessions.open(cookie(r, sessionCookie))
	if err != nil || s.Key == "" {
		return
	}
	if s, due := d.sessions.renew(s); due {
		keep(w, r, sessionCookie, d.sessions.seal(s))
	}
}

// enter is the request as its visitor may make it in a role. Without keys he is
// a user; with one he goes by its name, as at every door.
func (d *desk) enter(r *http.Request, role string) (*http.Request, error) {
	token, err := d.token(r)
	if err != nil {
		return r, err
	}
	pass, err := d.o.Gate.Enter(access.From(r.Context(), r.RemoteAddr), token)
	if err != nil {
		return r, err
	}
	if pass.Key == nil {
		pass.Asked.ActorType = pawl.ActorUser
	}
	if pass.Key == nil || pass.Key.Namespace == pawl.AnyNamespace {
		pass.Asked.Namespace = cookie(r, namespaceCookie)
	}
	ctx, err := d.o.Gate.Admit(access.With(r.Context(), pass), role, false, func(c pawl.Caller) string { return c.ActorID })
	return r.WithContext(ctx), err
}

// turnAway asks those for a key who brought none that is good.
func (d *desk) turnAway(w http.ResponseWriter, r *http.Request, err error) {
	none := pawl.CodeOf(err) == pawl.CodeUnauthenticated
	if cookie(r, sessionCookie) != "" || !none { // whoever comes for the first time is no refusal
		d.o.Gate.Refused(r.Context(), "dashboard", err, "method", r.Method, "path", r.URL.Path, "remote", r.RemoteAddr)
	}
	if none {
		d.askForKey(w, r, err)
		return
	}
	d.refuse(w, r, err)
}

// knock is what the page to log in says.
type knock struct {
	Next  string
	Again string // why the key was refused
}

func (d *desk) askForKey(w http.ResponseWriter, r *http.Request, why error) {
	k, status := knock{Next: "/ui/"}, http.StatusOK
	if r.Method == http.MethodGet && r.URL.Path != "/ui/login" {
		k.Next = r.URL.RequestURI()
	} else {
		k.Next = ownPage(r.PostFormValue("next"))
	}
	if why != nil {
		status = http.StatusUnauthorized
		if cookie(r, sessionCookie) != "" || r.URL.Path == "/ui/login" {
			k.Again = api.ProblemOf(why, "").Detail
			keep(w, r, sessionCookie, "")
		}
	}
	d.show(w, r, status, "login", &k)
}

// ownPage is next if it is the address of one of our pages, else the first page.
// Browsers resolve dot segments and read a backslash as a slash.
func ownPage(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || strings.ContainsAny(u.Path, "\\") ||
		!strings.HasPrefix(u.Path, "/ui/") || strings.TrimSuffix(path.Clean(u.Path), "/")+"/" != strings.TrimSuffix(u.Path, "/")+"/" {
		return "/ui/"
	}
	return (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}).String()
}

func (d *desk) login(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimSpace(r.PostFormValue("key"))
	if d.o.Gate.Required() {
		if _, err := d.o.Gate.Enter(access.From(r.Context(), r.RemoteAddr), key); err != nil {
			d.o.Gate.Refused(r.Context(), "dashboard", err, "method", r.Method, "path", r.URL.Path, "remote", r.RemoteAddr)
			d.askForKey(w, r, err)
			return
		}
		keep(w, r, sessionCookie, d.sessions.seal(d.sessions.begin(key)))
	}
	http.Redirect(w, r, ownPage(r.PostFormValue("next")), http.StatusSeeOther)
}

func (d *desk) logout(w http.ResponseWriter, r *http.Request) {
	if s, err := d.sessions.open(cookie(r, sessionCookie)); err == nil && s.ID != "" {
		d.sessions.end(s)
	}
	keep(w, r, sessionCookie, "")
	keep(w, r, namespaceCookie, "")
	http.Redirect(w, r, "/ui/", http.StatusSeeOther)
}

// choose takes another namespace. Whose key has one of its own keeps it.
func (d *desk) choose(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimSpace(r.PostFormValue("namespace"))
	if len(name) > pawl.MaxIDLen {
		d.refuse(w, r, pawl.Invalid("/namespace", "is over %d bytes", pawl.MaxIDLen))
		return
	}
	keep(w, r, namespaceCookie, name)
	http.Redirect(w, r, "/ui/", http.StatusSeeOther)
}

// stream hands a browser's EventSource, which can send no Authorization, on to
// the API with the key that its user logged in with.
func (d *desk) stream(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r, err := d.enter(r, "reader")
		if err != nil {
			d.turnAway(w, r, err)
			return
		}
		on := r.Clone(r.Context())
		on.URL.Path = "/v1/messages/" + r.PathValue("id") + "/stream"
		on.URL.RawPath = "/v1/messages/" + url.PathEscape(r.PathValue("id")) + "/stream"
		on.Header.Del("Cookie")
		on.Header.Del("Authorization")
		if token, err := d.token(r); err == nil && token != "" {
			on.Header.Set("Authorization", "Bearer "+token)
		}
		if ns := access.Of(r.Context()).Asked.Namespace; ns != "" {
			on.Header.Set(api.NamespaceHeader, url.PathEscape(ns))
		}
		next.ServeHTTP(w, on)
	}
}
