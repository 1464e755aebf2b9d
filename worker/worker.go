// Package worker does the work: it claims items, keeps their leases alive while
// handlers run, and hands the results in. A program that claims by hand keeps
// its leases with KeepAlive.
//
//	err := worker.Run(ctx, eng, worker.Handle("email.send", func(ctx context.Context, m Mail) (Receipt, error) {
//		return pawl.Step(ctx, "send", m.send)
//	}))
//
// A handler may be run more than once for an item, never by two workers that
// both get their result taken: whoever lost the lease has his context cancelled
// and every write refused. It ends by returning: a value; an error, which is
// retried by the item's budget; pawl.Permanent(err); pawl.RetryAfter(d, err); or
// the pawl.ErrSuspended of a Sleep. A panic is an error that carries its stack.
package worker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
)

// Options say how a worker works. The zero value works; the defaults are
// those of docs/contract.md §10.
type Options struct {
	ID      string // one per process, ≤ 255; "" = host name, process and a random part
	Name    string // for the registry, ≤ 255
	Version string // for the registry, ≤ 255; "" = the program's module version

	Concurrency  int      // handlers at a time; 0 = one per CPU
	LeaseSeconds int      // 1…86400; 0 = 300
	WaitSeconds  int      // how long a claim waits for work, 1…60; 0 = 30
	TaskID       string   // only this task's items; "" = any
	Types        []string // for a handler of every type: claim only these; nil = any kind of work

	// StopGrace is how long handlers may go on after the context has ended, before
	// their contexts are cancelled and what they had begun is released, uncounted.
	// 0 = 30 s; negative = none.
	StopGrace time.Duration

	// FlushEvery is how long what handlers say in messages may wait for more, at
	// most a second; 0 = 100 ms. Much of it goes at once.
	FlushEvery time.Duration

	MaxMisses  int  // failed heartbeats in a row that lose a lease; 0 = 3
	KeepTrying bool // let heartbeats fail until the lease's own end
	NoPrefetch bool // claim only what can be started at once

	// Drain ends the worker when it finds nothing more to claim and all that it
	// had is handed in. What is scheduled, waits or is held by others is not
	// waited for.
	Drain bool

	Middleware []Middleware // around every handler; the first is the outermost

	// Logger gets a line when an item is started and when it is done, submitted,
	// failed, suspended, released, refused, cancelled or lost: with item_id,
	// task_id, type, attempt and took, never what is in it. nil = slog.Default();
	// slog.New(slog.DiscardHandler) keeps the worker silent.
	Logger *slog.Logger

	// OnLeaseLost is called, in a goroutine of its own, when a lease was lost while
	// its handler ran or before its result was handed in; err matches
	// pawl.ErrLeaseLost. Run waits for it.
	OnLeaseLost func(lease pawl.Lease, err error)
}

// Run works with the default Options until ctx ends; see RunWith.
func Run(ctx context.Context, c pawl.Claimer, handlers ...Handler) error {
	return RunWith(ctx, c, Options{}, handlers...)
}

// RunWith claims items of the handlers' types and does them until ctx ends, or
// with Options.Drain until nothing is left. Then
// it claims no more, gives the handlers Options.StopGrace and releases what they
// could not finish. It returns nil when all that was begun has finished, an error
// that matches ErrGivenBack when something was not, and at once, with the reason,
// when the options are wrong or the service refuses to let this worker claim.
//
// The database may come and go: claims are tried again with back-off, and a
// finished result is handed in again until its lease has run out. A handler that
// ignores its cancelled context is left running when RunWith returns; nothing it
// writes is taken.
func RunWith(ctx context.Context, c pawl.Claimer, o Options, handlers ...Handler) error {
	w, err := newCrew(c, o, handlers)
	if err != nil {
		return err
	}
	w.work, w.cut = context.WithCancelCause(context.WithoutCancel(ctx))
	w.calls, w.hangUp = context.WithCancel(context.WithoutCancel(ctx))
	defer w.hangUp()

	var own sync.WaitGroup
	own.Go(w.pulse)
	own.Go(w.handIn)
	own.Go(w.scribe)
	own.Go(w.register)
	refused := w.claims(ctx)
	stopped := w.stop()
	w.hangUp()
	own.Wait()
	w.callbacks.Wait()
	if refused != nil {
		return refused
	}
	return stopped
}

// crew is one running worker.
type crew struct {
	c        pawl.Claimer
	o        Options
	handlers map[string]HandlerFunc
	types    []string // to claim; nil = any kind of work
	log      *slog.Logger

	work   context.Context // the handlers': ended by cut when the grace is over
	cut    context.CancelCauseFunc
	calls  context.Context // the calls': ended by hangUp, last of all
	hangUp context.CancelFunc

	room    chan struct{} // cap 1: a slot or a place ahead came free
	said    chan struct{} // cap 1: somebody said something, or is in a hurry
	poke    chan struct{} // cap 1: a heartbeat falls due before the pulse planned to wake
	changed chan struct{} // cap 1: a handler or a hand-in is over
	queue   chan *handin

	callbacks sync.WaitGroup

	mu       sync.Mutex
	stopping bool
	jobs     map[*job]struct{} // whose handlers run
	ahead    []*job            // claimed, not started; oldest first
	mean     time.Duration     // moving average of how long an item keeps its slot
	wakeAt   time.Time         // when the pulse wakes; zero = only when poked
	handing  int               // results on their way
	tally    Stopped
}

func newCrew(c pawl.Claimer, o Options, handlers []Handler) (*crew, error) {
	o = withDefaults(o)
	if err := check(o, handlers); err != nil {
		return nil, err
	}
	w := &crew{
		c: c, o: o, handlers: map[string]HandlerFunc{}, log: o.Logger.With("worker_id", o.ID),
		room: make(chan struct{}, 1), said: make(chan struct{}, 1), poke: make(chan struct{}, 1), changed: make(chan struct{}, 1),
		queue: make(chan *handin, max(o.Concurrency, handInRoom)), jobs: map[*job]struct{}{},
	}
	for _, h := range handlers {
		w.handlers[h.Type] = chain(h.Do, append([]Middleware{Recover}, o.Middleware...))
		w.types = append(w.types, h.Type)
	}
	if slices.Sort(w.types); w.types[0] == "" {
		w.types = o.Types
	}
	return w, nil
}

func withDefaults(o Options) Options {
	if o.ID == "" {
		o.ID = newID()
	}
	if o.Version == "" {
		if info, ok := debug.ReadBuildInfo(); ok {
			o.Version = info.Main.Version
		}
	}
	if o.Concurrency == 0 {
		o.Concurrency = runtime.NumCPU()
	}
	if o.LeaseSeconds == 0 {
		o.LeaseSeconds = pawl.DefaultLeaseSeconds
	}
	if o.WaitSeconds == 0 {
		o.WaitSeconds = 30
	}
	switch {
	case o.StopGrace == 0:
		o.StopGrace = pawl.DefaultStopGrace
	case o.StopGrace < 0:
		o.StopGrace = 0
	}
	if o.FlushEvery == 0 {
		o.FlushEvery = pawl.DefaultFlush
	}
	if o.MaxMisses == 0 {
		o.MaxMisses = pawl.DefaultHeartbeatMisses
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

func check(o Options, handlers []Handler) error {
	var bad []pawl.Field
	within := func(pointer string, n, low, high int) {
		if n < low || n > high {
			bad = append(bad, pawl.Field{Pointer: pointer, Message: fmt.Sprintf("is %d; must lie between %d and %d", n, low, high)})
		}
	}
	within("/concurrency", o.Concurrency, 1, pawl.MaxItemsPerCall)
	within("/lease_seconds", o.LeaseSeconds, 1, pawl.MaxLeaseSeconds)
	within("/wait_seconds", o.WaitSeconds, 1, pawl.MaxWaitSeconds)
	within("/flush_every_ms", int(o.FlushEvery.Milliseconds()), 1, int(pawl.MaxFlush.Milliseconds()))
	within("/max_misses", o.MaxMisses, 1, pawl.MaxAttemptsCeiling)
	var names []string
	for _, h := range handlers {
		if h.Do == nil || slices.Contains(names, h.Type) {
			bad = append(bad, pawl.Field{Pointer: "/handlers", Message: fmt.Sprintf("type %q needs exactly one handler", h.Type)})
		}
		names = append(names, h.Type)
	}
	if len(handlers) == 0 {
		bad = append(bad, pawl.Field{Pointer: "/handlers", Message: "none was given"})
	}
	if len(bad) > 0 {
		return &pawl.Error{Code: pawl.CodeInvalid, Op: "worker", Message: "the worker's options are wrong", Fields: bad}
	}
	return nil
}

func newID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	if len(host) > 200 {
		host = host[:200]
	}
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), hex.EncodeToString(b[:]))
}

// signal fills a channel of capacity 1.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
