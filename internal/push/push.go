// Package push calls workers instead of waiting for them: it claims the items of a type, sends each
// to a URL, and hands in what the answer says.
package push

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/relay/webhook"
)

// Target is where the items of a type are sent.
type Target struct {
	URL string
	// Secrets sign each request, each with a signature of its own: whsec_ and the base64 of 24 to 64 bytes. To rotate a
	// secret, give the new and the old one.
	Secrets        []string
	AllowPrivate   bool // the address may be one that is not public
	TimeoutSeconds int  // of a call; 0 = 30, at most 3600
}

// Options of a Pusher; Service and Targets are required.
type Options struct {
	Service interface {
		pawl.Claimer
		pawl.ItemReader
	}
	Targets   map[string]Target // by the type of items
	Namespace string            // of the items; "" = the default one
	Log       *slog.Logger      // nil = slog.Default
	// Calls bounds the calls of a type that run at once in this process, besides the limits of its queue; 0 = 16.
	Calls int
}

const (
	defaultTimeout = 30
	maxTimeout     = 3600
	defaultCalls   = 16
	leaseMargin    = 30 // seconds of a lease besides the time of its call
	claimWait      = 20 // seconds that a claim waits
	quarantineWait = 2 * time.Second
	quarantineLog  = time.Minute
	claimAgain     = time.Second // after a claim that failed
	registerEvery  = 30 * time.Second
)

// Pusher calls the workers of some types.
type Pusher struct {
	o      Options
	worker string
	lines  []*line

	beats, grace time.Duration // how often a lease is renewed, and how long calls may run when the server stops
}

// line is what a pusher has for one type.
type line struct {
	typ     string
	timeout int
	poster  *webhook.Poster
	circuit *circuit // shared by the types of a URL
	slots   chan struct{}
}

// New returns a pusher. A bad target is an invalid error.
func New(o Options) (*Pusher, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.Calls = cmp.Or(o.Calls, defaultCalls)
	host, _ := os.Hostname()
	p := &Pusher{o: o, worker: fmt.Sprintf("push:%s:%d", host, os.Getpid()), beats: 5 * time.Second, grace: 10 * time.Second}
	circuits := map[string]*circuit{}
	for typ, t := range o.Targets {
		t.TimeoutSeconds = cmp.Or(t.TimeoutSeconds, defaultTimeout)
		if t.TimeoutSeconds < 1 || t.TimeoutSeconds > maxTimeout {
			return nil, pawl.Invalid("/push/"+typ+"/timeout_seconds", "must be 1 to %d", maxTimeout)
		}
		if len(t.Secrets) == 0 {
			return nil, pawl.Invalid("/push/"+typ+"/secret", "is required: it signs each call")
		}
		poster, err := webhook.NewPoster(webhook.Options{URL: t.URL, Secrets: t.Secrets, AllowPrivate: t.AllowPrivate,
			Timeout: time.Duration(t.TimeoutSeconds) * time.Second}, o.Calls)
		if err != nil {
			return nil, pawl.Invalid("/push/"+typ, "%s", strings.ReplaceAll(pawl.FieldsOf(err)[0].Message, "a webhook", "a target"))
		}
		if circuits[t.URL] == nil {
			circuits[t.URL] = &circuit{}
		}
		p.lines = append(p.lines, &line{typ, t.TimeoutSeconds, poster, circuits[t.URL], make(chan struct{}, o.Calls)})
	}
	return p, nil
}

// Run calls workers until ctx ends. Calls that run then have a few seconds to end; after that their
// items are released.
func (p *Pusher) Run(ctx context.Context) {
	calls, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	var lines, running sync.WaitGroup
	lines.Go(func() {
		for again := true; again; again = sleep(ctx, registerEvery) {
			p.register(ctx)
		}
	})
	for _, l := range p.lines {
		lines.Go(func() { p.claimLoop(ctx, calls, l, &running) })
	}
	lines.Wait()
	timer := time.AfterFunc(p.grace, func() { stop(errStopping) })
	running.Wait()
	timer.Stop()
	for _, l := range p.lines {
		l.poster.Close()
	}
}

func (p *Pusher) claimLoop(ctx, calls context.Context, l *line, running *sync.WaitGroup) {
	var told time.Time // of a quarantine
	for ctx.Err() == nil {
		if !sleep(ctx, l.circuit.wait(clock.Now())) {
			return
		}
		free := l.take(ctx, l.circuit.most(p.o.Calls))
		if free == 0 {
			continue
		}
		leases, err := p.claim(ctx, l, free, claimWait)
		for range free - len(leases) {
			<-l.slots
		}
		for _, lease := range leases {
			running.Go(func() {
				defer func() { <-l.slots }()
				p.call(calls, l, lease)
			})
		}
		switch {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, pawl.ErrQuarantined):
			if now := clock.Now(); now.Sub(told) >= quarantineLog {
				told = now
				p.o.Log.Warn("the database is quarantined; waiting until it is adopted", "type", l.typ, "error", err)
			}
			sleep(ctx, quarantineWait)
		default:
			p.o.Log.Warn("claiming items to push failed; retrying", "type", l.typ, "error", err)
			sleep(ctx, claimAgain)
		}
	}
}

// take waits for a free slot and takes up to most of those that are free.
func (l *line) take(ctx context.Context, most int) (taken int) {
	select {
	case l.slots <- struct{}{}:
		taken = 1
	case <-ctx.Done():
		return 0
	}
	for taken < most {
		select {
		case l.slots <- struct{}{}:
			taken++
		default:
			return taken
		}
	}
	return taken
}

func (p *Pusher) as(ctx context.Context) context.Context {
	return pawl.As(ctx, pawl.Caller{Namespace: p.o.Namespace, ActorType: pawl.ActorWorker, ActorID: p.worker})
}

// register writes the pusher into the registry of workers with its types: a worker that only claims may take any.
func (p *Pusher) register(ctx context.Context) {
	w := pawl.WorkerInfo{WorkerID: p.worker, Name: "push"}
	for _, l := range p.lines {
		w.Types = append(w.Types, l.typ)
	}
	if len(w.Types) == 0 {
		return
	}
	slices.Sort(w.Types)
	err := p.o.Service.RegisterWorker(p.as(ctx), w)
	if err != nil && ctx.Err() == nil && !errors.Is(err, pawl.ErrQuarantined) { // claiming tells of a quarantine
		p.o.Log.Warn("the pusher could not be registered as a worker", "error", err)
	}
}

func (p *Pusher) claim(ctx context.Context, l *line, limit, wait int) ([]pawl.Lease, error) {
	ctx = p.as(ctx)
	return p.o.Service.Claim(ctx, pawl.ClaimRequest{WorkerID: p.worker, Types: []string{l.typ}, Limit: limit,
		LeaseSeconds: l.timeout + leaseMargin, WaitSeconds: wait})
}

// Once calls the workers once for what is queued, up to the bound of calls for each type, and
// returns when the calls have ended. again is when to call next: at once if a call has ended, because what waited for its
// item may be queued now. Zero = nothing is left.
func (p *Pusher) Once(ctx context.Context) (pushed int64, again time.Time, err error) {
	var running sync.WaitGroup
	var mu sync.Mutex
	p.register(ctx)
	for _, l := range p.lines {
		now := clock.Now()
		if wait := l.circuit.wait(now); wait > 0 {
			note(&mu, &again, now.Add(wait))
			continue
		}
		limit := l.circuit.most(p.o.Calls)
		var next time.Time // by a rate limit
		leases, claimed := p.claim(pawl.WithNextAt(ctx, &next), l, limit, 0)
		if err = cmp.Or(err, claimed); claimed != nil {
			continue
		}
		if len(leases) == limit {
			next = now
		}
		note(&mu, &again, next)
		pushed += int64(len(leases))
		for _, lease := range leases {
			running.Go(func() {
				next := clock.Now()
				if ctx := context.WithoutCancel(ctx); p.call(ctx, l, lease) && p.holds(ctx, lease) {
					next = lease.LeaseExpiresAt
				}
				note(&mu, &again, next)
			})
		}
	}
	running.Wait()
	return pushed, again, err
}

// holds reports whether a callee still has the item that it has accepted: it may have reported itself before it answered.
// It has the item if that cannot be read: the end of the lease must have its tick.
func (p *Pusher) holds(ctx context.Context, lease pawl.Lease) bool {
	l, err := p.o.Service.ListItems(pawl.As(ctx, pawl.Caller{Namespace: p.o.Namespace}), pawl.ItemFilter{IDs: []string{lease.ID},
		Fields: []string{"attempt", "lease_expires_at"}, Page: pawl.Page{Limit: 1}})
	return err != nil || len(l.Items) > 0 && l.Items[0].Attempt == lease.Attempt && l.Items[0].LeaseExpiresAt != nil
}

// note brings a time forward. The zero time changes nothing.
func note(mu *sync.Mutex, next *time.Time, at time.Time) {
	mu.Lock()
	defer mu.Unlock()
	if !at.IsZero() && (next.IsZero() || at.Before(*next)) {
		*next = at
	}
}

// sleep waits, and reports false when ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
