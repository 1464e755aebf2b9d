// Package access checks who calls, by an API key, a token of an identity provider or a trusted
// proxy: which calls the caller may make, in which namespace, how often, and under which name
// they are recorded. All interfaces use this one check.
package access

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/asked"
	"github.com/pawl-work/pawl/internal/clock"
)

// Keys stores the API keys; *engine.Engine implements it.
type Keys interface {
	// FindAPIKey returns the key of a token; ErrUnauthenticated if it is unknown,
	// expired or revoked.
	FindAPIKey(ctx context.Context, token string) (pawl.APIKey, error)
	// UseAPIKeys records that keys were used.
	UseAPIKeys(ctx context.Context, uses []pawl.APIKeyUse) error
}

// Options configure a Gate. The zero value accepts calls without a key.
type Options struct {
	// Keys looks up keys. Nil: every call with a key is refused.
	Keys Keys
	// Tokens verifies tokens of identity providers (JWT). Nil: they are looked up as keys.
	Tokens Tokens
	// Proxy believes the headers of trusted proxies. Nil: no header names a user.
	Proxy *Proxy
	// Required refuses calls without a key.
	Required bool
	// RatePerKey and RatePerAgent bound the calls per second: of a key without a rate of
	// its own, and of one agent (namespace and worker, or actor). The burst equals the
	// rate; 0 = no bound.
	RatePerKey, RatePerAgent int
	// LongCallsPerKey bounds the waits and streams of a key that are open at once; 0 =
	// 1000.
	LongCallsPerKey int
	// Log gets a line for each refusal; nil = slog.Default.
	Log *slog.Logger
}

// Gate identifies callers and checks what they may do. It is safe for concurrent use.
type Gate struct {
	o      Options
	keys   buckets
	agents buckets
	wrong  wrongKeys
	hooks  wrongKeys // wrong signatures of webhooks
	lines  lines

	mu        sync.Mutex
	known     map[string]known          // by token
	uses      map[string]pawl.APIKeyUse // since the last write
	longCalls map[string]int            // open waits and streams, by key
	noted     time.Time
	refusals  map[Refusal]int64

	readers     readers
	readsPerKey atomic.Int64
}

// known is a cached key, or the principal of a token, and the time it was read.
type known struct {
	key pawl.APIKey
	who *Principal
	at  time.Time
}

// fresh reports whether a cached key was read at most age ago and does not expire soon.
func (k known) fresh(now time.Time, age time.Duration) bool {
	until := k.key.ExpiresAt
	if k.who != nil {
		until = &k.who.Expires
	}
	return now.Sub(k.at) < age && (until == nil || until.IsZero() || until.Sub(now) > keyCachedFor)
}

const (
	keyCachedFor     = time.Second      // how long a cached key is used
	recheckAfter     = keyCachedFor / 3 // how old a cached key may be for a wait or stream
	noteEvery        = 30 * time.Second // how often uses are written
	defaultLongCalls = 1000             // default of LongCallsPerKey
	mostKnown        = 10_000
)

// New returns a Gate.
func New(o Options) *Gate {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Gate{
		o: o, known: map[string]known{}, uses: map[string]pawl.APIKeyUse{}, refusals: map[Refusal]int64{}, longCalls: map[string]int{},
	}
}

// Required reports whether a call needs a key.
func (g *Gate) Required() bool { return g.o.Required }

// Pass is the identity of a caller: its key, and what it asked for.
type Pass struct {
	// Key is nil for a call without a key, which may do everything. For a principal it has the
	// principal's id and name, and its roles in the namespace that the call names.
	Key   *pawl.APIKey
	Asked pawl.Caller // the actor and namespace that the call names; set with Asking
	// Still is asked by CheckAgain, too: it returns ErrUnauthenticated when the session that let the caller in has ended. nil
	// = there is none.
	Still  func(ctx context.Context) error
	leased bool // see Leased
	token  string
	who    *Principal // nil = the holder of an API key
}

// kind names what identifies the caller.
func (p Pass) kind() string {
	if p.who != nil {
		return "caller"
	}
	return "API key"
}

// Enter identifies the holder of a token; "" = a call without one. It returns
// ErrUnauthenticated for a bad token, and ErrLimit if the key makes too many calls.
func (g *Gate) Enter(ctx context.Context, token string) (Pass, error) {
	switch {
	case token == "" && g.o.Required:
		return Pass{}, &pawl.Error{
			Code:    pawl.CodeUnauthenticated,
			Message: "this server accepts only calls with an API key: Authorization: Bearer …",
		}
	case token == "":
		return Pass{}, nil
	}
	k, err := g.find(ctx, token, keyCachedFor)
	if err != nil {
		return Pass{}, err
	}
	p := Pass{Key: &k.key, token: token, who: k.who}
	if k.who != nil {
		p.Key = k.who.in("")
	}
	g.use(ctx, p, 0)
	return p, g.Count(p, 1)
}

// Count counts calls of a pass's key, all of them or, with ErrLimit, none. Enter has
// counted one already.
func (g *Gate) Count(p Pass, calls int) error {
	if p.Key == nil || calls == 0 {
		return nil
	}
	return g.keys.take(p.Key.ID, g.rate(p), calls, "this "+p.kind()+" makes")
}

// rate returns the calls per second of a pass's key; 0 = any number.
func (g *Gate) rate(p Pass) int { return cmp.Or(p.Key.Rate, g.o.RatePerKey) }

// Own removes the statistics of all namespaces for a key of one namespace: of the sweeps
// it keeps only whether a sweeper is running.
func (p Pass) Own(s pawl.Stats) pawl.Stats {
	if p.Key != nil && p.Key.Namespace != pawl.AnyNamespace {
		s.Sweeps = pawl.SweepTotals{IsRunning: s.Sweeps.IsRunning}
	}
	return s
}

// CheckAgain checks the key and the session of a wait or stream again: ErrUnauthenticated if it has expired
// or been revoked since Enter. While the keys cannot be read, the call may continue.
func (g *Gate) CheckAgain(ctx context.Context, p Pass) error {
	if p.Key == nil {
		return nil
	}
	if p.Still != nil {
		if err := p.Still(ctx); pawl.CodeOf(err) == pawl.CodeUnauthenticated {
			return err
		}
	}
	if p.who != nil && p.token == "" {
		return p.who.check()
	}
	_, err := g.find(ctx, p.token, recheckAfter)
	if pawl.CodeOf(err) != pawl.CodeUnauthenticated {
		return nil
	}
	return err
}

// find returns the key or the principal of a token, read at most age ago.
func (g *Gate) find(ctx context.Context, token string, age time.Duration) (known, error) {
	now := clock.Now()
	g.mu.Lock()
	k, ok := g.known[token]
	good := ok && k.fresh(now, age)
	if ok && !good && now.Sub(k.at) < keyCachedFor { // one call reads it again; the others use the cached key
		g.known[token] = known{k.key, k.who, now}
	}
	g.mu.Unlock()
	if good {
		return k, nil
	}
	if !ok { // a key that was valid before does not count as a guess
		if err := g.wrong.check(ctx, "wrong API keys"); err != nil {
			return k, err
		}
	}
	k, err := g.read(ctx, token, now)
	if pawl.CodeOf(err) == pawl.CodeUnauthenticated {
		g.wrong.tried(ctx)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		delete(g.known, token)
		return k, err
	}
	if len(g.known) >= mostKnown {
		clear(g.known)
	}
	g.known[token] = k
	return k, nil
}

// read reads the key of a token, or verifies the token of an identity provider, which has three
// parts with dots between them.
func (g *Gate) read(ctx context.Context, token string, now time.Time) (known, error) {
	if g.o.Tokens != nil && strings.Count(token, ".") == 2 {
		who, err := g.o.Tokens.Principal(ctx, token)
		if err == nil {
			err = who.check()
		}
		return known{who: &who, at: now}, err
	}
	if g.o.Keys == nil {
		return known{}, &pawl.Error{Code: pawl.CodeUnauthenticated, Message: "this server knows no API keys"}
	}
	key, err := g.o.Keys.FindAPIKey(ctx, token)
	return known{key: key, at: now}, err
}

// Admit checks the role, the namespace and the agent's rate of a call, and returns the
// context of its caller, in which rows that a copy makes count as calls. It returns ErrForbidden, ErrNotFound for another namespace, or
// ErrLimit. global marks calls that concern all namespaces; agent returns the caller's
// name for its rate, "" = not limited. Nil = the rate is counted later: see CountAgent.
func (g *Gate) Admit(ctx context.Context, role string, global bool, agent func(pawl.Caller) string) (context.Context, error) {
	p := Of(ctx)
	if err := p.May(role, global); err != nil {
		return ctx, err
	}
	c, err := p.Caller(role)
	if err != nil {
		return ctx, err
	}
	ctx = pawl.As(ctx, c)
	if p.Key != nil {
		ctx = asked.With(ctx, asked.Rows, func(n int) { g.keys.owe(p.Key.ID, g.rate(p), n) })
	}
	if agent == nil {
		return ctx, nil
	}
	return ctx, g.CountAgent(ctx, agent(c))
}

// CountsAgents reports whether the calls of agents have a rate.
func (g *Gate) CountsAgents() bool { return g.o.RatePerAgent > 0 }

// CountAgent counts a call of an agent of the context's namespace, or returns ErrLimit. "" = not
// limited.
func (g *Gate) CountAgent(ctx context.Context, who string) error {
	if who == "" || !g.CountsAgents() {
		return nil
	}
	return g.agents.take(pawl.CallerOf(ctx).Namespace+"\x00"+who, g.o.RatePerAgent, 1, "the agent "+who+" makes")
}

// May returns nil if the pass has the role; "" needs none. global marks calls that
// concern all namespaces.
func (p Pass) May(role string, global bool) error {
	switch {
	case p.Key == nil || role == "":
		return nil
	case !slices.Contains(p.Key.Roles, role):
		return &pawl.Error{
			Code:    pawl.CodeForbidden,
			Message: fmt.Sprintf("this call needs the role %s; the %s holds %s", role, p.kind(), strings.Join(p.Key.Roles, ", ")),
		}
	case global && (p.Key.Namespace != pawl.AnyNamespace || p.who != nil && !slices.Contains(p.who.roles(pawl.AnyNamespace), role)):
		return &pawl.Error{
			Code:    pawl.CodeForbidden,
			Message: fmt.Sprintf("this call concerns all namespaces: it needs the role %s in namespace %s", role, pawl.AnyNamespace),
		}
	}
	return nil
}

// Caller returns the caller for a role. The requested namespace must be the key's.
// Events name the key's actor, whatever the call says; verbs of workers name the
// worker. A key of all namespaces may name any actor; a principal may not.
func (p Pass) Caller(role string) (pawl.Caller, error) {
	k, asked := p.Key, p.Asked
	if asked.Namespace == pawl.AnyNamespace {
		return asked, pawl.NoNamespace()
	}
	if k == nil {
		return asked, nil
	}
	c := pawl.Caller{Namespace: k.Namespace, ActorType: k.ActorType, ActorID: k.ActorID, Key: k.ID}
	if k.Namespace == pawl.AnyNamespace {
		c.Namespace = asked.Namespace
	} else if asked.Namespace != "" && asked.Namespace != k.Namespace {
		return c, &pawl.Error{Code: pawl.CodeNotFound, Message: "this " + p.kind() + " knows no namespace " + asked.Namespace}
	}
	switch {
	case k.Namespace == pawl.AnyNamespace && p.who == nil && (asked.ActorType != "" || asked.ActorID != ""):
		c.ActorType, c.ActorID = asked.ActorType, asked.ActorID
	case role == "claimer":
		c.ActorType, c.ActorID = "", ""
	}
	return c, nil
}

// Refusal is a kind of refusal: by route or tool ("" = before one was found) and code.
type Refusal struct {
	Route string
	Code  pawl.Code
}

// Refused records a refusal: in the log (at most 10 lines a second after the first 100),
// in the key's count and in Refusals. Errors of code unavailable or internal are faults,
// not refusals, and are ignored.
func (g *Gate) Refused(ctx context.Context, route string, why error, about ...any) {
	code := pawl.CodeOf(why)
	if code == pawl.CodeUnavailable || code == pawl.CodeInternal {
		return
	}
	g.mu.Lock()
	g.refusals[Refusal{route, code}]++
	g.mu.Unlock()
	about = append(about, "code", string(code), "error", why)
	if p := Of(ctx); p.Key != nil {
		about = append(about, "key", p.Key.ID, "key_name", p.Key.Name, "key_namespace", p.Key.Namespace)
		g.use(ctx, p, 1)
	}
	if left, ok := g.lines.allow(); ok {
		if left > 0 {
			about = append(about, "left_out", left)
		}
		g.o.Log.WarnContext(ctx, "call refused", about...)
	}
}

// Refusals returns the number of refusals in this process, by kind. There are few kinds,
// because the names of routes are a fixed set.
func (g *Gate) Refusals() map[Refusal]int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.refusals)
}

// use counts a use of an API key, and from time to time writes the counts.
func (g *Gate) use(ctx context.Context, p Pass, refusals int64) {
	if p.who != nil || p.Key.ID == "" || g.o.Keys == nil { // no API key: that of the token of a lease has no id
		return
	}
	now := clock.Now()
	g.mu.Lock()
	u := g.uses[p.Key.ID]
	u.ID, u.Refusals = p.Key.ID, u.Refusals+refusals
	g.uses[p.Key.ID] = u
	due := now.Sub(g.noted) >= noteEvery
	if due {
		g.noted = now
	}
	g.mu.Unlock()
	if due {
		g.Flush(ctx)
	}
}

// Flush writes the counted uses. A server calls it when it stops.
func (g *Gate) Flush(ctx context.Context) {
	g.mu.Lock()
	uses := make([]pawl.APIKeyUse, 0, len(g.uses))
	for _, u := range g.uses {
		uses = append(uses, u)
	}
	clear(g.uses)
	g.mu.Unlock()
	if len(uses) == 0 {
		return
	}
	if err := g.o.Keys.UseAPIKeys(context.WithoutCancel(ctx), uses); err != nil {
		g.o.Log.WarnContext(ctx, "when API keys were last used could not be written", "error", err)
	}
}

type passKey struct{}

// With returns a context that carries a pass.
func With(ctx context.Context, p Pass) context.Context { return context.WithValue(ctx, passKey{}, p) }

// Passed reports whether the context has a pass.
func Passed(ctx context.Context) bool {
	_, ok := ctx.Value(passKey{}).(Pass)
	return ok
}

// Of returns the pass of a context. The zero Pass may do everything.
func Of(ctx context.Context) Pass {
	p, _ := ctx.Value(passKey{}).(Pass)
	return p
}
