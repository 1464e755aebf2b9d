// Package worker claims items, runs a handler for each, sends heartbeats while the
// handlers run, and reports the results. A program that claims items itself keeps
// their leases alive with KeepAlive.
//
//	err := worker.Run(ctx, eng, worker.Handle("email.send", func(ctx context.Context, m Mail) (Receipt, error) {
//		return pawl.Step(ctx, "send", m.send)
//	}))
//
// Delivery is at least once: a handler may run more than once for an item, but only
// one result is accepted. When a worker loses the lease, the handler's context is
// cancelled and every write is refused. A handler returns one of: a value; an error,
// which is retried up to the item's max_attempts; pawl.Permanent(err);
// pawl.RetryAfter(d, err); or the pawl.ErrSuspended of a Sleep. A panic becomes an
// error with the stack.
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

	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/tracing"
)

// Options configures a worker. The zero value works.
type Options struct {
	ID      string // one per process, ≤ 255; "" = host name, process and a random part
	Name    string // for the registry, ≤ 255
	Version string // for the registry, ≤ 255; "" = the program's module version

	Concurrency  int      // handlers at a time; 0 = one per CPU
	LeaseSeconds int      // 1…86400; 0 = for each item the lease of its type, or 300
	WaitSeconds  int      // long-poll time of a claim, 1…60; 0 = 30
	TaskID       string   // only this task's items; "" = any
	Types        []string // with a handler for every type: claim only these types; nil = all

	// StopGrace is how long handlers may keep running after the context has ended.
	// Then their contexts are cancelled and their items are released; a release does
	// not count as a failure. 0 = 30 s; negative = none.
	StopGrace time.Duration

	// CancelGrace is how long handlers have to return once their contexts are cancelled at the end of
	// StopGrace. Their items are kept for it. 0 = 1 s.
	CancelGrace time.Duration

	// FlushEvery is how long chunks of messages are buffered before they are sent, at
	// most a second; 0 = 100 ms. A full buffer is sent at once.
	FlushEvery time.Duration

	MaxMisses  int  // consecutive failed heartbeats after which a lease counts as lost; 0 = 3
	KeepTrying bool // ignore MaxMisses: send heartbeats until the lease expires
	NoPrefetch bool // claim only as many items as there are free slots

	// Drain ends the worker when a claim finds nothing and all its results are
	// reported. It does not wait for scheduled or blocked items, or for items that
	// other workers hold.
	Drain bool

	Middleware []Middleware // around every handler; the first is the outermost

	// Logger gets a line when an item is started and when it is done, submitted,
	// failed, suspended, released, refused, cancelled or lost: with item_id,
	// task_id, type, attempt and took, never its input or result.
	// nil = slog.Default(); slog.New(slog.DiscardHandler) logs nothing.
	Logger *slog.Logger

	// TracerProvider makes a span of each attempt, step, child and reservation (docs/traces.md).
	// nil = no spans. In both cases the handler's context has the trace context of the task.
	TracerProvider trace.TracerProvider

	// OnLeaseLost is called, in a goroutine of its own, when a lease was lost while
	// its handler ran or before its result was reported; err matches
	// pawl.ErrLeaseLost. Run waits for it.
	OnLeaseLost func(lease pawl.Lease, err error)
}

// Run runs a worker with the default Options until ctx ends; see RunWith.
func Run(ctx context.Context, c pawl.Claimer, handlers ...Handler) error {
	return RunWith(ctx, c, Options{}, handlers...)
}

// RunWith claims items of the handlers' types and runs the handlers until ctx ends,
// or with Options.Drain until nothing is left. Then it stops claiming, lets the
// handlers run for Options.StopGrace and releases the items they did not finish. It
// returns nil when all started items finished, and an error that matches
// ErrGivenBack otherwise. It returns at once, with the reason, when the options are
// invalid or the service refuses the claims of this worker.
//
// The database may be unavailable for a time: claims are retried with back-off, and
// a result is reported again until its lease has expired. A handler that ignores its
// cancelled context still runs when RunWith returns; its writes are refused.
func RunWith(ctx context.Context, c pawl.Claimer, o Options, handlers ...Handler) error {
	w, err := newRunner(c, o, handlers)
	if err != nil {
		return err
	}
	w.workCtx, w.cancelWork = context.WithCancelCause(context.WithoutCancel(ctx))
	w.callCtx, w.cancelCalls = context.WithCancel(context.WithoutCancel(ctx))
	defer w.cancelCalls()

	var own sync.WaitGroup
	own.Go(w.heartbeatLoop)
	own.Go(w.resultLoop)
	own.Go(w.flushLoop)
	own.Go(w.registerLoop)
	refused := w.claimLoop(ctx)
	stopped := w.stop()
	w.cancelCalls()
	own.Wait()
	w.callbacks.Wait()
	if refused != nil {
		return refused
	}
	return stopped
}

// runner is one running worker.
type runner struct {
	claimer  pawl.Claimer
	opts     Options
	handlers map[string]HandlerFunc
	types    []string // to claim; nil = all
	log      *slog.Logger
	tracer   trace.Tracer // nil = no spans

	workCtx     context.Context // of handlers; cancelWork ends it after StopGrace
	cancelWork  context.CancelCauseFunc
	callCtx     context.Context // of calls; cancelCalls ends it last
	cancelCalls context.CancelFunc

	slotFreed     chan struct{} // cap 1: a slot is free
	flushNow      chan struct{} // cap 1: a writer has chunks to send
	wakeHeartbeat chan struct{} // cap 1: a heartbeat is due before heartbeatLoop's timer
	jobEnded      chan struct{} // cap 1: a handler has returned or a result is answered
	results       chan *result

	callbacks sync.WaitGroup

	mu             sync.Mutex
	stopping       bool
	jobs           map[*job]struct{} // with a running handler
	prefetched     []*job            // claimed, not started; oldest first
	meanTime       time.Duration     // moving average of how long an item occupies a slot
	wakeAt         time.Time         // heartbeatLoop's timer; zero = none
	pendingResults int               // results that are not answered yet
	stopped        Stopped
}

func newRunner(c pawl.Claimer, o Options, handlers []Handler) (*runner, error) {
	o = withDefaults(o)
	if err := check(o, handlers); err != nil {
		return nil, err
	}
	w := &runner{
		claimer: c, opts: o, handlers: map[string]HandlerFunc{}, log: o.Logger.With("worker_id", o.ID), tracer: tracing.Tracer(o.TracerProvider),
		slotFreed: make(
			chan struct{},
			1,
		), flushNow: make(chan struct{}, 1), wakeHeartbeat: make(chan struct{}, 1), jobEnded: make(chan struct{}, 1),
		results: make(chan *result, max(o.Concurrency, resultQueueSize)), jobs: map[*job]struct{}{},
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
	within("/lease_seconds", o.LeaseSeconds, 0, pawl.MaxLeaseSeconds)
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
