package gate

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/nearest"
)

// Prefix is where the gate is: Prefix, the name of an upstream, and the rest of the path there.
const Prefix = "/gate/"

// Headers of requests and answers.
const (
	EffectHeader   = "Pawl-Effect"
	KeyHeader      = "Pawl-Effect-Key"
	ReplayedHeader = "Pawl-Replayed"
	ItemHeader     = "Pawl-Item"
	WorkerHeader   = "Pawl-Worker"
	AttemptHeader  = "Pawl-Attempt"
)

// Ledger is where the gate records effects: an engine.
type Ledger interface {
	pawl.EffectSender
	pawl.EffectReader
	pawl.BlobWriter
	pawl.BlobReader
	// FindToken returns the claim of a task token of any namespace.
	FindToken(ctx context.Context, token string) (pawl.TaskToken, error)
	// ClaimOfToken is FindToken without a look whether the claim is still the current one.
	ClaimOfToken(ctx context.Context, token string) (pawl.TaskToken, error)
	// HoldsLease refuses a claim that is not the current one.
	HoldsLease(ctx context.Context, f pawl.Fence) error
}

// Options configure a gate. Ledger is required.
type Options struct {
	Ledger    Ledger
	Upstreams map[string]Upstream
	Getenv    func(string) string // for credentials; nil = none is there
	Keys      *access.Gate        // reads API keys; nil = there are none
	Stopping  context.Context     // ends when the server stops; nil = it does not
	Log       *slog.Logger        // nil = slog.Default
	Timeout   time.Duration       // of a call to an upstream; 0 = 10 minutes
	Lease     int                 // of the gate on an effect that it sends, in seconds; 0 = 15
	MaxBody   int64               // of a request and of an answer, in bytes; 0 = pawl.MaxBodyBytes
}

// Gate is the handler of all paths below Prefix.
type Gate struct {
	Options
	upstreams map[string]*upstream
	reads     *http.Client
	// sends keeps its connections for a short time, alone makes one for each effect; see transmit.
	sends, alone *http.Client

	mu   sync.Mutex
	seen map[attempt]*Requests // what each attempt has sent through this process
}

// attempt is one claim.
type attempt struct {
	item   string
	number int
}

// defaultLease is the length of the gate's own lease in seconds. It is extended three times in that time.
const defaultLease = 15

// New returns a gate.
func New(o Options) (*Gate, error) {
	g := &Gate{Options: o, upstreams: map[string]*upstream{}, seen: map[attempt]*Requests{}}
	if g.Getenv == nil {
		g.Getenv = func(string) string { return "" }
	}
	for name, u := range o.Upstreams {
		checked, err := u.check(name, g.Getenv)
		if err != nil {
			return nil, err
		}
		g.upstreams[name] = checked
	}
	if g.Stopping == nil {
		g.Stopping = context.Background()
	}
	if g.Log == nil {
		g.Log = slog.Default()
	}
	if g.Timeout <= 0 {
		g.Timeout = 10 * time.Minute
	}
	if g.Lease <= 0 {
		g.Lease = defaultLease
	}
	if g.MaxBody <= 0 {
		g.MaxBody = pawl.MaxBodyBytes
	}
	g.reads, g.sends, g.alone = client(keep), client(keepShortly), client(keepNot)
	return g, nil
}

// Before returns a handler that passes what is not for the gate on.
func (g *Gate) Before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, Prefix) {
			g.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ServeHTTP implements http.Handler.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w = unhurried(w)
	name, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), Prefix), "/")
	name, at := unescape(name), placeOf("/"+rest)
	u := g.upstreams[name]
	if u == nil {
		meant := ""
		if _, _, err := g.caller(r, false); err == nil { // others are told no names
			meant = nearest.Question(name, slices.Sorted(maps.Keys(g.upstreams)))
		}
		refuse(w, r, &pawl.Error{Code: pawl.CodeNotFound, Op: "gate", Message: "there is no upstream " + name + meant})
		return
	}
	effect := u.isEffect(r.Method, at)
	ctx, who, err := g.caller(r, effect)
	if err != nil {
		refuse(w, r, err)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, g.MaxBody+1))
	if err == nil && int64(len(body)) > g.MaxBody {
		err = &pawl.Error{Code: pawl.CodeTooLarge, Op: "gate", Message: "the request's body is over the gate's limit"}
	} else if err != nil {
		err = &pawl.Error{Code: pawl.CodeInvalid, Op: "gate", Message: "the request's body ended early"}
	}
	if err != nil {
		refuse(w, r, err)
		return
	}
	c := &call{g: g, u: u, w: w, r: r, fence: who, at: at, body: body}
	if err := c.otherwise(); err != nil {
		refuse(w, r, err)
		return
	}
	if effect {
		c.effect(ctx)
		return
	}
	c.pass(ctx)
}

// refuse answers with a problem.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := api.ProblemOf(err, r.URL.Path)
	body, _ := json.Marshal(p) // it always marshals
	w.Header().Set("Content-Type", "application/problem+json")
	if p.EffectID != "" {
		w.Header().Set(EffectHeader, p.EffectID)
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // a caller that is gone
}
