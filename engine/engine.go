// Package engine implements pawl.Service in process, over SQLite or PostgreSQL. It has
// one file per verb: each verb is a check, one transaction, a transition and its event.
// Several engines may share one database.
package engine

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/archives"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/queue"
	"github.com/pawl-work/pawl/engine/internal/tasktypes"
	"github.com/pawl-work/pawl/engine/internal/taskwait"
	"github.com/pawl-work/pawl/feed"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/internal/watch"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/objects"
	"github.com/pawl-work/pawl/store/postgres"
	"github.com/pawl-work/pawl/store/sqlite"
	"github.com/pawl-work/pawl/sweep"
)

// Options configure an engine. The zero value of each option is its default.
type Options struct {
	// Schema is PostgreSQL's schema; "" = the URL's or DB_SCHEMA's, else pawl.
	Schema string
	// MaxConns bounds the connections of this engine to PostgreSQL, at least 2; 0 = the URL's
	// parameter max_conns, else 8. Below 4 the engine polls instead of listening for the work of
	// other processes.
	MaxConns int
	// ListenURL is where the engine listens for the work of other processes when PostgreSQL is behind
	// a pooler of transactions; "" = the URL's parameter listen_url. Without one, the engine polls.
	ListenURL string
	// Pool is a *pgxpool.Pool of the program, whose connections the engine then uses instead of own
	// ones, at most MaxConns. It leaves their settings as they are, and the pool open. Of the URL only
	// the scheme counts then, postgres:.
	Pool any
	// Migrate is what Open does about the schema. "" or "up" migrates it to the newest
	// version; "off" only verifies that this program can run on it.
	Migrate string
	// Existing opens only a database that already has Pawl's schema, of any version. A
	// missing or empty SQLite file, and a PostgreSQL schema without Pawl's tables, are
	// not_found. Nothing is created.
	Existing bool
	// KeepFileMode leaves the permissions of a SQLite file as they are. Otherwise the
	// permissions of group and others are removed when the owner opens the file.
	KeepFileMode bool
	// Clock is SQLite's clock, for tests; nil = the machine's clock. PostgreSQL uses its
	// own.
	Clock func() time.Time
	// Sweep are the options of Run and Sweep. Those of retention are stored in the database at the first pass or the begin
	// of Run, and count from then on for every process, until another one is given others. nil = those that the database
	// has, or else those of pawl.DefaultSweepOptions.
	Sweep *pawl.SweepOptions
	// SweepSet names the settings of Sweep that are stored, as docs/cli.md does without "sweep."; the others count as far as
	// the database has none. nil = all of retention if Sweep is given; archive_dir only if it is not empty.
	SweepSet []string
	// SweepOnce says that the settings of SweepSet count for this engine alone, and are not stored.
	SweepOnce bool
	// PollInterval is the longest time that a waiting call may miss what another process
	// has committed: on PostgreSQL, work whose notice is lost, and the change of a task that
	// a call waits for. 0 = 250 ms; 1 s for claims of an engine that does not listen.
	PollInterval time.Duration
	// MaxTypes limits the types with queued work in one namespace, as far as this engine
	// knows them. A task of one more type is refused with the code limit. 0 =
	// pawl.DefaultMaxTypes.
	MaxTypes int
	// RegisteredTypesOnly refuses new tasks and items of unregistered types.
	RegisteredTypesOnly bool
	// Types are registered in the default namespace when the engine opens, as by
	// PutTypes. An unchanged type keeps its version; a changed type becomes the next
	// version.
	Types []pawl.Type
	// Hooks are the rules of types that are written in Go, by the name of the type. They
	// apply in all namespaces.
	Hooks map[string]pawl.Hooks
	// Statement is called with each SQL statement before it runs, in the goroutine that
	// runs it, for tests; nil = not called. It is not called for BEGIN and COMMIT, nor for statements of the feed and of migrations.
	Statement func(query string)
	// Blobs has the bytes of blobs that are uploaded from now on; nil = the database.
	Blobs objects.Store
	// BlobStores have bytes of blobs that were uploaded before. The database is always read.
	BlobStores []objects.Store
	// MaxBlobBytes limits the size of an uploaded blob; 0 = pawl.DefaultMaxBlobBytes.
	MaxBlobBytes int64
	// TransparencyLog says who signs the log of all events.
	TransparencyLog LogOptions
	// TracerProvider makes a span of each application of a task by the hook Apply; nil = no
	// spans. In both cases a task keeps the trace context of the call that creates it.
	TracerProvider trace.TracerProvider
	// Identity says what Open does when the database is a copy or was moved. "" = the variable
	// PAWL_IDENTITY, or else "check": nothing acts until it is adopted. "trust" = it acts, and
	// remembers no place. A database of Options.DB is trusted.
	Identity string
	// Log gets one line per error; nil = slog.Default.
	Log *slog.Logger
	// DB is a database of OpenDB instead of the one at the URL, for tests. Options about how a
	// database is opened have no effect then. Close closes it. nil = the database at the URL.
	DB store.DB
}

// Engine is an open Pawl database. It is safe for concurrent use. Call Close when done.
// Call Run in at least one process: without it, the items of dead workers are not queued
// again.
type Engine struct {
	*core
	rooms
	k     *kernel.Kernel
	db    store.DB      // k.DB, what its verbs run on: the database, or one transaction
	scope *kernel.Scope // the shared transaction; nil = each verb has its own

	origin kernel.Origin // what makes its calls; the zero value = a caller
}

// core is the state that all Engines of one open database share.
type core struct {
	root          *Engine // the Engine that Open returned
	feed          *feed.Feed
	opts          Options
	log           *slog.Logger
	committers    groupCommitters
	hub           *watch.Hub
	queues        *queue.Queues
	limits        *limits
	leaveTo       time.Duration          // the constant, but in tests
	leaseKeys     ofAttempts[string]     // the API keys that attempts were claimed with
	claimants     ofAttempts[tokenClaim] // of attempts whose tokens were used
	claimKeys     claimKeys
	tokens        *tokens // set by start
	waits         *taskwait.Waits
	sweeper       *sweep.Sweeper
	running       sync.Mutex // held by Run
	observers     atomic.Pointer[[]pawl.Observer]
	active        atomic.Bool   // a Run is in progress
	logLags       chan struct{} // tells the feed that the log may lack removals
	asked         chan struct{} // tells the guard that other servers ask questions
	owed, limited atomic.Bool   // tasks may owe steps, or signals have items to wake; queues have limits
	postponed     postponed
	open          context.Context // ends with Close; Run ends with it
	shut          context.CancelFunc
}

var _ pawl.Service = (*Engine)(nil)

// Open opens the database at url and brings its schema up to date:
// "sqlite:work.db" or "postgres://user@host/db".
func Open(ctx context.Context, url string) (*Engine, error) {
	return OpenWith(ctx, url, Options{})
}

// OpenWith is Open with options. A URL of another kind is invalid. A database that does
// not answer is unavailable.
func OpenWith(ctx context.Context, url string, o Options) (*Engine, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.PollInterval <= 0 {
		o.PollInterval = defaultPoll
	}
	if o.MaxTypes <= 0 {
		o.MaxTypes = pawl.DefaultMaxTypes
	}
	if o.MaxBlobBytes <= 0 {
		o.MaxBlobBytes = pawl.DefaultMaxBlobBytes
	}
	o.TransparencyLog = o.TransparencyLog.withKey(url)
	archiveDir, err := o.retention(url)
	witnesses, unusable := o.TransparencyLog.witnesses()
	if err := cmp.Or(err, unusable); err != nil {
		return nil, err
	}
	db, err := openDB(ctx, url, o)
	if err != nil {
		return nil, err
	}
	e := &Engine{core: &core{opts: o, log: o.Log, leaveTo: leaveTo,
		logLags: make(chan struct{}, 1), asked: make(chan struct{}, 1)}}
	e.root = e
	e.open, e.shut = context.WithCancel(context.Background())
	e.k = kernel.New(&kernel.DB{DB: db, Wake: func() { e.hub.Wake(watch.Commits()) }, Statement: o.Statement}, o.Log)
	e.k.Committed = e.committed
	e.k.Unclaimed = func(ctx context.Context) {
		e.queues.Forget()
		e.hub.Wake(watch.Work(pawl.CallerOf(ctx).Namespace))
	}
	e.db = e.k.DB
	e.openHub()
	e.rooms = newRooms(e.k, &e.opts, witnesses, e.hub)
	e.wire()
	e.feed = feed.New(db, feed.Options{Poll: o.PollInterval, Hub: e.hub, Counted: e.counted, Entered: e.forgetLost, Lags: e.logLags,
		Log: o.Log})
	e.k.Feed = e.feed
	e.openGroupCommitters()
	e.waits = taskwait.New(taskwait.Options{DB: e.db, Hub: e.hub, Poll: o.PollInterval, Log: o.Log})
	if err := e.start(ctx, archiveDir); err != nil {
		e.shut()
		db.Close()
		return nil, err
	}
	if err := cmp.Or(tasktypes.Of(e.taskTypes).NoteHooks(ctx), tasktypes.Of(e.taskTypes).Register(ctx, o.Types)); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// OpenDB opens the database at url and brings its schema up to date, for Options.DB.
func OpenDB(ctx context.Context, url string, o Options) (store.DB, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	db, err := openDB(ctx, url, o)
	if err != nil {
		return nil, err
	}
	if _, err := db.Dialect().Migrator.Up(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	db.Dialect().Guard()
	return db, nil
}

func openDB(ctx context.Context, url string, o Options) (store.DB, error) {
	if o.DB != nil {
		return o.DB, nil
	}
	scheme, _, _ := strings.Cut(url, ":")
	switch scheme {
	case "sqlite":
		path, prefix, _, err := sqlite.SplitURL(url)
		if err != nil {
			return nil, err
		}
		return sqlite.Open(ctx, path, sqlite.Options{Clock: o.Clock, Log: o.Log, Existing: o.Existing, KeepMode: o.KeepFileMode, Prefix: prefix})
	case "postgres", "postgresql":
		return postgres.Open(ctx, url, postgres.Options{Schema: o.Schema, MaxConns: o.MaxConns, ListenURL: o.ListenURL,
			Pool: o.Pool, Log: o.Log})
	}
	return nil, &pawl.Error{Code: pawl.CodeInvalid, Op: "open", Message: "a database URL begins with sqlite: or postgres://"}
}

// start migrates or verifies the schema, and reads the database's time and secret.
func (e *Engine) start(ctx context.Context, archiveDir string) error {
	if e.opts.Existing {
		if err := store.Exists(ctx, e.db.Dialect().Migrator); err != nil {
			return err
		}
	}
	if e.opts.DB != nil {
		// its schema is up to date
	} else if e.opts.Migrate == "off" {
		if err := store.Verify(ctx, e.db.Dialect().Migrator); err != nil {
			return err
		}
	} else if _, err := e.db.Dialect().Migrator.Up(ctx); err != nil {
		return err
	}
	e.db.Dialect().Guard()
	host, _ := os.Hostname()
	e.sweeper = &sweep.Sweeper{DB: e.db, Options: *e.opts.Sweep, NewID: e.k.IDs.Next, Server: host, Log: e.log,
		Given: e.opts.SweepSet, GivenAll: e.opts.SweepSet == nil, GivenOnce: e.opts.SweepOnce, GivenDir: archiveDir,
		OnReady: e.itemsQueued, OnChildren: e.k.Children.Counted, OnPass: e.swept, OnGates: func() { e.limits.forgetGates() },
		Objects: e.k.Blobs.Objects, Archive: archives.Of(e.archived),
		Steps:  ofRooms(func(r kernel.Room) []store.Step { return r.Steps }),
		Unused: ofRooms(func(r kernel.Room) []func() store.UnusedBlobs { return r.Unused })}
	archives.Of(e.archived).Tasks = e.sweeper
	err := e.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		e.k.IDs.Set(now, clock.Now())
		return err
	})
	e.tokens = &tokens{}
	if err == nil {
		err = e.readSecret(ctx)
	}
	if err == nil {
		e.k.Guard, err = e.openGuard(ctx)
	}
	if err == nil {
		err = e.k.Base.LookForMoves(ctx)
	}
	return err
}

// Close stops Run, waits for it and closes the engine's connections. Calls in flight fail
// as unavailable.
func (e *Engine) Close() error {
	e.shut()
	e.running.Lock() // waits until Run has returned
	defer e.running.Unlock()
	e.k.Guard.Close()
	for _, c := range e.k.Committers { // claim before leave: it releases what no caller takes
		c.Close()
	}
	e.feed.Close()
	e.k.Messages.Close()
	e.waits.Close()
	e.hub.Close()
	e.claimKeys.wait()
	return e.db.Close()
}

// Feed returns the event feed of all namespaces.
func (e *Engine) Feed() *feed.Feed { return e.feed }

// DB returns the store, for tests and measurements.
func (e *Engine) DB() store.DB { return e.db }

// Migrator returns the migrator, which runs and lists the schema's migrations.
func (e *Engine) Migrator() store.Migrator { return e.db.Dialect().Migrator }
