// Package mcp is Pawl over the Model Context Protocol: the verbs as tools named
// work_*, tasks and types as resources, for agents. It holds no rule of its own;
// it reads a call, asks the pawl.Service and writes the answer, so that an engine
// and a client of a server are served alike. Revisions 2025-11-25 and 2026-07-28
// are spoken by one handler that keeps no sessions.
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

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
)

// Options steer a server. The zero value lets every caller use every tool.
type Options struct {
	// Stopping ends when the server is about to stop: calls that wait are
	// answered at once. Nil = never.
	Stopping context.Context
	// Log takes the detail of internal errors; nil = slog's default.
	Log *slog.Logger
	// Tools says which tools callers without an API key are offered: ToolsWorker ("" too),
	// ToolsApprover or ToolsAll. A key is offered what its roles are good for.
	Tools string
	// Version is the program's. "" = "dev".
	Version string
	// Gate keeps the rates of agents and takes refusals on record. What a call may
	// do its pass says (access.Of its context); one without may do all. Nil = a
	// gate of this server's own.
	Gate *access.Gate
	// WithKey puts an idempotency key on the calls of a context, for a service
	// that carries keys further, as client.WithKey does. Nil = the service keeps
	// the answers itself (pawl.Idempotent), as an engine does.
	WithKey func(ctx context.Context, key string) context.Context
	// Sessions gives clients of revisions before 2026-07-28 sessions over HTTP, in
	// which tools of a program's own can ask them back. Ours never do.
	Sessions bool
	// Tune changes what the SDK's server is made with, for a program that serves
	// more beside the tools (see SDK). Nil = as it is.
	Tune func(*sdk.ServerOptions)
	// Named says that the service knows who calls, by an API key for example.
	// Else a caller without a name is put on record as an agent.
	Named bool
}

// The sets of tools for callers without an API key. An agent that can both work
// and approve could approve what it has done itself, so that has to be asked for.
const (
	ToolsWorker   = "worker"   // ask for work, do it and read
	ToolsApprover = "approver" // approve, reject and read
	ToolsAll      = "all"
)

// ToolSets are all there are.
var ToolSets = []string{ToolsWorker, ToolsApprover, ToolsAll}

// offers says whether a set has what needs a role.
func offers(set string, r api.Role) bool {
	switch set {
	case ToolsAll:
		return true
	case ToolsApprover:
		return r == api.Approver || r == api.Reader
	}
	return r != api.Approver
}

// toolsOf is the narrowest set that has what needs a role.
func toolsOf(r api.Role) string {
	return ToolSets[slices.IndexFunc(ToolSets, func(set string) bool { return offers(set, r) })]
}

// Server is a service as tools and resources. It is safe for many sessions.
type Server struct {
	svc   pawl.Service
	opts  Options
	sdk   *sdk.Server
	roles sync.Map // that tools need, []api.Role by name
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
	s := &Server{svc: svc, opts: o}
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
	so.Capabilities.AddExtension(TasksExtension, map[string]any{})
	s.sdk = sdk.NewServer(&sdk.Implementation{Name: "pawl", Title: "Pawl", Version: o.Version}, so)
	for _, t := range tools() {
		s.needs(t.Name, t.route.Role)
		s.sdk.AddTool(t.describe(), s.handle(t))
	}
	s.resources()
	s.extend()
	s.runs()
	return s
}

// SDK is the server underneath, for tools and resources of a program's own.
func (s *Server) SDK() *sdk.Server { return s.sdk }

// HTTP serves the streamable HTTP transport. The caller of a request is the one
// of its context (pawl.As).
func (s *Server) HTTP() http.Handler {
	over := sdk.StreamableHTTPOptions{
		Stateless:                    true, // else the handler speaks to no client of 2026-07-28
		PropagateRequestCancellation: true,
		MaxRequestBodyBytes:          pawl.MaxBodyBytes,
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

// sessionless is the first revision without sessions.
const sessionless = "2026-07-28"

// Stdio serves one client over a pair of streams, until in ends and what was asked
// is answered, or ctx ends; then it returns nil.
func (s *Server) Stdio(ctx context.Context, in io.Reader, out io.Writer) error {
	err := s.sdk.Run(ctx, drained{&sdk.IOTransport{Reader: io.NopCloser(in), Writer: open{out}, MaxLineLength: pawl.MaxBodyBytes}})
	if err == nil || errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil
	}
	return &pawl.Error{Code: pawl.CodeUnavailable, Op: "mcp", Message: "the client is gone", Err: err}
}

// open is a stream that stays open when its session ends.
type open struct{ io.Writer }

func (open) Close() error { return nil }

// instructions teach an agent the loop.
const instructions = `Pawl keeps work that must not be lost. A task is what somebody asked for; its items are the units of work, leased ` +
	`to one worker at a time.

To do work, choose a worker_id of your own and keep it:
1. work_checkout takes an item and answers with its id, attempt and input, and with error and reasons where it is to be done again. ` +
	`Every later call about it carries item_id, worker_id and attempt: they are your lease.
2. work_get says what a good result is (rules: schemas, parts). work_resume tells what earlier attempts left: checkpoints, parts, and ` +
	`why a result was sent back.
3. While you work, call work_heartbeat well before lease_expires_at; work_progress and work_checkpoint keep what you have so far.
4. Hand in with work_submit, or piece by piece with work_submit_part and then work_finalize; types without acceptance end with ` +
	`work_complete. A refused result names what is wrong by JSON Pointer: your lease is as it was, so mend it and hand it in again.
5. If you cannot go on: work_fail with the reason, or work_release to give the item back unharmed.

When a call says lease_lost, stop: the item is somebody else's. Check out again.
To have work done: work_propose, then work_wait. A submitted task waits for an approver: where you are offered work_approve and ` +
	`work_reject, decide with the version that work_get showed; rejecting with allow_rework sends its items back with your reasons.
Calls that change something may carry an idempotency key in _meta as ` +
	`"` + KeyMeta + `": made again with the same key, they are answered as the first time.`
