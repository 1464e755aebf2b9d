// Package access says who may call what: one check for every door. A key
// (pawl.APIKey) holds roles, is bound to a namespace and to the name that events
// know its holder by, and makes so many calls a second.
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
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// Keys is where keys are kept: engine.Engine.
type Keys interface {
	// FindAPIKey is the key of a token; ErrUnauthenticated when there is none that
	// is good.
	FindAPIKey(ctx context.Context, token string) (pawl.APIKey, error)
	// UseAPIKeys notes that keys have just been used.
	UseAPIKeys(ctx context.Context, uses []pawl.APIKeyUse) error
}

// Options configure a Gate. The zero value accepts calls without a key.
type Options struct {
	// Keys looks up the keys. Nil: every call with a key is refused.
	Keys Keys
	// Required refuses calls without a key.
	Required bool
	// RatePerKey and RatePerAgent bound the calls a second of a key that says
	// nothing of its own, and of one agent (namespace and worker, or actor), with
	// as many at once; 0 = no bound.
	RatePerKey, RatePerAgent int
	// LastingPerKey bounds the calls of a key that last at once: waits and streams;
	// 0 = 1000.
	LastingPerKey int
	// Log takes a line for each refusal; nil = slog's default.
	Log *slog.Logger
}

// Gate is the check. It is safe for use by many goroutines.
type Gate struct {
	o      Options
	keys   buckets
	agents buckets
	wrong  wrongKeys
	lines  lines

	mu       sync.Mutex
	known    map[string]known          // by token
	uses     map[string]pawl.APIKeyUse // since they were last noted
	lasting  map[string]int            // calls under way that last, by key
	noted    time.Time
	refusals map[Refusal]int64
}

// known is a key as it was a moment ago.
type known struct {
	key pawl.APIKey
	at  time.Time
}

const (
	fresh     = time.Second      // how long a key is taken as it was
	glance    = fresh / 3        // how old it may be for a call that lasts
	noteEvery = 30 * time.Second // how often uses are written
	mostLast  = 1000             // calls of a key that last at once
	mostKnown = 10_000
)

// New returns a gate.
func New(o Options) *Gate {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Gate{o: o, known: map[string]known{}, uses: map[string]pawl.APIKeyUse{}, refusals: map[Refusal]int64{}, lasting: map[string]int{}}
}

// Required says whether a call needs a key.
func (g *Gate) Required() bool { return g.o.Required }

// Pass is what a call may do.
type Pass struct {
	Key   *pawl.APIKey // nil = it came without: it may do all
	Asked pawl.Caller  // who the call says it is, and which namespace it is for
	token string
}

// Enter identifies the holder of a token, "" = none: ErrUnauthenticated, or
// ErrLimit when the key makes too many calls.
func (g *Gate) Enter(ctx context.Context, token string) (Pass, error) {
	switch {
	case token == "" && g.o.Required:
		return Pass{}, &pawl.Error{
			Code:    pawl.CodeUnauthenticated,
			Message: "this server takes calls with an API key only: Authorization: Bearer …",
		}
	case token == "":
		return Pass{}, nil
	case g.o.Keys == nil:
		return Pass{}, &pawl.Error{Code: pawl.CodeUnauthenticated, Message: "this server knows no API keys"}
	}
	key, err := g.find(ctx, token, fresh)
	if err != nil {
		return Pass{}, err
	}
	g.use(ctx, key.ID, 0)
	p := Pass{Key: &key, token: token}
	return p, g.Count(p, 1)
}

// Count counts calls of a pass's key, all or none of them: ErrLimit when it makes
// too many. Enter has counted one.
func (g *Gate) Count(p Pass, calls int) error {
	if p.Key == nil || calls == 0 {
		return nil
	}
	return g.keys.take(p.Key.ID, cmp.Or(p.Key.Rate, g.o.RatePerKey), calls, "this API key makes")
}

// Own removes statistics of all namespaces for a key of one namespace: of the sweeps
// it keeps only whether a sweeper is running.
func (p Pass) Own(s pawl.Stats) pawl.Stats {
	if p.Key != nil && p.Key.Namespace != pawl.AnyNamespace {
		s.Sweeps = pawl.SweepTotals{IsRunning: s.Sweeps.IsRunning}
	}
	return s
}

// Still says whether a call that lasts may go on: ErrUnauthenticated when its key
// has expired or been revoked since it entered. While the keys cannot be read it
// may.
func (g *Gate) Still(ctx context.Context, p Pass) error {
	if p.Key == nil {
		return nil
	}
	_, err := g.find(ctx, p.token, glance)
	if pawl.CodeOf(err) != pawl.CodeUnauthenticated {
		return nil
	}
	return err
}

// find is the key of a token, as it was at most age ago.
func (g *Gate) find(ctx context.Context, token string, age time.Duration) (pawl.APIKey, error) {
	now := clock.Now()
	g.mu.Lock()
	k, ok := g.known[token]
	good := ok && now.Sub(k.at) < age && (k.key.ExpiresAt == nil || k.key.ExpiresAt.Sub(now) > fresh)
	if ok && !good && now.Sub(k.at) < fresh { // one asks, the others take it as it is
		g.known[token] = known{k.key, now}
	}
	g.mu.Unlock()
	if good {
		return k.key, nil
	}
	if !ok { // a key that was good a while ago is not one of many that are tried
		if err := g.wrong.check(ctx); err != nil {
			return k.key, err
		}
	}
	key, err := g.o.Keys.FindAPIKey(ctx, token)
	if pawl.CodeOf(err) == pawl.CodeUnauthenticated {
		g.wrong.tried(ctx)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		delete(g.known, token)
		return key, err
	}
	if len(g.known) >= mostKnown {
		clear(g.known)
	}
	g.known[token] = known{key, now}
	return key, nil
}

// Admit lets a call in whose pass holds the role that it needs, and answers with
// the context of its caller: ErrForbidden, ErrNotFound for another namespace, or
// ErrLimit. global marks calls that concern all namespaces; agent names the caller,
// for its rate.
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
	if g.o.RatePerAgent <= 0 {
		return ctx, nil
	}
	who := agent(c)
	if who == "" {
		return ctx, nil
	}
	return ctx, g.agents.take(pawl.CallerOf(ctx).Namespace+"\x00"+who, g.o.RatePerAgent, 1, "the agent "+who+" makes")
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
			Message: fmt.Sprintf("this call needs the role %s; the API key holds %s", role, strings.Join(p.Key.Roles, ", ")),
		}
	case global && p.Key.Namespace != pawl.AnyNamespace:
		return &pawl.Error{
			Code:    pawl.CodeForbidden,
			Message: fmt.Sprintf("this call concerns all namespaces: it needs the role %s in namespace %s", role, pawl.AnyNamespace),
		}
	}
	return nil
}

// Caller returns the caller for a role. The requested namespace must be the key's.
// Events name the key's actor, whatever the call says; verbs of workers name the
// worker. A key of all namespaces may name any actor.
func (p Pass) Caller(role string) (pawl.Caller, error) {
	k, asked := p.Key, p.Asked
	if k == nil {
		return asked, nil
	}
	c := pawl.Caller{Namespace: k.Namespace, ActorType: k.ActorType, ActorID: k.ActorID, Key: k.ID}
	if k.Namespace == pawl.AnyNamespace {
		c.Namespace = asked.Namespace
	} else if asked.Namespace != "" && asked.Namespace != k.Namespace {
		return c, &pawl.Error{Code: pawl.CodeNotFound, Message: "this API key knows no namespace " + asked.Namespace}
	}
	switch {
	case k.Namespace == pawl.AnyNamespace && (asked.ActorType != "" || asked.ActorID != ""):
		c.ActorType, c.ActorID = asked.ActorType, asked.ActorID
	case role == "claimer":
		c.ActorType, c.ActorID = "", ""
	}
	return c, nil
}

// Refusal is a kind of refusal: of a route or tool, "" = before any was reached.
type Refusal struct {
	Route string
	Code  pawl.Code
}

// Refused puts a refusal on record: a line in the log, at most 10 a second after the first 100, the key's count, and that
// of Refusals. What is no refusal (of code unauthenticated, forbidden, limit, or
// not_found for a wall) but a fault leaves nothing.
func (g *Gate) Refused(ctx context.Context, route string, why error, about ...any) {
	code := pawl.CodeOf(why)
	if code == pawl.CodeUnavailable || code == pawl.CodeInternal {
		return
	}
	g.mu.Lock()
	g.refusals[Refusal{route, code}]++
	g.mu.Unlock()
	about = append(about, "code", string(code), "error", why)
	if k := Of(ctx).Key; k != nil {
		about = append(about, "key", k.ID, "key_name", k.Name, "key_namespace", k.Namespace)
		g.use(ctx, k.ID, 1)
	}
	if left, ok := g.lines.allow(); ok {
		if left > 0 {
			about = append(about, "left_out", left)
		}
		g.o.Log.WarnContext(ctx, "refused", about...)
	}
}

// Refusals are the refusals of this process so far. The names of routes bound
// how many kinds there are.
func (g *Gate) Refusals() map[Refusal]int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.refusals)
}

// use counts, and now and then writes what was counted.
func (g *Gate) use(ctx context.Context, id string, refusals int64) {
	now := clock.Now()
	g.mu.Lock()
	u := g.uses[id]
	u.ID, u.Refusals = id, u.Refusals+refusals
	g.uses[id] = u
	due := now.Sub(g.noted) >= noteEvery
	if due {
		g.noted = now
	}
	g.mu.Unlock()
	if due {
		g.Flush(ctx)
	}
}

// Flush writes what was counted. A server does so when it stops.
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

// With is a context of calls that hold a pass.
func With(ctx context.Context, p Pass) context.Context { return context.WithValue(ctx, passKey{}, p) }

// Of is the pass of a context; one without may do all.
func Of(ctx context.Context) Pass {
	p, _ := ctx.Value(passKey{}).(Pass)
	return p
}
