// Package server serves a pawl.Service over HTTP. It has one operation for each row of
// api.Routes, describes them as OpenAPI 3.1 and answers each refusal with a problem document.
// It holds no rule of its own: it reads a request, calls the pawl.Service and writes the
// answer.
package server

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/inbound"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/tracing"
)

// Limits bound what a server does at once. A program with settings of the same names and
// types converts them: server.Limits(settings).
type Limits struct {
	// BodiesInFlight bounds the total bytes of request bodies over 16 KiB whose calls are not
	// answered yet, as they arrive. Further ones wait up to 2 s and are then refused as limit.
	// A key may have as much as is free for all others, its only body all that is free.
	// Callers without a key of a server that requires keys have an eighth of it. 0 =
	// pawl.DefaultBodiesInFlight.
	BodiesInFlight int64
	// ReadTime bounds each read that is not a stream; 0 = 30 s. ReadsPerKey bounds the reads
	// of one API key that run at once, through all doors, and further ones wait; 0 = 2.
	ReadTime    time.Duration
	ReadsPerKey int
}

// Options configures a server. The zero value serves requests to loopback names and logs to
// slog's default.
type Options struct {
	// Stopping is done when the server is about to stop: then waiting claims are answered at
	// once and readyz answers 503. Nil = never.
	Stopping context.Context
	// Log receives one line per request and the detail of internal errors.
	Log *slog.Logger
	// Hosts are the names, without port, that requests may be addressed to besides loopback
	// names. A request for any other host is refused. This keeps out web pages that make their
	// own name resolve to this machine (DNS rebinding).
	Hosts []string
	// Gate checks the callers' API keys. Nil = a gate without keys, which admits every caller
	// that sends no key; use it only on a loopback address.
	Gate *access.Gate
	// Ready reports whether the database answers. Nil = a small read.
	Ready func(context.Context) error
	// RequireKeys names the mutating routes that require an Idempotency-Key; "*" = all of
	// them.
	RequireKeys []string
	// BodyTime is how long a caller may take to send a body; 0 = 30 s.
	BodyTime time.Duration
	Limits
	// At maps paths to further handlers, such as /mcp. Their requests pass the guard, and the
	// caller is read as for any other request. Each handler checks itself what the caller's
	// key permits (see access.Of).
	At map[string]http.Handler
	// Front wraps the API, behind the check of hosts and origins. It answers some requests
	// itself, as the dashboard does, and passes the others on. Nil = no wrapper.
	Front func(api http.Handler) http.Handler
	// Inbound are the sources of webhooks, by the name in the path of receive_webhook.
	Inbound map[string]*inbound.Source
	// Relay delivers once what the feed has, for a tick: relay.Once. Nil = ticks deliver nothing.
	Relay func(context.Context) (sent int64, next time.Time, err error)
	// Push calls workers once with what is queued, for a tick. Nil = ticks call none.
	Push func(context.Context) (pushed int64, next time.Time, err error)
	// Version is the program's version, for the API's description. "" = "dev".
	Version string
	// Gauges are read for GET /metrics, at most every few seconds. Nil = the gauges of the
	// service, if it is an engine.
	Gauges []func(context.Context) ([]pawl.Gauge, error)
	// TracerProvider makes a span of each request besides those for health and metrics. Nil =
	// no spans. In both cases a task keeps the trace context of the call that creates it.
	TracerProvider trace.TracerProvider
}

type server struct {
	*book
	svc     pawl.Service
	opts    Options
	mux     chi.Router // nil = its operations are described
	spec    func() []byte
	page    func() []byte
	metrics *metrics
	frames  frames
	writers streamWriters
	clock   dbClock
	bodies  bodies
	uploads bodies
	// nameless has the bodies of callers that a server with keys does not know.
	nameless bodies
	// largeUpload is how much an upload of more than one piece counts.
	largeUpload int64
	gate        *access.Gate
	tracer      trace.Tracer // nil = no spans
	cross       *http.CrossOriginProtection
	free        map[string]bool // the paths of routes that need no key
	searching   sync.Mutex      // held while names that may be meant are searched

	// front answers requests that passed the guard: Options.Front around the API, or the API.
	// routes finds the route of an API request.
	front, routes http.Handler
}

// New returns a handler that serves the API of svc.
func New(svc pawl.Service, o Options) http.Handler { return build(svc, o).mux }

func build(svc pawl.Service, o Options) *server {
	o.defaults(svc)
	s := &server{
		book: theBook(), svc: svc, opts: o, mux: chi.NewRouter(), metrics: newMetrics(svc, o.Gauges, o.Gate), gate: o.Gate,
		bodies: bodies{max: o.BodiesInFlight}, uploads: bodies{max: max(o.BodiesInFlight/4, largeUpload(svc))},
		largeUpload: largeUpload(svc), tracer: tracing.Tracer(o.TracerProvider),
		cross: http.NewCrossOriginProtection(), free: freePaths(),
	}
	s.clock.reader, _ = svc.(timeReader)
	s.nameless.max = max(o.BodiesInFlight/namelessPart, 1)
	s.gate.BoundReads(o.ReadsPerKey)
	s.mux.Use(s.requests, middleware.GetHead)
	s.mux.NotFound(s.notFound)
	s.mux.MethodNotAllowed(s.methodNotAllowed)
	s.operations()
	for path, door := range o.At {
		s.mux.Handle(path, s.door(door))
	}
	s.spec = sync.OnceValue(func() []byte { return describe(s.api.OpenAPI(), o.Version) }) // it takes a fifth of a small test's time
	s.page = sync.OnceValue(func() []byte { return reference(s.spec()) })
	return s
}

// operations registers all operations.
func (s *server) operations() {
	s.tasks()
	s.items()
	s.accept()
	s.messages()
	s.chats()
	s.streams()
	s.record()
	s.statsRoutes()
	s.ticks()
	s.doctor()
	s.queuesRoutes()
	s.budgets()
	s.effects()
	s.schedulesRoutes()
	s.types()
	s.keys()
	s.blobs()
	s.plain()
	s.health()
	s.metricsRoute()
}

// defaults fills in the options that are not set.
func (o *Options) defaults(svc pawl.Service) {
	if o.Stopping == nil {
		o.Stopping = context.Background()
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.BodyTime <= 0 {
		o.BodyTime = 30 * time.Second
	}
	o.bounds()
	o.Version = cmp.Or(o.Version, "dev")
	if o.Ready == nil {
		o.Ready = func(ctx context.Context) error { return ready(ctx, svc) }
	}
	if e, ok := svc.(gaugeReader); ok && o.Gauges == nil {
		o.Gauges = append(o.Gauges, e.Gauges)
	}
	if o.Gate == nil {
		o.Gate = access.New(access.Options{Log: o.Log})
	}
}

// ready reads a little, and fails if a kind of connections is exhausted.
func ready(ctx context.Context, svc pawl.Service) error {
	_, err := svc.ListSweeps(ctx, pawl.Page{Limit: 1})
	if e, ok := svc.(pooled); ok && err == nil {
		for _, p := range e.Pools() {
			if p.Exhausted != "" {
				return &pawl.Error{Code: pawl.CodeUnavailable, Op: "ready", Message: p.Exhausted}
			}
		}
	}
	return err
}

// bounds fills in the defaults of the limits that are not set.
func (o *Options) bounds() {
	if o.ReadTime <= 0 {
		o.ReadTime = pawl.DefaultReadTime
	}
	if o.ReadsPerKey <= 0 {
		o.ReadsPerKey = pawl.DefaultReadsPerKey
	}
	if o.BodiesInFlight <= 0 {
		o.BodiesInFlight = pawl.DefaultBodiesInFlight
	}
}

// settleHuma makes the settings that huma keeps in package variables.
func settleHuma() {
	huma.ValidateStrictCasing = true
	huma.DefaultArrayNullable = false
	validation.MsgExpectedRequiredProperty = required + "%s"
	validation.MsgUnexpectedProperty = "is not known here"
	huma.NewErrorWithContext = refusal
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return refusal(nil, status, msg, errs...)
	}
}

// add registers the operation of a route that changes nothing or that takes no idempotency
// key.
func add[I, O any](s *server, name string, h func(context.Context, *I) (*O, error)) {
	r := api.RouteOf(name)
	s.register(r, reflect.TypeFor[I](), reflect.TypeFor[O](), func(ctx context.Context, in any) (any, error) {
		out, err := h(ctx, in.(*I))
		return s.answered(ctx, r, out, err)
	})
}

// change registers the operation of a route that changes something. Its handler uses the
// service that it is given. With an idempotency key, that service works in the transaction
// that also stores the answer.
func change[I, O any](s *server, name string, h func(context.Context, pawl.Service, *I) (*O, error)) {
	r := api.RouteOf(name)
	s.register(r, reflect.TypeFor[I](), reflect.TypeFor[O](), func(ctx context.Context, in any) (any, error) {
		return s.carriedOut(ctx, r, reflect.TypeFor[O](), func(ctx context.Context, svc pawl.Service) (any, error) {
			return h(ctx, svc, in.(*I))
		})
	})
}

// carriedOut carries out a call that changes something, under its idempotency key if it has one.
func (s *server) carriedOut(ctx context.Context, r api.Route, out reflect.Type,
	do func(context.Context, pawl.Service) (any, error)) (any, error) {
	if k := callOf(ctx).keyed; k != nil {
		answer, err := s.once(ctx, r, k, out, do)
		return s.answered(ctx, r, answer, err)
	}
	answer, err := do(ctx, s.svc)
	return s.answered(ctx, r, answer, err)
}

// answered returns an operation's outcome: a refusal in this server's form, or the answer
// without what the caller may not see.
func (s *server) answered(ctx context.Context, r api.Route, out any, err error) (any, error) {
	if err != nil {
		return nil, s.refuse(ctx, s.meant(ctx, err))
	}
	visible(ctx, r, out)
	return out, nil
}

// described describes a route to huma.
func described(r api.Route) *huma.Operation {
	return &huma.Operation{
		OperationID:                  r.Name,
		Method:                       r.Method,
		Path:                         r.Path,
		Summary:                      title(r.Name),
		Description:                  r.Means,
		Tags:                         []string{tag(r.Path)},
		DefaultStatus:                r.Success,
		Security:                     security(r),
		Parameters:                   callerParams(r),
		RejectUnknownQueryParameters: r.Name != "read_stream", // the protocol wants them ignored
		Responses:                    streamsOf(r),
	}
}

// operatorDeadline bounds the time for the answer to an operator's call, and to one that copies a task:
// a sweep, a deletion or a copy may go over any number of rows.
const operatorDeadline = time.Hour

func extendDeadline(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(clock.Now().Add(operatorDeadline)) // not every writer supports deadlines
}

// These types are the shapes of requests and answers.
type (
	nothing struct{}
	member  struct {
		ID string `path:"id" doc:"The id."`
	}
	body[B any]   struct{ Body B }
	answer[B any] struct{ Body B }
)

// one returns the only answer to a batch of one.
func one[V any](rs []pawl.Result[V], err error) (V, error) {
	if err != nil || len(rs) != 1 {
		var zero V
		return zero, err
	}
	return rs[0].Value, rs[0].Err
}

func reply[B any](b B, err error) (*answer[B], error) {
	if err != nil {
		return nil, err
	}
	return &answer[B]{b}, nil
}

// page answers with a page; its items are never null.
func page[T any](l pawl.List[T], err error) (*answer[pawl.List[T]], error) {
	if l.Items == nil {
		l.Items = []T{}
	}
	return reply(l, err)
}
