package mcpgate_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/mcpgate"
	"github.com/pawl-work/pawl/pawltest"
)

var quiet = slog.New(slog.DiscardHandler)

// shop is an MCP server that counts what it does.
type shop struct {
	mu    sync.Mutex
	calls map[string]int
	cut   func()        // closes the connection
	hold  chan struct{} // if it is there, slow waits until it is closed
}

func (s *shop) count(tool string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[tool]++
	return s.calls[tool]
}

func (s *shop) of(tool string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[tool]
}

func said(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

func (s *shop) server() *sdk.Server {
	srv := sdk.NewServer(&sdk.Implementation{Name: "shop", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object"}`)
	for name, a := range map[string]*sdk.ToolAnnotations{"look": {ReadOnlyHint: true}, "pay": nil, "set": {IdempotentHint: true}, "wipe": nil,
		"ship": nil, "tip": nil} {
		srv.AddTool(&sdk.Tool{Name: name, InputSchema: schema, Annotations: a},
			func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				s.count(name)
				return said(name + " done"), nil
			})
	}
	srv.AddTool(&sdk.Tool{Name: "bill", InputSchema: schema}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		res := said("bill done")
		res.StructuredContent = map[string]any{"cost": 1}
		return res, nil
	})
	slow := func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		s.count("slow")
		if token := req.Params.GetProgressToken(); token != nil {
			_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: 1, Total: 2})
		}
		if s.hold != nil {
			<-s.hold
		}
		return said("slow done"), nil
	}
	srv.AddTool(&sdk.Tool{Name: "slow", InputSchema: schema}, slow)
	srv.AddTool(&sdk.Tool{Name: "stop", InputSchema: schema}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		s.count("stop")
		s.cut()
		return said("stop done"), nil
	})
	return srv
}

// bench is a client and a server with the gate between them.
type bench struct {
	*testing.T
	*shop
	p       *pawltest.Pawl
	client  *sdk.ClientSession
	svc     service // of the gate
	session *mcpgate.Session
	ended   chan error
	told    chan float64 // progress
}

// service is what a gate needs: an engine, or a client of a server.
type service interface {
	mcpgate.Ledger
	mcpgate.Holder
}

// through connects a client of a revision with the shop, over stdin and stdout or HTTP.
func through(t *testing.T, p *pawltest.Pawl, revision string, overHTTP bool, o mcpgate.Options) *bench {
	t.Helper()
	return throughService(t, p, p.Service, revision, overHTTP, o)
}

func throughService(t *testing.T, p *pawltest.Pawl, svc service, revision string, overHTTP bool, o mcpgate.Options) *bench {
	t.Helper()
	b := &bench{T: t, shop: &shop{calls: map[string]int{}}, p: p, svc: svc, ended: make(chan error, 1), told: make(chan float64, 9)}
	ctx, session, err := mcpgate.Begin(t.Context(), svc, mcpgate.Options{Name: "shop", Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if b.session = session; o.Fence.ItemID == "" {
		o.Fence = session.Fence
	}
	o.Name, o.Ledger, o.Log = "shop", svc, quiet
	proxy, err := mcpgate.New(o)
	if err != nil {
		t.Fatal(err)
	}
	fromClient, toGate := io.Pipe()
	fromGate, toClient := io.Pipe()
	var server mcpgate.Conn
	if overHTTP {
		h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return b.server() }, nil)
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer s3cr3t" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			h.ServeHTTP(w, r)
		}))
		b.cut = srv.CloseClientConnections
		t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
		server = mcpgate.Remote(ctx, srv.URL, http.Header{"Authorization": {"Bearer s3cr3t"}})
	} else {
		toServer, out := io.Pipe()
		in, fromServer := io.Pipe()
		b.cut = func() { fromServer.Close() }
		go func() { _ = b.server().Run(ctx, &sdk.IOTransport{Reader: toServer, Writer: fromServer}) }()
		server = mcpgate.Lines(in, out, out.Close)
	}
	go func() {
		err := proxy.Run(ctx, mcpgate.Lines(fromClient, toClient, toClient.Close), server)
		_ = session.End(context.WithoutCancel(ctx), err)
		b.ended <- err
	}()
	c := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { b.told <- r.Params.Progress }})
	b.client, err = c.Connect(t.Context(), &sdk.IOTransport{Reader: fromGate, Writer: toGate},
		&sdk.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// end closes the client and waits for the gate.
func (b *bench) end() {
	b.Helper()
	_ = b.client.Close()
	select {
	case <-b.ended:
	case <-time.After(time.Minute):
		b.Fatal("the gate does not end")
	}
}

func (b *bench) call(tool string, arguments any) (*sdk.CallToolResult, string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 30*time.Second)
	defer cancel()
	res, err := b.client.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		b.Fatalf("%s: %v", tool, err)
	}
	text, _ := res.Content[0].(*sdk.TextContent)
	return res, text.Text
}

func (b *bench) effects() map[string]pawl.EffectRecord {
	b.Helper()
	list, err := b.p.Service.ListEffects(b.Context(), pawl.EffectFilter{})
	if err != nil {
		b.Fatal(err)
	}
	out := map[string]pawl.EffectRecord{}
	for _, f := range list.Items {
		out[strings.TrimPrefix(f.Name, "shop ")] = f
	}
	return out
}

// eachWay runs a test over both transports and in both revisions.
func eachWay(t *testing.T, fn func(t *testing.T, revision string, overHTTP bool)) {
	t.Helper()
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		for name, overHTTP := range map[string]bool{"stdio": false, "http": true} {
			t.Run(revision+"/"+name, func(t *testing.T) { fn(t, revision, overHTTP) })
		}
	}
}

// Calls of tools that change something are effects; others pass. The session's task is completed at the end.
func TestCallsAreEffects(t *testing.T) {
	eachWay(t, func(t *testing.T, revision string, overHTTP bool) {
		p := pawltest.Open(t, pawltest.SQLite)
		b := through(t, p, revision, overHTTP, mcpgate.Options{Tools: map[string]mcpgate.Tool{"wi*": {Deny: true}}})
		for _, tool := range []string{"look", "pay", "set"} {
			if _, text := b.call(tool, map[string]any{"n": 1}); text != tool+" done" {
				t.Errorf("%s answers %s", tool, text)
			}
		}
		if res, text := b.call("wipe", nil); !res.IsError || !strings.Contains(text, "forbidden") || b.of("wipe") != 0 {
			t.Errorf("a denied tool: %s, called %d times", text, b.of("wipe"))
		}
		tools, err := b.client.ListTools(t.Context(), nil)
		if err != nil || len(tools.Tools) != 8 {
			t.Errorf("the list has %d tools (%v)", len(tools.Tools), err)
		}
		params := &sdk.CallToolParams{Name: "slow"}
		params.SetProgressToken("t")
		if _, err := b.client.CallTool(t.Context(), params); err != nil {
			t.Fatal(err)
		}
		select {
		case <-b.told:
		case <-time.After(30 * time.Second):
			t.Error("progress does not pass")
		}
		effects := b.effects()
		if f := effects["pay"]; f.State != pawl.EffectDone || f.Repeatable || !strings.Contains(string(f.Answer), "pay done") {
			t.Errorf("pay is %+v", f)
		}
		if f := effects["set"]; f.State != pawl.EffectDone || !f.Repeatable {
			t.Errorf("set is %+v", f)
		}
		if _, is := effects["look"]; is || len(effects) != 3 {
			t.Errorf("the effects are %v", effects)
		}
		b.end()
		task, err := p.Service.GetTask(t.Context(), effects["pay"].TaskID)
		if err != nil || task.Type != "gate.shop" || task.State != pawl.TaskCompleted {
			t.Errorf("the session's task is %s, %s (%v)", task.Type, task.State, err)
		}
	})
}

// A later attempt at the same item gets what was recorded, and nothing is called again.
func TestALaterAttemptGetsTheAnswer(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	if _, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "agent"}); err != nil {
		t.Fatal(err)
	}
	claim := func() pawl.Fence {
		ls, err := p.Service.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Types: []string{"agent"}})
		if err != nil || len(ls) != 1 {
			t.Fatal(ls, err)
		}
		return ls[0].Fence()
	}
	f := claim()
	b := through(t, p, "2025-11-25", false, mcpgate.Options{Fence: f})
	b.call("pay", map[string]any{"n": 1})
	b.call("pay", map[string]any{"n": 1}) // another one
	b.end()
	if b.of("pay") != 2 {
		t.Fatalf("two equal calls of an attempt are %d", b.of("pay"))
	}
	if _, err := p.Service.Release(t.Context(), []pawl.ReleaseCall{{Fence: f}}); err != nil {
		t.Fatal(err)
	}
	again := through(t, p, "2026-07-28", false, mcpgate.Options{Fence: claim()})
	for range 2 {
		res, text := again.call("pay", map[string]any{"n": 1})
		if text != "pay done" || res.Meta[mcpgate.ReplayedMeta] != true || res.Meta[mcpgate.EffectMeta] == nil {
			t.Errorf("it answers %s, %v", text, res.Meta)
		}
	}
	if again.of("pay") != 0 {
		t.Error("it was called again")
	}
	again.call("pay", map[string]any{"n": 1})
	if again.of("pay") != 1 {
		t.Error("a third equal call was not sent")
	}
	again.end()
}

// A session that cannot begin leaves no task that no worker would ever claim.
func TestASessionThatCannotBeginLeavesNoTask(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		if _, err := p.Service.PauseQueue(t.Context(), "gate.shop"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := mcpgate.Begin(t.Context(), p.Service, mcpgate.Options{Name: "shop", Log: quiet}); pawl.CodeOf(err) != pawl.CodeConflict {
			t.Errorf("a session of a paused queue: %v", err)
		}
		list, err := p.Service.ListTasks(t.Context(), pawl.TaskFilter{Types: []string{"gate.shop"}})
		if err != nil || len(list.Items) != 1 || list.Items[0].State != pawl.TaskCancelled {
			t.Errorf("%+v, %v", list.Items, err)
		}
	})
}

// A server that ends without an answer leaves an unknown effect, which is not called again.
func TestAServerThatStopsLeavesAnUnknownEffect(t *testing.T) {
	eachWay(t, func(t *testing.T, revision string, overHTTP bool) {
		p := pawltest.Open(t, pawltest.SQLite)
		b := through(t, p, revision, overHTTP, mcpgate.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		res, err := b.client.CallTool(ctx, &sdk.CallToolParams{Name: "stop"})
		if overHTTP && (err != nil || !res.IsError) || !overHTTP && err == nil {
			t.Errorf("the call answers %+v, %v", res, err)
		}
		if overHTTP {
			if _, text := b.call("stop", nil); !strings.Contains(text, "effect_unknown") {
				t.Errorf("again it answers %s", text)
			}
		}
		b.end()
		if f := b.effects()["stop"]; f.State != pawl.EffectUnknown || b.of("stop") != 1 {
			t.Errorf("it is %s, called %d times", f.State, b.of("stop"))
		}
	})
}

// A person approves a call, or rejects it; a budget limits what calls cost.
func TestCallsAreApprovedAndCost(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	if _, err := p.Service.PutBudget(t.Context(), "eur", pawl.NewBudget{Unit: "EUR", Limit: 5}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Service.PutBudget(t.Context(), "usd", pawl.NewBudget{Unit: "USD", Limit: 5}); err != nil {
		t.Fatal(err)
	}
	b := through(t, p, "2025-11-25", false, mcpgate.Options{Wait: time.Millisecond, Tools: map[string]mcpgate.Tool{
		"pay": {Approve: true}, "ship": {Approve: true}, "tip": {Budget: "eur", Amount: 3}, "set": {Budget: "eur", AmountAt: "/n"},
		"bill": {Budget: "usd", Amount: 3, Charge: []string{"/structuredContent/cost"}}}})
	ann := pawl.As(t.Context(), pawl.Caller{ActorType: pawl.ActorUser, ActorID: "ann"})
	for _, tool := range []string{"pay", "ship"} {
		if res, text := b.call(tool, nil); !res.IsError || !strings.Contains(text, "waits for a person") || b.of(tool) != 0 {
			t.Errorf("before the approval: %s", text)
		}
	}
	effects := b.effects()
	if _, err := p.Service.ApproveEffect(ann, effects["pay"].ID, pawl.EffectDecision{}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Service.RejectEffect(ann, effects["ship"].ID, pawl.EffectDecision{}); err != nil {
		t.Fatal(err)
	}
	if _, text := b.call("pay", nil); text != "pay done" {
		t.Errorf("approved: %s", text)
	}
	if res, text := b.call("ship", nil); !res.IsError || !strings.Contains(text, "forbidden") || b.of("ship") != 0 {
		t.Errorf("rejected: %s", text)
	}
	if _, text := b.call("tip", nil); text != "tip done" {
		t.Errorf("within the budget: %s", text)
	}
	if res, text := b.call("set", map[string]any{"n": 3}); !res.IsError || !strings.Contains(text, "budget_exhausted") {
		t.Errorf("its argument is over the budget: %s", text)
	}
	if res, text := b.call("set", map[string]any{}); !res.IsError || !strings.Contains(text, "invalid") || b.of("set") != 0 {
		t.Errorf("without the argument: %s, %d", text, b.of("set"))
	}
	if _, text := b.call("set", map[string]any{"n": 1}); text != "set done" {
		t.Errorf("its argument is within the budget: %s", text)
	}
	if budget, err := p.Service.GetBudget(t.Context(), "eur"); err != nil || budget.Spent != 4 || budget.Reserved != 0 {
		t.Errorf("the budget is %+v (%v)", budget, err)
	}
	if _, text := b.call("bill", map[string]any{"n": 1}); text != "bill done" { // its result says 1 of the 3 that are reserved
		t.Errorf("with a result that says what it cost: %s", text)
	}
	if budget, err := p.Service.GetBudget(t.Context(), "usd"); err != nil || budget.Spent != 1 || budget.Reserved != 0 {
		t.Errorf("the budget is %+v (%v)", budget, err)
	}
	if res, text := b.call("tip", nil); !res.IsError || !strings.Contains(text, "budget_exhausted") || b.of("tip") != 1 {
		t.Errorf("over the budget: %s, %d", text, b.of("tip"))
	}
	b.end()
	for pattern, tool := range map[string]mcpgate.Tool{"[": {}, "a": {Amount: 1}, "b": {Budget: "eur"},
		"c": {Budget: "eur", AmountAt: "n"},
		"f": {Charge: []string{"/n"}}, "g": {Budget: "eur", Amount: 1, Charge: []string{"n"}},
		"d": {AmountAt: "/n"}, "e": {Budget: "eur", Amount: 1, AmountAt: "/n"}} {
		if _, err := mcpgate.New(mcpgate.Options{Tools: map[string]mcpgate.Tool{pattern: tool}}); err == nil {
			t.Errorf("the rule %s %+v is accepted", pattern, tool)
		}
	}
}

// A * in a rule stands for any characters of a name, a slash too: a server chooses the names.
func TestARuleFitsNamesWithASlash(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	b := through(t, p, "2025-11-25", false, mcpgate.Options{Wait: time.Millisecond, Tools: map[string]mcpgate.Tool{
		"*": {Approve: true}, "delete_*": {Deny: true}, "a/?/[bc]*": {Deny: true}, "x?y": {Deny: true}}})
	for name, want := range map[string]string{"fs/write": "waits for a person", "/": "waits for a person", "delete_all/now": "forbidden",
		"delete_/": "forbidden", "a/b/c/d": "forbidden", "x/y": "forbidden", "a/b/x": "waits for a person"} {
		if res, text := b.call(name, nil); !res.IsError || !strings.Contains(text, want) {
			t.Errorf("%s answers %s, want %s", name, text, want)
		}
	}
	b.end()
}

// A later attempt that calls something else, while a call of an earlier one has no counterpart, asks a person.
func TestAChangedCallAsks(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		if _, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "agent"}); err != nil {
			t.Fatal(err)
		}
		attempt := func(tools map[string]mcpgate.Tool, fn func(b *bench)) {
			t.Helper()
			ls, err := p.Service.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Types: []string{"agent"}})
			if err != nil || len(ls) != 1 {
				t.Fatal(ls, err)
			}
			b := through(t, p, "2025-11-25", false, mcpgate.Options{Fence: ls[0].Fence(), Tools: tools, Wait: time.Millisecond})
			fn(b)
			b.end()
			if _, err := p.Service.Release(t.Context(), []pawl.ReleaseCall{{Fence: ls[0].Fence()}}); err != nil {
				t.Fatal(err)
			}
		}
		attempt(nil, func(b *bench) { b.call("pay", map[string]any{"n": 1}) })
		attempt(nil, func(b *bench) {
			if res, text := b.call("pay", map[string]any{"n": 2}); !res.IsError || !strings.Contains(text, "waits for a person") {
				t.Errorf("a changed call answers %s", text)
			}
			if _, text := b.call("pay", map[string]any{"n": 1}); text != "pay done" || b.of("pay") != 0 {
				t.Errorf("the counterpart answers %s, called %d times", text, b.of("pay"))
			}
			if _, text := b.call("ship", nil); text != "ship done" {
				t.Errorf("with all counterparts it answers %s", text)
			}
		})
		attempt(map[string]mcpgate.Tool{"*": {Changed: "new"}}, func(b *bench) {
			if _, text := b.call("tip", nil); text != "tip done" {
				t.Errorf("as a new call it answers %s", text)
			}
		})
	})
	if _, err := mcpgate.New(mcpgate.Options{Tools: map[string]mcpgate.Tool{"pay": {Changed: "maybe"}}}); err == nil {
		t.Error("another word is accepted")
	}
}

// The gate sends under a lease of its own, which it renews: an attempt that ends meanwhile changes nothing, and the
// answer is recorded.
func TestTheGateHasALeaseOfItsOwn(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) { sendsUnderItsOwnLease(t, p, p.Service, func() {}) })
	t.Run("over HTTP", func(t *testing.T) {
		t.Parallel()
		p := pawltest.Open(t, pawltest.SQLite)
		s := serve(t, p)
		sendsUnderItsOwnLease(t, p, s.client(""), s.restart)
	})
}

// sendsUnderItsOwnLease sends a call that takes longer than a lease of the gate. After is called before its answer comes.
func sendsUnderItsOwnLease(t *testing.T, p *pawltest.Pawl, svc service, after func()) {
	t.Helper()
	b := throughService(t, p, svc, "2025-11-25", false, mcpgate.Options{Lease: 2})
	b.hold = make(chan struct{})
	answered := make(chan string, 1)
	go func() {
		_, text := b.call("slow", nil)
		answered <- text
	}()
	state := func(want pawl.EffectState) (f pawl.EffectRecord) {
		t.Helper()
		for range 500 {
			if f = b.effects()["slow"]; f.State == want {
				return f
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("the effect is %q, want %q", f.State, want)
		return f
	}
	f := state(pawl.EffectOpen)
	if f.Sender != pawl.SentByGate || f.SentUntil == nil {
		t.Fatalf("the effect is %+v", f)
	}
	if rs, err := p.Service.Release(t.Context(), []pawl.ReleaseCall{{Fence: b.session.Fence}}); err != nil || rs[0].Err != nil {
		t.Fatal(rs, err)
	}
	for range 3 { // longer than one lease of the gate
		p.Advance(time.Second)
		until := *f.SentUntil
		for n := 0; !f.SentUntil.After(until); n++ {
			if f = state(pawl.EffectOpen); n == 500 || f.SentUntil == nil {
				t.Fatal("the lease is not renewed")
			}
			time.Sleep(10 * time.Millisecond)
		}
		if _, err := p.Service.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	after()
	close(b.hold)
	if text := <-answered; text != "slow done" {
		t.Errorf("the call answers %s", text)
	}
	state(pawl.EffectDone)
	b.end()
}
