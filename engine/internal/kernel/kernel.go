// Package kernel is what the rooms of an engine stand on. A room is a package with all of one feature; it imports the
// kernel and what is below it, never the engine or another room. A Kernel is the database as the verbs of a room see
// it, or one transaction that several verbs share. What a room needs of the others is declared here, and wired by the
// engine.
package kernel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/commit"
	"github.com/pawl-work/pawl/engine/internal/identity"
	"github.com/pawl-work/pawl/store"
)

// PassLimit is the time limit of a statement of work in the background.
const PassLimit = 10 * time.Minute

const (
	// LockedRow is how long work in the background waits for each row that another transaction locks.
	LockedRow = 100 * time.Millisecond
	// LockedCall is how long a call waits for such a row of what it can leave aside.
	LockedCall = 500 * time.Millisecond
)

// Core is what all Kernels of an open database share.
type Core struct {
	Base  *DB // the database
	IDs   IDs
	Log   *slog.Logger
	Guard *identity.Guard // set when the schema is up to date

	// Feed is the event feed of all namespaces.
	Feed Feed
	// Work returns the verbs of tasks over a Kernel. Their tasks have an origin.
	Work func(k *Kernel, of Origin) Tasks
	// Named returns types of a namespace that programs have named, a given one first: tasks had them, or workers take them.
	Named func(ctx context.Context, tx store.Tx, namespace, first string) ([]string, error)
	// Verbs returns all verbs over a Kernel.
	Verbs func(k *Kernel) pawl.Service
	// Wait calls try until it is done, again when there may be work in a namespace, for at most a time. Calls with an equal
	// key wait for the same.
	Wait func(ctx context.Context, namespace, key string, wait time.Duration, try func(woken <-chan struct{}) (done bool, err error)) error
	// Refer keeps the uploaded blobs that a text refers to which belongs to no task. The text is stored by w.
	Refer func(ctx context.Context, w *Write, op, text string) error
	// Blobs are the uploaded blobs of all namespaces.
	Blobs Blobs
	// Snapshots are those of the checkpoints of all namespaces.
	Snapshots Snapshots
	// Children are the children of tasks of all namespaces.
	Children Children
	// Signals are the signals of all namespaces.
	Signals Signals
	// Messages are the messages of tasks of all namespaces.
	Messages Messages
	// MAC returns the code of a text that the database's secret makes.
	MAC func(text string) string
	// Seen notes that a worker called by a Kernel. WriteSeen writes the workers that called since the last time.
	Seen      func(ctx context.Context, k *Kernel, namespace, workerID string)
	WriteSeen func(ctx context.Context, k *Kernel) error
	// Sweeps reads what the passes of the sweep did, and what settings they have.
	Sweeps func(ctx context.Context, tx store.Tx) (pawl.SweepTotals, error)
	// Unclaimed is called when what a claim took is queued again, because its transaction was rolled back.
	Unclaimed func(ctx context.Context)
	// Signed returns how a transaction that begins after the call reads the newest checkpoint of the log that a known key
	// has signed.
	Signed func() (func(ctx context.Context, tx store.Tx) (store.SignedRoot, error), error)

	// What rooms add that have a state in this process: what Run runs beside its loop until ctx ends, what its loop does every
	// few seconds, metrics, and warnings of the doctor.
	Loops    []func(ctx context.Context)
	Often    []func(ctx context.Context)
	Gauges   []func(ctx context.Context) ([]pawl.Gauge, error)
	Warnings []func(ctx context.Context) ([]pawl.Warning, error)

	// Committed is told how many calls of a verb a group committer has carried out.
	Committed func(verb string, calls int)
	// Committers are the group committers, in the order in which they are closed.
	Committers []interface{ Close() }
}

// Feed is what rooms read of the event feed. Log gives a position to the events that have none yet, and counts them.
type Feed interface {
	Log(ctx context.Context) error
	Newest() int64
	Head(ctx context.Context) (int64, error)
	Read(ctx context.Context, after int64, limit int) ([]pawl.Event, error)
}

// Kernel is what verbs run on. Its verbs write in transactions of their own, or share the transaction of a scope.
type Kernel struct {
	*Core
	DB    store.DB // the database, or the transaction of the scope
	Scope *Scope   // nil = each verb has its own transaction
}

// New returns the Kernel of a database.
func New(base *DB, log *slog.Logger) *Kernel {
	return &Kernel{Core: &Core{Base: base, Log: log}, DB: base}
}

// In returns a Kernel inside a transaction that a caller began on the same database; see engine.Engine.In.
func (k *Kernel) In(tx any) *Kernel {
	s := &Scope{DB: k.Base, Begun: true, Own: true}
	s.Tx = s.Dialect().Wrap(tx)
	if s.Tx == nil {
		s.refused = &pawl.Error{
			Code:    pawl.CodeInvalid,
			Op:      "in",
			Message: fmt.Sprintf("a %T is no transaction of a %s database: use *sql.Tx, or on postgres pgx.Tx", tx, s.Dialect().Name),
		}
	}
	s.admits = k.Base.admission(s.Tx)
	return k.over(s)
}

// Tasks returns the verbs of tasks. Their tasks have an origin.
func (k *Kernel) Tasks(of Origin) Tasks { return k.Work(k, of) }

// catchUp bounds how long a reader of counters waits until events that were committed before are counted.
const catchUp = 500 * time.Millisecond

// CountEvents adds the events that no engine has counted yet to the counters. It gives up after catchUp: then the engines that
// run have not counted everything yet.
func (k *Kernel) CountEvents(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, catchUp)
	defer stop()
	_ = k.Feed.Log(ctx) // a database that cannot be written answers with what was counted before
}

// over returns a Kernel whose verbs share a transaction.
func (k *Kernel) over(s *Scope) *Kernel { return &Kernel{Core: k.Core, DB: s, Scope: s} }

// StopsAll reports whether an error is not that of one row: the caller gave up, or the database is unavailable.
func StopsAll(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, pawl.ErrUnavailable) && !errors.Is(err, store.ErrLocked)
}

// Acts refuses a call that acts, while the database is quarantined. Every verb that acts begins with it.
func (k *Kernel) Acts(ctx context.Context, op string) error { return k.Guard.Act(ctx, op) }

// OffForGood refuses to turn on what a copy for tests has turned off.
func OffForGood(op, what string) error {
	return &pawl.Error{Code: pawl.CodeConflict, Op: op, Allowed: []string{},
		Message: "this database is a copy for tests (`pawl adopt --as-copy`): its " + what + " are off for good"}
}

// Transient reports whether another try may succeed: on another connection, or after a
// lock is free.
func Transient(err error) bool {
	return errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrLocked)
}

// GroupCommitter returns a group committer of a verb whose groups run on k.
func GroupCommitter[Row, Ans any](k *Kernel, verb string, o commit.Options[Row, Ans]) *commit.Committer[Row, Ans] {
	o.DB, o.Panicked = k.DB, k.LogPanic
	if !o.Ungrouped {
		o.Committed = func(calls int) { k.Committed(verb, calls) }
	}
	c := commit.New(o)
	k.Committers = append(k.Committers, c)
	return c
}

// ErrNoHook says that this process lacks a hook of a type.
var ErrNoHook = errors.New("another process may have the hook")

// LeftAside logs that something is left to the next pass. A lock that another transaction holds is no error.
func (k *Kernel) LeftAside(ctx context.Context, what string, err error, args ...any) {
	level := slog.LevelWarn
	if errors.Is(err, store.ErrLocked) || errors.Is(err, ErrNoHook) {
		level = slog.LevelDebug
	}
	k.Log.Log(ctx, level, what, append(args, "error", err)...)
}

// LogError logs that something which is repeated has failed, unless ctx has ended or nothing acts here.
func (k *Kernel) LogError(ctx context.Context, what string, err error) {
	if ctx.Err() == nil && k.Base.Moves.Refuse(ForAll(ctx)) == nil { // Run has said that nothing acts
		k.Log.WarnContext(ctx, what, "error", err)
	}
}

// LogPanic logs a panic of a call.
func (k *Kernel) LogPanic(ctx context.Context, p commit.Panic) {
	k.Log.ErrorContext(ctx, "a call panicked in its transaction", "panic", p.Value, "stack", string(p.Stack))
}
