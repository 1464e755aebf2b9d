// Package mcp serves Pawl over the Model Context Protocol, for agents: the verbs as
// tools named work_*, tasks and types as resources. It has no rules of its own: it
// decodes a call, calls the pawl.Service and encodes the answer, so it works with an
// engine and with a client of a server. One handler without sessions serves the
// revisions 2025-11-25 and 2026-07-28.
package mcp

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/tracing"
)

// Options configure a Server. The zero value lets every caller use every tool of a
// worker.
type Options struct {
	// Stopping ends when the server is about to stop: waiting calls are then answered at
	// once. Nil = never.
	Stopping context.Context
	// Log gets the detail of internal errors; nil = slog.Default.
	Log *slog.Logger
	// Tools is the set of tools for callers without an API key: ToolsWorker (the
	// default), ToolsApprover or ToolsAll. A key gets the tools that its roles allow.
	Tools string
	// Version of the program; "" = "dev".
	Version string
	// Gate limits the rates of agents and records refusals. The pass in a call's context
	// (access.Of) decides what it may do; without a pass it may do everything. Nil = a
	// Gate of this server.
	Gate *access.Gate
	// WithKey adds an idempotency key to the calls of a context, for a service that
	// passes keys on, as client.WithKey does. Nil = the service stores the answers
	// itself (pawl.Idempotent), as an engine does.
	WithKey func(ctx context.Context, key string) context.Context
	// Sessions enables sessions over HTTP for clients of revisions before 2026-07-28.
	// Tools of your own program may need them to ask their clients; Pawl's tools do not.
	Sessions bool
	// Tune changes the options of the SDK's server, for a program that adds tools of its
	// own (see SDK). Nil = no change.
	Tune func(*sdk.ServerOptions)
	// Named means that the service identifies the caller, for example by an API key.
	// Otherwise a caller without a name is recorded as an agent.
	Named bool
	// TracerProvider makes a span of each call of a tool. Nil = no spans. In both cases a task
	// keeps the trace context of the call that creates it: traceparent and tracestate in its
	// _meta, or else that of the request.
	TracerProvider trace.TracerProvider
}

// The sets of tools for callers without an API key. An agent that can both work and
// approve could approve its own work, so ToolsAll must be chosen explicitly.
const (
	ToolsWorker   = "worker"   // ask for work, do it and read
	ToolsApprover = "approver" // approve, reject and read
	ToolsAll      = "all"
)

// ToolSets lists all sets.
var ToolSets = []string{ToolsWorker, ToolsApprover, ToolsAll}

// offers reports whether a set has the tools that need a role.
func offers(set string, r api.Role) bool {
	switch set {
	case ToolsAll:
		return true
	case ToolsApprover:
		return r == api.Approver || r == api.Reader
	}
	return r != api.Approver
}

// toolsOf returns the smallest set that has the tools that need a role.
func toolsOf(r api.Role) string {
	return ToolSets[slices.IndexFunc(ToolSets, func(set string) bool { return offers(set, r) })]
}

// Server serves a pawl.Service as tools and resources. It is safe for concurrent
// sessions.
type Server struct {
	svc       pawl.Service
	opts      Options
	sdk       *sdk.Server
	roles     sync.Map        // that tools need, []api.Role by name
	own       map[string]bool // the tools of the table
	table     []tool
	tracer    trace.Tracer // nil = no spans
	revisions []string     // of the protocol that are served

	progressEvery time.Duration
}

// New returns a server of svc.
func New(svc pawl.Service, o Options) *Server {
	if o.Stopping == nil {
		o.Stopping = context.Background()
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	if !slices.Contains(ToolSets, cmp.Or(o.Tools, ToolsWorker)) {
		panic("mcp: no set of tools " + strconv.Quote(o.Tools))
	}
	if o.Gate == nil {
		o.Gate = access.New(access.Options{Log: o.Log})
	}
	s := &Server{svc: svc, opts: o, own: map[string]bool{}, table: tools(), tracer: tracing.Tracer(o.TracerProvider),
		progressEvery: progressEvery}
	so := &sdk.ServerOptions{
		Instructions: instructions,
		// neither list ever changes
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{}},
		// what there is to see is the caller's
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
	}
	if o.Tune != nil {
		o.Tune(so)
	}
	if so.Capabilities == nil {
		so.Capabilities = &sdk.ServerCapabilities{}
	}
	s.revisions = sdk.SupportedProtocolVersions()
	if len(so.SupportedProtocolVersions) > 0 {
		s.revisions = so.SupportedProtocolVersions
	}
	so.Capabilities.AddExtension(TasksExtension, map[string]any{})
	s.sdk = sdk.NewServer(&sdk.Implementation{Name: "pawl", Title: "Pawl", Version: o.Version}, so)
	for _, t := range s.table {
		s.needs(t.Name, t.route.Role)
		s.own[t.Name] = true
		s.sdk.AddTool(t.describe(), s.handle(t))
	}
	s.resources()
	s.extend()
	s.runs()
	return s
}

// SDK returns the SDK's server, to which a program can add tools and resources.
func (s *Server) SDK() *sdk.Server { return s.sdk }

// HTTP returns a handler of the streamable HTTP transport. The caller of a request is
// that of its context (pawl.As). A request to a loopback address under another host name is
// refused, unless its context has a pass (access.With): who gave it has checked the caller and the name.
func (s *Server) HTTP() http.Handler {
	over := sdk.StreamableHTTPOptions{
		Stateless:                    true, // else the handler speaks to no client of 2026-07-28
		PropagateRequestCancellation: true,
		MaxRequestBodyBytes:          pawl.MaxBodyBytes,
		DisableLocalhostProtection:   true, // see rebound
	}
	get := func(*http.Request) *sdk.Server { return s.sdk }
	plain := sdk.NewStreamableHTTPHandler(get, &over)
	if !s.opts.Sessions {
		return s.checked(plain)
	}
	over.Stateless = false
	old := sdk.NewStreamableHTTPHandler(get, &over)
	return s.checked(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Protocol-Version") >= sessionless {
			plain.ServeHTTP(w, r)
		} else {
			old.ServeHTTP(w, r)
		}
	}))
}

// Stdio serves one client over a pair of streams, until in ends and every call is
// answered, or ctx ends; then it returns nil. Each line is a message. A line that is none is answered with an
// error of JSON-RPC, −32700 or −32600, and the next line is read.
func (s *Server) Stdio(ctx context.Context, in io.Reader, out io.Writer) error {
	calls := newDeliveries()
	defer calls.close()
	err := s.sdk.Run(context.WithValue(ctx, deliveriesKey{}, calls),
		drained{lines{in, out}, calls})
	if err == nil || errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil
	}
	return &pawl.Error{Code: pawl.CodeUnavailable, Op: "mcp", Message: "the client is gone", Err: err}
}

// instructions tell an agent how to work with the tools.
const instructions = `Pawl keeps work that must not be lost. A task is a request for work; its items are the units of work, leased ` +
	`to one worker at a time.

To do work, choose a worker_id of your own and keep it:
1. work_checkout takes an item and answers with its id, attempt and input, and with error and reasons where it is to be done again. ` +
	`Every later call about it carries item_id, worker_id and attempt: they are your lease.
2. work_get says what a good result is (rules: schemas, parts). work_resume tells what earlier attempts left: checkpoints, parts, and ` +
	`why a result was sent back.
3. While you work, call work_heartbeat well before lease_expires_at; work_progress and work_checkpoint keep what you have so far.
4. Hand in with the tool that hand_in names: work_submit, or piece by piece with work_submit_part and then work_finalize; types ` +
	`without acceptance end with work_complete. A refused result names what is wrong by JSON Pointer: ` +
	`your lease is as it was, so correct it and hand it in again.
5. If you cannot go on: work_fail with the reason, or work_release to give the item back unharmed.

When a call says lease_lost, stop: another worker may have the item. Check out again.
To have work done: work_types lists what can be asked for; work_propose, then work_wait. A submitted ` +
	`task waits for an approver: where you are offered work_approve and work_reject, decide with the version that work_get showed; ` +
	`rejecting with allow_rework sends its items back with your reasons.
Calls that change something may carry an idempotency key in _meta as ` +
	`"` + KeyMeta + `": made again with the same key, they are answered as the first time.`
