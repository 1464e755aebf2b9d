// Package relay delivers every event, after its commit, to sinks: message brokers and
// webhooks. For each sink one server holds a lease and delivers. The relay's position
// advances only when the sink has confirmed every event up to it. So every event arrives
// at least once, with the same id each time. The events of a task arrive in commit
// order; only a repeated event can arrive after later ones.
package relay

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/nearest"
	"github.com/pawl-work/pawl/tracing"
)

// Source reads the event feed; *feed.Feed implements it.
type Source interface {
	// ReadAt returns up to limit events after a position, in feed order. A position of
	// an older epoch than the feed's is a conflict with reason epoch.
	ReadAt(ctx context.Context, after pawl.FeedPosition, limit int) ([]pawl.Event, error)
	// WaitAt returns when events may exist after a position, or the epoch has changed.
	WaitAt(ctx context.Context, after pawl.FeedPosition) error
}

// Checker is a Source that can say whether a position is still of the database's history, with
// a query that begins after the call; *feed.Feed implements it. A relay asks it before it sends
// events that it has in memory, because the database may have gone back in time since they were
// read.
type Checker interface {
	// Check is a conflict with reason epoch if the position is of an older epoch.
	Check(ctx context.Context, at pawl.FeedPosition) error
}

// StateStore stores the state and the lease of each relay, for all servers; *engine.Engine
// implements it. Leases run by the database's clock.
type StateStore interface {
	// TakeRelay leases a sink for ttl. ok is false if another holder has the lease or
	// the sink is disabled.
	TakeRelay(ctx context.Context, sink, kind, holder string, ttl time.Duration) (r pawl.Relay, ok bool, err error)
	// KeepRelay renews the lease for ttl and stores r; with ttl 0 it gives up the lease.
	// ok is false if another holder has the lease.
	KeepRelay(ctx context.Context, r pawl.Relay, ttl time.Duration) (ok bool, err error)
}

// Sink is a destination of events.
type Sink interface {
	// Send sends messages, at most one of each task, and returns one result for each, in
	// order: nil if the sink has the message for certain, pawl.Permanent for a message
	// that it will never accept, pawl.RetryAfter to say when to try again. Send returns
	// when ctx ends.
	Send(ctx context.Context, messages []Message) []error
	// Close closes connections.
	Close() error
}

// ErrGone is returned by a sink that wants no more events. It is disabled at once.
var ErrGone = errors.New("the sink is gone for good")

// SinkOptions configures the delivery to one sink.
type SinkOptions struct {
	Name string // 1 to 64 of a-z, 0-9, - and _; identifies the relay's stored position
	Kind string // shown in the list of relays
	Sink Sink
	// Batch is the number of messages of one Send; 0 = 500, at most 1000.
	Batch int
	// DisableAfter disables the sink when it has accepted nothing for this time; 0 =
	// never.
	DisableAfter time.Duration
	// MaxTries skips an event, as refused, after so many failures while other events
	// were accepted; 0 = never: it is retried, and the later events of its task wait.
	MaxTries int
	// Namespaces, Types and Events filter the events; an empty list lets all through. Events are names of pawl.Events.
	Namespaces, Types, Events []string
}

// Options configure Run. Source, States, Holder and Sinks are required.
type Options struct {
	Source Source
	States StateStore
	Holder string // identifies this process; unique among all servers
	Sinks  []SinkOptions
	// Origin is the `source` of every CloudEvent, one for each database; "" = /pawl.
	Origin string
	// Lease is how long a silent server keeps a sink before another takes over; 0 = 15
	// s.
	Lease time.Duration
	// Log gets a line when a sink begins to fail, recovers, or refuses an event; nil =
	// slog.Default.
	Log *slog.Logger
	// TracerProvider makes a span of each delivery of an event whose task has a trace context;
	// nil = no spans. In both cases messages carry a trace context in their headers.
	TracerProvider trace.TracerProvider
}

const (
	defaultBatch  = 500
	defaultLease  = 15 * time.Second
	defaultOrigin = "/pawl"
)

var sinkName = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)

// Check returns an invalid error if name cannot be the name of a sink.
func Check(name string) error {
	if !sinkName.MatchString(name) {
		return pawl.Invalid("/relay", "a sink's name must be 1 to 64 of a-z, 0-9, - and _, not %q", name)
	}
	return nil
}

// CheckEvents returns an invalid error if one of the names is not that of an event: nothing would ever be delivered for it.
func CheckEvents(names []string) error {
	known := make([]string, len(pawl.Events))
	for i, e := range pawl.Events {
		known[i] = e.Name
	}
	for _, name := range names {
		if slices.Contains(known, name) {
			continue
		}
		return pawl.Invalid("/relay", "there is no event %q%s", name, nearest.Question(name, known))
	}
	return nil
}

// Run delivers events until ctx ends. Then it waits up to 5 s for confirmations, gives
// up its leases and closes the sinks. It returns an error only for invalid options. A
// sink that fails is retried and does not delay the others.
func Run(ctx context.Context, o Options) error {
	runners, err := o.runners()
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for _, r := range runners {
		all.Go(func() { r.run(ctx) })
	}
	all.Wait()
	return nil
}

// Once delivers what the feed has now, and returns: it is for programs that do not stay. It sends what it can until ctx
// ends, closes no sink, and leaves a sink that another process holds to it. sent counts the events that sinks have
// accepted. next is when to deliver again, if events are left: now if ctx ended first, when a sink that failed may be tried
// again, or when the lease of the other process ends. Zero = nothing is left.
func Once(ctx context.Context, o Options) (sent int64, next time.Time, err error) {
	runners, err := o.runners()
	if err != nil {
		return 0, next, err
	}
	errs, counts, retries := make([]error, len(runners)), make([]int64, len(runners)), make([]time.Time, len(runners))
	var all sync.WaitGroup
	for i, r := range runners {
		all.Go(func() {
			at, ok, err := r.States.TakeRelay(ctx, r.sink.Name, r.sink.Kind, r.Holder, r.Lease)
			switch {
			case ok:
				r.once = true
				counts[i], retries[i] = r.deliver(ctx, at)
			case err == nil:
				retries[i], err = r.freeAt(ctx, at)
			}
			errs[i] = err
		})
	}
	all.Wait()
	for i := range runners {
		sent += counts[i]
		if at := retries[i]; !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return sent, next, errors.Join(errs...)
}

// freeAt is when the lease of the process that holds a sink ends, zero if no event waits for it.
func (r *runner) freeAt(ctx context.Context, at pawl.Relay) (time.Time, error) {
	if at.HeldUntil == nil || at.DisabledAt != nil {
		return time.Time{}, nil
	}
	events, err := r.Source.ReadAt(ctx, pawl.FeedPosition{Epoch: at.Epoch, Position: at.Position}, 1)
	if _, epoch := pawl.RestartOf(err); epoch || len(events) > 0 {
		return *at.HeldUntil, nil
	}
	return time.Time{}, err
}

// runners checks the options, fills in what is not set, and returns one runner for each sink.
func (o Options) runners() (all []*runner, err error) {
	if o.Lease <= 0 {
		o.Lease = defaultLease
	}
	o.Origin = cmp.Or(o.Origin, defaultOrigin)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	seen := map[string]bool{}
	for _, s := range o.Sinks {
		if err := Check(s.Name); err != nil {
			return nil, err
		}
		if err := CheckEvents(s.Events); err != nil {
			return nil, err
		}
		if seen[s.Name] {
			return nil, pawl.Invalid("/relay", "two sinks have the name %s", s.Name)
		}
		seen[s.Name] = true
		if s.Batch <= 0 {
			s.Batch = defaultBatch
		}
		all = append(all, &runner{Options: o, sink: s, log: o.Log.With("sink", s.Name), tracer: tracing.Tracer(o.TracerProvider)})
	}
	return all, nil
}

// runner delivers to one sink while it holds the lease.
type runner struct {
	Options
	sink   SinkOptions
	log    *slog.Logger
	tracer trace.Tracer // nil = no spans
	once   bool         // end when nothing is left to send now
}

func (r *runner) run(ctx context.Context) {
	failed := false
	for ctx.Err() == nil {
		at, ok, err := r.States.TakeRelay(ctx, r.sink.Name, r.sink.Kind, r.Holder, r.Lease)
		if ok {
			r.deliver(ctx, at)
		} else if err != nil && !failed && ctx.Err() == nil {
			r.log.WarnContext(ctx, "the relay's state cannot be read; retrying", "error", err)
		}
		failed = err != nil
		sleep(ctx, r.Lease/3)
	}
	if err := r.sink.Sink.Close(); err != nil {
		r.log.DebugContext(ctx, "closing the sink", "error", err)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
