package mcpgate

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/gate"
)

// Members of _meta.
const (
	EffectMeta   = "io.github.pawl-work/effect"       // the effect of a call, in its answer
	KeyMeta      = "io.github.pawl-work/effect-key"   // of a call: its own identity
	ReplayedMeta = "io.github.pawl-work/replayed"     // true: the answer is the recorded one
	ProblemMeta  = "io.github.pawl-work/gate-problem" // why a call was not made
)

// Ledger is where the gate records effects.
type Ledger interface {
	pawl.EffectSender
	pawl.EffectReader
}

// Conn is a connection to a client or a server.
type Conn interface {
	// Send sends a message.
	Send(ctx context.Context, m *message) error
	// Receive returns the next message; io.EOF = there are no more.
	Receive(ctx context.Context) ([]byte, error)
	Close() error
}

// A losing connection says which requests will have no answer.
type losing interface {
	onLoss(func(ctx context.Context, id json.RawMessage, why string))
}

// Options configure a proxy. Ledger and Fence are required.
type Options struct {
	Name   string // of the server, in names of effects
	Ledger Ledger
	Fence  pawl.Fence // the claim that the calls belong to
	Own    bool       // the gate has made the task for itself: there was no attempt before
	Tools  map[string]Tool
	Log    *slog.Logger  // nil = slog.Default
	Wait   time.Duration // how long a call waits for an approval, or for an equal call; 0 = 45 s
	Lease  int           // of the gate on an effect that it sends, in seconds; 0 = 15
	// SessionLease is that of the item of a task that the gate makes for itself, in seconds; 0 = 30.
	SessionLease int
}

// Proxy passes messages between a client and a server.
type Proxy struct {
	Options
	client, server Conn
	own            string // the prefix of ids of the proxy's own requests

	mu       sync.Mutex
	asked    int
	starting int // calls that are not sent yet, or refused
	hints    map[string]hints
	flights  map[string]*flight // by the id of the request
	lists    map[string]bool    // ids of requests for lists of tools
	going    map[string]*flight // calls that asked for input, by the effect's key
	calls    sync.WaitGroup
	sent     *gate.Requests
}

// flight is a request that the server has not answered.
type flight struct {
	own     chan<- *message // of the proxy itself; nil = it is a call of a tool
	effect  string
	sending int // its number
	key     string
	digest  string
	amount  int64    // that it may cost
	charge  []string // where its result says what it has cost

	unknown bool // it was reported so: the call was cancelled, and its answer may still come
}

const (
	listTime   = 20 * time.Second // for a list of tools
	endTime    = 10 * time.Second // to record what is left at the end
	cancelTime = 15 * time.Second // after which a cancelled call that has no answer is unknown
	waitTime   = 45 * time.Second
)

// New returns a proxy.
func New(o Options) (*Proxy, error) {
	if err := checkTools(o.Tools); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Wait <= 0 {
		o.Wait = waitTime
	}
	if o.Lease <= 0 {
		o.Lease = defaultLease
	}
	return &Proxy{Options: o, own: "pawl-gate-" + rand.Text() + "-", hints: map[string]hints{}, flights: map[string]*flight{},
		lists: map[string]bool{}, going: map[string]*flight{}, sent: gate.NewRequests(o.Own)}, nil
}

// Run passes messages until one of the two ends. What the server has not answered then is unknown.
func (p *Proxy) Run(ctx context.Context, client, server Conn) error {
	p.client, p.server = client, server
	if l, ok := server.(losing); ok {
		l.onLoss(p.lost)
	}
	keeping, end := context.WithCancel(context.WithoutCancel(ctx))
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		p.keep(keeping)
	}()
	defer func() { end(); <-kept }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	fromClient, fromServer := make(chan error, 1), make(chan error, 1)
	go func() { fromClient <- p.pass(ctx, client, p.fromClient) }()
	go func() { fromServer <- p.pass(ctx, server, p.fromServer) }()
	var err error
	select {
	case err = <-fromClient:
		p.drain(ctx)
		stop()
		err = errors.Join(err, <-fromServer)
	case err = <-fromServer:
		stop()
		err = errors.Join(err, <-fromClient)
	}
	_ = server.Close() // a server on stdin and stdout ends by that
	_ = client.Close()
	p.calls.Wait()
	p.abandon(context.WithoutCancel(ctx))
	return err
}

// drain waits for the answers of calls that were sent, when the client is gone: what the server answers is
// recorded.
func (p *Proxy) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, cancelTime)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		p.mu.Lock()
		left := p.starting + len(p.flights) + len(p.lists)
		p.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (p *Proxy) pass(ctx context.Context, from Conn, take func(ctx context.Context, text []byte)) error {
	for {
		text, err := from.Receive(ctx)
		switch {
		case errors.Is(err, io.EOF), ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		take(ctx, text)
	}
}

// fromClient takes a message of the client.
func (p *Proxy) fromClient(ctx context.Context, text []byte) {
	m, err := readMessage(text)
	switch {
	case err != nil: // also a batch, which neither revision has
		p.toClient(ctx, errorTo(nil, codeParse, "the message cannot be read: "+err.Error()))
	case m.Method == "tools/call" && m.isRequest():
		p.mu.Lock()
		p.starting++
		p.mu.Unlock()
		p.calls.Go(func() {
			p.call(ctx, &m)
			p.mu.Lock()
			p.starting--
			p.mu.Unlock()
		})
	case m.Method == "tools/call": // a notification has no answer that could be recorded
		p.Log.WarnContext(ctx, "a call of a tool without an id was not passed on")
	case m.Method == "notifications/cancelled":
		p.forward(ctx, &m)
		p.cancelled(ctx, &m)
	default:
		if m.Method == "tools/list" && m.isRequest() {
			p.mu.Lock()
			p.lists[idOf(m.ID)] = true
			p.mu.Unlock()
		}
		p.forward(ctx, &m)
	}
}

// forward sends a message of the client to the server. A request that cannot be sent is answered.
func (p *Proxy) forward(ctx context.Context, m *message) {
	if err := p.server.Send(ctx, m); err != nil && m.isRequest() {
		p.toClient(ctx, errorTo(m.ID, codeInternal, "the server cannot be reached: "+err.Error()))
	}
}

func (p *Proxy) toClient(ctx context.Context, text []byte) {
	if err := p.client.Send(ctx, &message{text: text}); err != nil {
		p.Log.DebugContext(ctx, "a message did not reach the client", "error", err)
	}
}

// fromServer takes a message of the server.
func (p *Proxy) fromServer(ctx context.Context, text []byte) {
	m, err := readMessage(text)
	if err != nil || !m.isResponse() {
		p.toClient(ctx, text) // progress, questions and what is not known here
		return
	}
	id := idOf(m.ID)
	p.mu.Lock()
	f, list := p.flights[id], p.lists[id]
	delete(p.lists, id)
	p.mu.Unlock()
	switch {
	case f != nil && f.own != nil:
		f.own <- &m
		p.land(id)
	case f != nil:
		p.answer(ctx, &m, p.land(id))
	case list && m.Result != nil:
		if kept := p.learn(m.Result); string(kept) != string(m.Result) {
			text = responseTo(m.ID, kept)
		}
		p.toClient(ctx, text)
	default:
		p.toClient(ctx, text)
	}
}

// land ends a flight. It returns it, or nil if it has ended before.
func (p *Proxy) land(id string) *flight {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.flights[id]
	delete(p.flights, id)
	return f
}

// cancelled waits for the answer of a call that the client gave up. Without one it is unknown.
func (p *Proxy) cancelled(ctx context.Context, m *message) {
	var params struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(m.Params, &params) != nil {
		return
	}
	id := idOf(params.RequestID)
	p.mu.Lock()
	f := p.flights[id]
	p.mu.Unlock()
	if f == nil || f.effect == "" {
		return
	}
	p.calls.Go(func() {
		select {
		case <-ctx.Done():
		case <-time.After(cancelTime):
		}
		p.mu.Lock()
		still := p.flights[id] == f
		f.unknown = still
		p.mu.Unlock()
		if still {
			p.unknown(context.WithoutCancel(ctx), f, "the client cancelled the call, and the server has not answered it")
		}
	})
}

// lost says that the server will not answer a request any more.
func (p *Proxy) lost(ctx context.Context, id json.RawMessage, why string) {
	f := p.land(idOf(id))
	switch {
	case f != nil && f.own != nil:
		f.own <- nil
		return
	case f != nil && f.effect != "":
		p.unknown(ctx, f, why)
		p.toClient(ctx, responseTo(id, refusal(&pawl.Error{Code: pawl.CodeEffectUnknown, EffectID: f.effect, State: string(pawl.EffectUnknown),
			Message: "it is not known whether effect " + f.effect + " happened: " + why})))
		return
	}
	p.toClient(ctx, errorTo(id, codeInternal, why))
}

// abandon reports as unknown what has no answer at the end.
func (p *Proxy) abandon(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	p.mu.Lock()
	left := slices.AppendSeq(slices.Collect(maps.Values(p.flights)), maps.Values(p.going))
	clear(p.flights)
	clear(p.going)
	p.mu.Unlock()
	for _, f := range left {
		if f.effect != "" {
			p.unknown(ctx, f, "the session ended without an answer")
		}
	}
}
