// Package dashboard serves HTML pages under /ui/ that show tasks, items, messages and
// workers, and forms to approve, reject, retry, bury, revoke, stop and cancel. It has
// no rules of its own: it reads and acts through the pawl.Service. Only live updates
// need JavaScript.
package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/access/signin"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/internal/htmlpage"
)

//go:embed templates static
var files embed.FS

// Service is what the dashboard reads from and acts through.
type Service interface {
	pawl.Reader
	pawl.Approver
	pawl.Operator  // with bulk calls
	pawl.TaskMaker // for cancel
	pawl.TaskForker
	pawl.Stopper
	pawl.Signaller
}

// Options configure a dashboard. The zero value requires no API key: use it on a
// loopback address only.
type Options struct {
	// Gate authorizes requests by the API key of their session. Nil requires no key.
	Gate *access.Gate
	// Prefix is where a program serves the pages inside a site of its own, for example /admin/pawl: they are at
	// /admin/pawl/ui/ then. "" = /ui/.
	Prefix string
	// SessionIdle ends a session that was not used for that long (0 = an hour).
	// SessionLength bounds every session (0 = 12 hours).
	SessionIdle, SessionLength time.Duration
	// Secret encrypts the sessions: 32 bytes. Servers with the same secret accept each
	// other's sessions. Nil = derived from the database if the service is an engine,
	// else random.
	Secret []byte
	// SignIn lets users log in at an identity provider, too; nil = with a key only. It needs
	// a Gate that requires keys.
	SignIn *signin.Provider
	// Log gets the detail of internal errors; nil = slog's default.
	Log *slog.Logger
	// Version is the program's, shown at the foot of each page.
	Version string
	// Gauges count items by type and state, of all namespaces. Nil = those of the
	// service if it is an engine; without them the overview has no table of types.
	Gauges func(context.Context) ([]pawl.Gauge, error)
	// Stopping ends the streams of open pages when it is done; nil = they end with their
	// connections. Give it the context of server.Serve.
	Stopping context.Context
	// Namespaces lists namespaces that had work, at most limit. Nil = those of the service if it is an engine; without
	// them the name of a namespace is typed in.
	Namespaces func(ctx context.Context, limit int) ([]string, error)
	// Spending is what a task spent of each budget. Nil = that of the service if it is an
	// engine; without it the page of a task does not show it.
	Spending func(ctx context.Context, taskID string) ([]pawl.TaskSpending, error)
}

type server struct {
	svc      Service
	opts     Options
	sessions *sessions
	pages    map[string]*htmlpage.Set
	counts   countCache
	waits    answers[stuckWork]
	lines    answers[queueSparks]
	leases   answers[pawl.LeaseAdvice]
	spaces   answers[string]
	hints    *hints
	kept     fragments
}

// stillPages do not change while they are open.
var stillPages = []string{"legend", "confirm", "problem", "login", "onward", "selected", "bulk", "effect", "search"}

// pageTimeout bounds the reads of one page.
const pageTimeout = 10 * time.Second

// maxForm bounds a form.
const maxForm = 64 << 10

// New returns middleware for an API handler. It answers /ui/ and the paths below it,
// redirects browsers from / to /ui/, and passes all other requests to the API. Message
// streams of the pages come from the API too. It refuses forms of other origins. It
// does not check the Host header: see server.Options. With a prefix, /ui/ and / are those
// below it.
func New(svc Service, o Options) func(api http.Handler) http.Handler {
	if o.Gate == nil {
		o.Gate = access.New(access.Options{Log: o.Log})
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if e, ok := svc.(interface {
		Gauges(context.Context) ([]pawl.Gauge, error)
	}); ok && o.Gauges == nil {
		o.Gauges = e.Gauges
	}
	if e, ok := svc.(interface {
		TaskSpending(context.Context, string) ([]pawl.TaskSpending, error)
	}); ok && o.Spending == nil {
		o.Spending = e.TaskSpending
	}
	if e, ok := svc.(interface {
		Namespaces(context.Context, int) ([]string, error)
	}); ok && o.Namespaces == nil {
		o.Namespaces = e.Namespaces
	}
	if e, ok := svc.(interface{ DerivedSecret(purpose string) []byte }); ok && o.Secret == nil {
		o.Secret = e.DerivedSecret("dashboard sessions")
	}
	if o.Stopping == nil {
		o.Stopping = context.Background()
	}
	if o.Prefix = strings.Trim(o.Prefix, "/"); o.Prefix != "" {
		o.Prefix = "/" + o.Prefix
	}
	d := &server{
		svc:      svc,
		opts:     o,
		hints:    newHints(svc),
		pages:    parse(o.Prefix),
		sessions: newSessions(o.Secret, cmp.Or(o.SessionIdle, time.Hour), cmp.Or(o.SessionLength, 12*time.Hour)),
	}
	return func(api http.Handler) http.Handler {
		pages := underPrefix(o.Prefix, d.routes(api))
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			path, below := strings.CutPrefix(r.URL.Path, o.Prefix)
			switch {
			case below && strings.HasPrefix(path, "/ui/"):
				pages.ServeHTTP(w, r)
			case below && (path == "/ui" || path == "/" && r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")):
				http.Redirect(w, r, o.Prefix+"/ui/", http.StatusSeeOther)
			default:
				api.ServeHTTP(w, r)
			}
		})
	}
}

func (d *server) routes(api http.Handler) http.Handler {
	mux := http.NewServeMux()
	for path, p := range map[string]struct {
		name string
		read func(*request) (any, error)
	}{
		"/ui/{$}":                {"overview", d.overview},
		"/ui/tasks":              {"tasks", d.tasks},
		"/ui/tasks/{id}":         {"task", d.task},
		"/ui/tasks/bulk":         {"bulk", d.confirmBulk},
		"/ui/items":              {"items", d.items},
		"/ui/approvals":          {"approvals", d.approvals},
		"/ui/effects":            {"effects", d.effects},
		"/ui/effects/{id}":       {"effect", d.effect},
		"/ui/failures":           {"failures", d.failures},
		"/ui/dead-letters":       {"failures", d.deadLetters},
		"/ui/items/selected":     {"selected", d.confirmSelection},
		"/ui/items/{id}":         {"item", d.item},
		"/ui/messages/{id}":      {"message", d.message},
		"/ui/messages":           {"messages", d.messages},
		"/ui/search":             {"search", d.search},
		"/ui/workers":            {"workers", d.workers},
		"/ui/types":              {"types", d.types},
		"/ui/queues":             {"queues", d.queues},
		"/ui/queues/{id}":        {"queue", d.queue},
		"/ui/schedules":          {"schedules", d.schedules},
		"/ui/schedules/{id}":     {"schedule", d.schedule},
		"/ui/budgets":            {"budgets", d.budgets},
		"/ui/budgets/{id}":       {"budget", d.budget},
		"/ui/legend":             {"legend", legend},
		"/ui/tasks/{id}/{verb}":  {"confirm", d.confirm},
		"/ui/items/{id}/{verb}":  {"confirm", d.confirm},
		"/ui/messages/{id}/stop": {"confirm", d.confirm},
		"/ui/":                   {"", func(*request) (any, error) { return nil, pawl.ErrNotFound }},
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { d.page(w, r, p.name, p.read) })
	}
	d.routesOfAll(mux)
	d.routeForms(mux)
	mux.HandleFunc("GET /ui/messages/{id}/stream", d.forward(api, "/v1/messages/", "/stream"))
	mux.HandleFunc("GET /ui/blobs/{id}", d.forward(api, "/v1/blobs/", ""))
	mux.HandleFunc("GET /ui/login", func(w http.ResponseWriter, r *http.Request) { d.showLogin(w, r, nil) })
	mux.HandleFunc("GET /ui/live", d.serveHints)
	static, _ := fs.Sub(files, "static") // embedded: it is there
	mux.Handle("GET /ui/static/", http.StripPrefix("/ui/static/", http.FileServerFS(static)))
	cross := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w.Header())
		if err := cross.Check(r); err != nil {
			d.showError(w, r, &pawl.Error{Code: pawl.CodeForbidden, Message: "requests from other origins are refused"})
			return
		}
		if r.Method == http.MethodPost {
			r.Body = http.MaxBytesReader(w, r.Body, maxForm)
			_ = http.NewResponseController(w).SetReadDeadline(clock.Now().Add(3 * pageTimeout)) // not every ResponseWriter has deadlines
		}
		mux.ServeHTTP(w, r)
	})
}

// routesOfAll adds the pages of what belongs to all namespaces.
func (d *server) routesOfAll(mux *http.ServeMux) {
	for path, p := range map[string]struct {
		role, name string
		read       func(*request) (any, error)
	}{
		"/ui/sweeps": {"reader", "sweeps", d.sweeps},
		"/ui/relays": {"operator", "relays", d.relays},
		"/ui/keys":   {"operator", "keys", d.keys},
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { d.pageOfAll(w, r, p.role, p.name, p.read) })
	}
}

// routeForms adds the routes of what users do.
func (d *server) routeForms(mux *http.ServeMux) {
	mux.HandleFunc("POST /ui/view", setView)
	mux.HandleFunc("POST /ui/namespace", d.setNamespace)
	mux.HandleFunc("POST /ui/logout", d.logout)
	mux.HandleFunc("POST /ui/login", d.login)
	if d.opts.SignIn != nil {
		mux.HandleFunc("GET /ui/oidc/login", d.beginSignIn)
		mux.HandleFunc("GET "+signin.CallbackPath, d.finishSignIn)
	}
	mux.HandleFunc("POST /ui/namespace/{verb}", d.performSwitch("/ui/namespace/"))
	mux.HandleFunc("POST /ui/tasks/bulk", d.post("", d.performBulk))
	mux.HandleFunc("POST /ui/items/selected", d.post("selected", d.performSelection))
	mux.HandleFunc("POST /ui/tasks/{id}/{verb}", d.perform)
	mux.HandleFunc("POST /ui/items/{id}/{verb}", d.perform)
	mux.HandleFunc("POST /ui/messages/{id}/stop", d.perform)
	for _, pages := range []string{"/ui/queues/", "/ui/schedules/", "/ui/budgets/", "/ui/signals/", "/ui/relays/", "/ui/keys/",
		"/ui/effects/"} {
		mux.HandleFunc("POST "+pages+"{id}/{verb}", d.performSwitch(pages))
	}
}

// setHeaders sets what every answer of the dashboard has.
func setHeaders(h http.Header) {
	h.Set(
		"Content-Security-Policy",
		"default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "+
			"frame-ancestors 'none'",
	)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, a browser's forms have the origin null
	h.Set("Cache-Control", "no-store")
}

// request is an authorized request.
type request struct {
	*http.Request
	pass     access.Pass
	commands []command // that show what the page shows
	path     string    // of the API, that answers with what the page shows
}

func (v *request) param(name string) string { return v.URL.Query().Get(name) }

// pageOf is the page of a list whose cursor is in the parameter at.
func (v *request) pageOf(at string, limit int) pawl.Page {
	return pawl.Page{Limit: limit, Cursor: v.param(at)}
}

// page authorizes a request, reads a page's data and renders it.
func (d *server) page(w http.ResponseWriter, r *http.Request, page string, read func(*request) (any, error)) {
	if r.Method != http.MethodPost { // what a form does is not broken off between its parts
		ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
		defer cancel()
		r = r.WithContext(ctx)
	}
	r, err := d.authorize(r, "reader")
	if err != nil {
		d.deny(w, r, err)
		return
	}
	d.show(w, r, page, read)
}

// pageOfAll is page for a page of all namespaces: the caller must have the role in all of them.
func (d *server) pageOfAll(w http.ResponseWriter, r *http.Request, role, page string, read func(*request) (any, error)) {
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	r, err := d.authorizeFor(r.WithContext(ctx), role, true)
	if err != nil {
		d.deny(w, r, err)
		return
	}
	d.show(w, r, page, read)
}

// show reads the data of a page for an authorized request and renders it.
func (d *server) show(w http.ResponseWriter, r *http.Request, page string, read func(*request) (any, error)) {
	end, err := d.opts.Gate.BeginRead(r.Context())
	if err != nil {
		d.showError(w, r, err)
		return
	}
	defer end()
	d.touchSession(w, r)
	v := &request{Request: r, pass: access.Of(r.Context())}
	if r.Header.Get(automaticHeader) != "" {
		d.readAgain(w, v, page, read)
		return
	}
	data, err := visible(v, read)
	if to, elsewhere := data.(redirect); err == nil && elsewhere {
		http.Redirect(w, r, string(to), http.StatusSeeOther)
		return
	}
	if err != nil {
		d.showError(w, r, err)
		return
	}
	d.render(w, v, http.StatusOK, page, data)
}

// visible reads a page's data as far as the caller may see it.
func visible(v *request, read func(*request) (any, error)) (any, error) {
	data, err := read(v)
	if err == nil && !v.pass.Payloads() {
		access.Hide(data)
	}
	return data, err
}

// redirect is returned instead of data; it is the address of another page.
type redirect string

// pageData is the data of the layout; Data is that of the page.
type pageData struct {
	Page, Path, Namespace, KeyName, Version string
	Here                                    string   // the address of the page
	Proxied                                 bool     // a proxy names the user: a logout is its matter
	Namespaces                              []string // that the user may choose from; none = the name is typed in
	AnyNamespace, Hidden, Live              bool     // may choose a namespace; payloads are hidden; changes are shown as they come
	Theme                                   string   // light, dark, or "" for the system's
	LocalTime                               bool     // exact times are in the browser's zone, not in UTC
	Pass                                    access.Pass
	Query                                   url.Values
	Menu                                    []menuGroup
	Commands                                []string // that show the same
	Quarantine                              string   // why nothing acts; "" = the database acts
	Data                                    any
}

// render answers with a whole page.
func (d *server) render(w http.ResponseWriter, v *request, status int, page string, data any) {
	html, err := d.html(v, "layout", page, data)
	if pawl.CodeOf(err) == pawl.CodeTooLarge && page != "problem" {
		d.showError(w, v.Request, err)
		return
	}
	if err != nil {
		http.Error(w, "this page could not be rendered; see the server's log", http.StatusInternalServerError)
		return
	}
	sendHTML(w, status, html)
}

func sendHTML(w http.ResponseWriter, status int, html []byte) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(html) // the client may have disconnected
}

// html renders a page, or with the part "content" what of it changes.
func (d *server) html(v *request, part, page string, data any) ([]byte, error) {
	s := pageData{
		Page:         page,
		Path:         v.URL.Path,
		Here:         v.URL.RequestURI(),
		Namespace:    pawl.CallerOf(v.Context()).Namespace,
		Version:      d.opts.Version,
		Theme:        themeOf(v.Request),
		LocalTime:    cookieValue(v.Request, zoneCookie) == "local",
		Pass:         v.pass,
		Query:        v.URL.Query(),
		Menu:         menu,
		Commands:     v.lines(),
		Data:         data,
		AnyNamespace: v.pass.Key == nil && !d.opts.Gate.Required(),
		Hidden:       !v.pass.Payloads(),
		Live:         !slices.Contains(stillPages, page),
	}
	if k := v.pass.Key; k != nil {
		s.KeyName, s.AnyNamespace, s.Proxied = cmp.Or(k.Name, k.ID), v.pass.Roams(), access.Proxied(v.Request)
	}
	if s.AnyNamespace && !alone(page) {
		s.Namespaces = d.namespaces(v.Context(), v.pass, s.Namespace)
	}
	if e, ok := d.svc.(interface{ QuarantineReason() string }); ok {
		s.Quarantine = e.QuarantineReason()
	}
	var b boundedBuffer
	if err := d.pages[page].Execute(&b, part, s); pawl.CodeOf(err) == pawl.CodeTooLarge {
		return nil, err
	} else if err != nil {
		d.opts.Log.ErrorContext(v.Context(), "dashboard page could not be rendered", "page", page, "error", err)
		return nil, err
	}
	return bytes.Map(replaceControl, b.kept.Bytes()), nil
}

// maxPage bounds the bytes of a page. The lists on it have bounds of their own, and HTML may have five
// bytes for a byte of them.
const maxPage = 32 << 20

type boundedBuffer struct{ kept bytes.Buffer }

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.kept.Len()+len(p) > maxPage {
		return 0, &pawl.Error{Code: pawl.CodeTooLarge, Message: fmt.Sprintf("the page would have more than %d bytes", maxPage)}
	}
	return b.kept.Write(p)
}

// showError renders an error as a page.
func (d *server) showError(w http.ResponseWriter, r *http.Request, err error) {
	p := api.ProblemOf(err, r.URL.Path)
	if p.Code == pawl.CodeInternal {
		var e *pawl.Error
		if errors.As(err, &e) && e.Err != nil {
			err = errors.Join(err, e.Err)
		}
		d.opts.Log.ErrorContext(r.Context(), "internal error", "path", r.URL.Path, "error", err)
	}
	d.render(w, &request{Request: r, pass: access.Of(r.Context())}, p.Status, "problem", p)
}
