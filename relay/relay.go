// Package relay sends the record out of the house: every event, after its
// commit, to sinks such as a message broker or a webhook. Of each sink one
// relay is at work at a time, on whichever server holds its lease, and its place
// in the record moves on only when the sink has confirmed what lies behind it.
// So every event arrives at least once, under an id that stays the same; those
// of one task arrive in the order of their commits, repetitions aside.
package relay

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
)

// Source is the record in the order of the feed; *feed.Tail is one.
type Source interface {
	// ReadAt reads up to limit events after a position. A position of an older epoch
	// than the feed's is a conflict with reason epoch.
	ReadAt(ctx context.Context, after pawl.FeedPosition, limit int) ([]pawl.Event, error)
	// WaitAt returns when there may be an event after a position, or another epoch.
	WaitAt(ctx context.Context, after pawl.FeedPosition) error
}

// Book keeps where relays stand, for all servers; *engine.Engine is one. Its
// time is the database's.
type Book interface {
	// TakeRelay leases a sink for ttl, unless another holder has it or it is
	// disabled: then ok is false.
	TakeRelay(ctx context.Context, sink, kind, holder string, ttl time.Duration) (r pawl.Relay, ok bool, err error)
	// KeepRelay renews the lease for ttl and writes down how things stand; with
	// ttl 0 it gives the lease back. ok is false when the lease is another's.
	KeepRelay(ctx context.Context, r pawl.Relay, ttl time.Duration) (ok bool, err error)
}

// Sink is a place that events are sent to.
type Sink interface {
	// Send sends messages, no two of one task, and answers for each, in order: nil
	// when the sink is sure to have it. pawl.Permanent marks one that it will never
	// have, pawl.RetryAfter when to try again. It returns when ctx ends.
	Send(ctx context.Context, messages []Message) []error
	// Close gives up connections.
	Close() error
}

// ErrGone is the answer of a sink that wants nothing any more: it is disabled at
// once.
var ErrGone = errors.New("the sink is gone for good")

// Out is one sink and what goes to it.
type Out struct {
	Name string // a-z, 0-9, - and _, at most 64; names its place in the record
	Kind string // for the list of relays
	Sink Sink
	// Batch is how many messages are handed to Send at once; 0 = 500, at most 1000.
	Batch int
	// DisableAfter stops trying when nothing has been taken for so long; 0 = never.
	DisableAfter time.Duration
	// MaxTries sets an event aside that has failed so often while others passed;
	// 0 = never: it is tried until it passes, and nothing of its task before it.
	MaxTries int
	// Namespaces, Types and Events let only such events through; none = all.
	Namespaces, Types, Events []string
}

// Options steer Run. Source, Book, Holder and Sinks are required.
type Options struct {
	Source Source
	Book   Book
	Holder string // this process among all, unique
	Sinks  []Out
	// Origin is the `source` of every CloudEvent: one per database; "" = /pawl.
	Origin string
	// Lease is how long a sink stays with a server that has fallen silent; 0 = 15 s.
	Lease time.Duration
	// Log gets a line when a sink begins to fail, is well again or refuses; nil =
	// slog's default.
	Log *slog.Logger
}

const (
	defaultBatch  = 500
	defaultLease  = 15 * time.Second
	defaultOrigin = "/pawl"
)

var sinkName = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)

// Check says whether a sink may be called so: an invalid error if not.
func Check(name string) error {
	if !sinkName.MatchString(name) {
		return pawl.Invalid("/relay", "a sink's name is up to 64 of a-z, 0-9, - and _, not %q", name)
	}
	return nil
}

// Run relays until ctx ends, then lets what is being sent be confirmed, for at
// most 5 s, gives its leases back and closes the sinks. It returns an error only
// for options that cannot be: a sink that fails is tried again, and holds no
// other up.
func Run(ctx context.Context, o Options) error {
	if o.Lease <= 0 {
		o.Lease = defaultLease
	}
	if o.Origin == "" {
		o.Origin = defaultOrigin
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	seen := map[string]bool{}
	for _, out := range o.Sinks {
		if err := Check(out.Name); err != nil {
			return err
		}
		if seen[out.Name] {
			return pawl.Invalid("/relay", "two sinks are called %s", out.Name)
		}
		seen[out.Name] = true
	}
	var all sync.WaitGroup
	for _, out := range o.Sinks {
		if out.Batch <= 0 {
			out.Batch = defaultBatch
		}
		r := &runner{Options: o, out: out, log: o.Log.With("sink", out.Name)}
		all.Go(func() { r.run(ctx) })
	}
	all.Wait()
	return nil
}

// runner relays to one sink whenever its lease can be had.
type runner struct {
	Options
	out Out
	log *slog.Logger
}

func (r *runner) run(ctx context.Context) {
	failed := false
	for ctx.Err() == nil {
		at, ok, err := r.Book.TakeRelay(ctx, r.out.Name, r.out.Kind, r.Holder, r.Lease)
		if ok {
			r.turn(ctx, at)
		} else if err != nil && !failed && ctx.Err() == nil {
			r.log.WarnContext(ctx, "the relay's place cannot be read; it is tried again", "error", err)
		}
		failed = err != nil
		sleep(ctx, r.Lease/3)
	}
	if err := r.out.Sink.Close(); err != nil {
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
