// Package dashboard is Pawl for people: pages under /ui/ that show how things
// stand and let somebody cancel, retry, bury, approve and reject. It holds no
// rule of its own; it reads and acts through the pawl.Service like any other
// door. What live updates need is JavaScript, nothing else does.
package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/clock"
)

//go:embed templates static
var files embed.FS

// Service is what the dashboard reads from and acts through.
type Service interface {
	pawl.Reader
	pawl.Approver
	pawl.Operator
	pawl.TaskMaker // for cancel
	pawl.Stopper
}

// Options steer a dashboard. The zero value lets everybody in: for a loopback
// address.
type Options struct {
	// Gate judges visitors by the API key they logged in with. Nil lets everybody in.
	Gate *access.Gate
	// SessionIdle ends the session of a browser in which nobody has done anything for
	// so long (0 = an hour), and SessionLength every session (0 = 12 hours).
	SessionIdle, SessionLength time.Duration
	// Secret encrypts the sessions: 32 bytes. Servers that share it share their
	// sessions. Nil = the service's own if it is an engine, else a random one.
	Secret []byte
	// Log takes the detail of internal errors; nil = slog's default.
	Log *slog.Logger
	// Version is the program's, shown at the foot of each page.
	Version string
	// Gauges count items by type and state, of all namespaces. Nil = the service's
	// own, if it is an engine; without any the overview has no table of types.
	Gauges func(context.Context) ([]pawl.Gauge, error)
}

type desk struct {
	svc      Service
	o        Options
	sessions *sessions
	pages    map[string]*template.Template
	depths   depths
}

// patience bounds what a page may take to be read.
const patience = 10 * time.Second

// maxForm bounds a form.
const maxForm = 64 << 10

// New returns what puts a dashboard before an API: it answers /ui/ and what is
// below, sends browsers there that ask for /, and hands all else on. The API is
// also where the streams of messages come from. Forms of other origins are
// refused, but not requests for hosts that are not ours: see server.Options.
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
	if e, ok := svc.(interface{ DerivedSecret(purpose string) []byte }); ok && o.Secret == nil {
		o.Secret = e.DerivedSecret("dashboard sessions")
	}
	d := &desk{svc: svc, o: o, pages: parse(), sessions: newSessions(o.Secret, cmp.Or(o.SessionIdle, time.Hour), cmp.Or(o.SessionLength, 12*time.Hour))}
	return func(api http.Handler) http.Handler {
		pages := d.routes(api)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasPrefix(r.URL.Path, "/ui/"):
				pages.ServeHTTP(w, r)
			case r.URL.Path == "/ui", r.URL.Path == "/" && r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html"):
				http.Redirect(w, r, "/ui/", http.StatusSeeOther)
			default:
				api.ServeHTTP(w, r)
			}
		})
	}
}

func (d *desk) routes(api http.Handler) http.Handler {
	mux := http.NewServeMux()
	for path, p := range map[string]struct {
		name string
		read func(*visit) (any, error)
	}{
		"/ui/{$}":                {"overview", d.overview},
		"/ui/tasks":              {"tasks", d.tasks},
		"/ui/tasks/{id}":         {"task", d.task},
		"/ui/items/{id}":         {"item", d.item},
		"/ui/messages/{id}":      {"message", d.message},
		"/ui/workers":            {"workers", d.workers},
		"/ui/types":              {"types", d.types},
		"/ui/legend":             {"legend", legend},
		"/ui/tasks/{id}/{verb}":  {"confirm", d.confirm},
		"/ui/items/{id}/{verb}":  {"confirm", d.confirm},
		"/ui/messages/{id}/stop": {"confirm", d.confirm},
		"/ui/":                   {"", func(*visit) (any, error) { return nil, pawl.ErrNotFound }},
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { d.answer(w, r, p.name, p.read) })
	}
	mux.HandleFunc("POST /ui/tasks/{id}/{verb}", d.act)
	mux.HandleFunc("POST /ui/items/{id}/{verb}", d.act)
	mux.HandleFunc("POST /ui/messages/{id}/stop", d.act)
	mux.HandleFunc("GET /ui/messages/{id}/stream", d.stream(api))
	mux.HandleFunc("GET /ui/login", func(w http.ResponseWriter, r *http.Request) { d.askForKey(w, r, nil) })
	mux.HandleFunc("POST /ui/login", d.login)
	mux.HandleFunc("POST /ui/logout", d.logout)
	mux.HandleFunc("POST /ui/namespace", d.choose)
	static, _ := fs.Sub(files, "static") // embedded: it is there
	mux.Handle("GET /ui/static/", http.StripPrefix("/ui/static/", http.FileServerFS(static)))
	cross := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin") // with no-referrer, a browser's forms have the origin null
		h.Set("Cache-Control", "no-store")
		if err := cross.Check(r); err != nil {
			d.refuse(w, r, &pawl.Error{Code: pawl.CodeForbidden, Message: "requests from other origins are refused"})
			return
		}
		if r.Method == http.MethodPost {
			r.Body = http.MaxBytesReader(w, r.Body, maxForm)
			_ = http.NewResponseController(w).SetReadDeadline(clock.Now().Add(3 * patience)) // not every writer has deadlines
		}
		mux.ServeHTTP(w, r)
	})
}

// visit is a request of somebody who may read.
type visit struct {
	*http.Request
	pass access.Pass
}

func (v *visit) at(name string) string { return v.URL.Query().Get(name) }

// page asks for a page of a list; at names the parameter that holds its cursor.
func (v *visit) page(at string, limit int) pawl.Page {
	return pawl.Page{Limit: limit, Cursor: v.at(at)}
}

// answer shows a page to whoever may read it.
func (d *desk) answer(w http.ResponseWriter, r *http.Request, page string, read func(*visit) (any, error)) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	r, err := d.enter(r.WithContext(ctx), "reader")
	if err != nil {
		d.turnAway(w, r, err)
		return
	}
	d.used(w, r)
	v := &visit{r, access.Of(r.Context())}
	data, err := read(v)
	if to, elsewhere := data.(redirect); err == nil && elsewhere {
		http.Redirect(w, r, string(to), http.StatusSeeOther)
		return
	}
	if err != nil {
		d.refuse(w, r, err)
		return
	}
	if !v.pass.Payloads() {
		access.Hide(data)
	}
	d.show(w, r, http.StatusOK, page, data)
}

// redirect is a page that is elsewhere.
type redirect string

// sheet is what every page shows, and what it is about.
type sheet struct {
	Page, Path, Namespace, Who, Version string
	Roams, Hidden, Live                 bool // may choose a namespace; sees no payloads; is read again every few seconds
	Pass                                access.Pass
	Query                               url.Values
	Data                                any
}

func (d *desk) show(w http.ResponseWriter, r *http.Request, status int, page string, data any) {
	pass := access.Of(r.Context())
	s := sheet{Page: page, Path: r.URL.Path, Namespace: pawl.CallerOf(r.Context()).Namespace, Version: d.o.Version, Pass: pass, Query: r.URL.Query(), Data: data,
		Roams: pass.Key == nil && !d.o.Gate.Required(), Hidden: !pass.Payloads(), Live: page != "legend" && page != "confirm" && page != "problem" && page != "login"}
	if k := pass.Key; k != nil {
		s.Who, s.Roams = cmp.Or(k.Name, k.ID), k.Namespace == pawl.AnyNamespace
	}
	var b bytes.Buffer
	if err := d.pages[page].ExecuteTemplate(&b, "layout", s); err != nil {
		d.o.Log.ErrorContext(r.Context(), "a page of the dashboard could not be written", "page", page, "error", err)
		http.Error(w, "this page could not be written; the server's log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(bytes.Map(visible, b.Bytes())) // the visitor may be gone
}

// refuse shows why something was not done, or not found.
func (d *desk) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := api.ProblemOf(err, r.URL.Path)
	if p.Code == pawl.CodeInternal {
		var e *pawl.Error
		if errors.As(err, &e) && e.Err != nil {
			err = errors.Join(err, e.Err)
		}
		d.o.Log.ErrorContext(r.Context(), "internal error", "path", r.URL.Path, "error", err)
	}
	d.show(w, r, p.Status, "problem", p)
}
