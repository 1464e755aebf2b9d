package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// How long a statement may take, and how long it may wait for a lock. The URL's
// statement_timeout and lock_timeout, in milliseconds, replace these values. The client
// waits a quarter longer than the server. It gives up only when the server does not even
// end the statement.
const (
	hotLimit    = 8 * time.Second
	coldLimit   = 24 * time.Second
	hotLock     = time.Second // then a group of calls runs again without the call that waits
	coldLock    = 3 * time.Second
	dialLimit   = 5 * time.Second // to connect to each host of the URL
	pingAfter   = time.Second     // a connection that was last taken so long ago is checked before use
	pingLimit   = 3 * time.Second
	resetGap    = time.Second
	idleTxLimit = "60s"
)

// pool is what one kind of calls needs of the connections, which all kinds share.
type pool struct {
	*db
	name         string
	use, patient use           // of its slots
	failed       atomic.Int64  // when a call got no connection, in microseconds; 0 = the newest call got one
	waits        atomic.Int64  // the calls that waited for a connection
	limit        time.Duration // how long a statement may take, as this process waits for it
	lock         time.Duration // how long a statement waits for a lock
	settings     settings
}

// poolKind is the difference between kinds of calls.
type poolKind struct {
	name         string
	use, patient use
	limit, lock  time.Duration
	cold         bool
}

func (d *db) kind(k poolKind) *pool {
	return &pool{db: d, name: k.name, use: k.use, patient: k.patient, limit: k.limit * 5 / 4, lock: k.lock, settings: d.settingsOf(k)}
}

// newPool creates the connections of all kinds, which are opened on first use.
func (d *db) newPool(cfg *pgxpool.Config, most int32) (*pgxpool.Pool, error) {
	cfg = cfg.Copy()
	cfg.MaxConns, cfg.MinConns, cfg.MinIdleConns = most, 0, 0
	if cfg.MaxConnIdleTime == poolDefaultIdle { // a pooler in front may have fewer sessions than all servers together would keep
		cfg.MaxConnIdleTime, cfg.HealthCheckPeriod = idleTime, idleTime/6
	}
	cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		register(c.TypeMap())
		return d.begin(ctx, c)
	}
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false } // PrepareConn does it
	// There is no AfterRelease: with it, a connection is free a little after its release, and the next call opens another one,
	// which plans all statements again.
	cfg.PrepareConn = d.usable
	return pgxpool.NewWithConfig(context.Background(), cfg)
}

// exhaustedFor is how long a pool counts as exhausted after a call that got no connection.
const exhaustedFor = 10 * time.Second

// promptly is a wait for a connection that does not shorten the time of the statement.
const promptly = 100 * time.Millisecond

// freeWait is how long a call waits for a connection of the program's pool if those who have them may wait for it.
const freeWait = 50 * time.Millisecond

// idleTime is how long a connection stays open without use; poolDefaultIdle is the driver's default.
const idleTime, poolDefaultIdle = time.Minute, 30 * time.Minute

var (
	errFrozen = errors.New("the server does not answer")
	errNoConn = errors.New("no connection in time")
)

// exhausted is the error of a call that got no connection. It tells a busy process from a server
// or a pooler that gives this process no more connections.
func (p *pool) exhausted() *pawl.Error {
	p.failed.Store(clock.Now().UnixMicro())
	s := p.conns.Stat()
	n, most := s.AcquiredConns()+s.IdleConns(), s.MaxConns()
	e := &pawl.Error{Code: pawl.CodeUnavailable, Err: store.ErrDown,
		Message: fmt.Sprintf("all %d connections for %s are in use, and none became free in time", p.slots.most(p.use), p.name)}
	if n < most && s.ConstructingConns() > 0 {
		e.Message = fmt.Sprintf("the database, or a pooler in front of it, gave no connection for %s in time: this process has %d of %d; "+
			"allow more sessions there, or fewer here with max_conns in the URL", p.name, n, most)
	}
	return e
}

// bound returns ctx with a time limit for one statement. If the server does not answer
// within the limit, it is frozen or unreachable, and so are all its connections.
func (p *pool) bound(ctx context.Context, limit time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errFrozen)
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), errFrozen) {
			p.frozen()
		}
	})
	return ctx, func() { stop(); cancel() }
}

// acquire takes a connection from the pool; free releases it. A patient caller may wait
// long for a lock. The wait for a connection is part of the time of the statement after it: left is
// what remains of the limit, at least a quarter.
func (p *pool) acquire(ctx context.Context, patient bool) (c *pgxpool.Conn, left time.Duration, free func(), err error) {
	began := clock.Now()
	within, cancel := context.WithTimeoutCause(ctx, p.limit*3/4, errNoConn)
	defer cancel()
	u := p.use
	if patient {
		u = p.patient
	}
	var waited bool
	take := p.conns.Acquire
	if !store.IsIfFree(ctx) {
		waited, err = p.slots.take(within, u)
	} else if take = p.takeFree; !p.slots.try(u) {
		err = store.ErrNoneFree
	}
	if waited {
		p.waits.Add(1)
	}
	if err == nil {
		if c, err = take(within); err == nil && p.mode == borrowed {
			if err = p.admit(within, c.Conn()); err != nil {
				c.Release()
			}
		}
		if err != nil {
			p.slots.give(u)
		}
	}
	if err != nil {
		if errors.Is(context.Cause(within), errNoConn) {
			err = p.exhausted()
		}
		return nil, 0, nil, err
	}
	p.failed.Store(0)
	left = p.limit
	if waited := clock.Now().Sub(began); waited > promptly {
		left = max(p.limit-waited, p.limit/4)
	}
	return c, left, func() { c.Release(); p.slots.give(u) }, nil
}

// takeFree takes a connection for a call with a slot that must not wait for other transactions. Those of a program
// that lends its pool have no slots: a short wait tells that they have all connections.
func (p *pool) takeFree(ctx context.Context) (*pgxpool.Conn, error) {
	if p.mode != borrowed {
		return p.conns.Acquire(ctx)
	}
	within, cancel := context.WithTimeoutCause(ctx, freeWait, store.ErrNoneFree)
	defer cancel()
	c, err := p.conns.Acquire(within)
	if err != nil && errors.Is(context.Cause(within), store.ErrNoneFree) {
		err = store.ErrNoneFree
	}
	return c, err
}

// alone returns a connection whose statements commit by themselves. free gives it back.
func (p *pool) alone(ctx context.Context) (s *session, free func(), err error) {
	c, left, free, err := p.acquire(ctx, false)
	return &session{on: c, rewrite: p.dialect.Rewrite, pool: p, limit: left, dictionary: &p.dictionary}, free, err
}

// single runs fn on a connection whose statements commit by themselves.
func (p *pool) single(ctx context.Context, fn func(s *session) error) error {
	s, free, err := p.alone(ctx)
	if err != nil {
		return err
	}
	defer free()
	return fn(s)
}

// do runs fn in a transaction. patient says that it may wait long for a lock.
func (p *pool) do(ctx context.Context, names *newNames, kind txKind, patient bool, fn func(ctx context.Context, tx store.Tx) error) error {
	c, left, free, err := p.acquire(ctx, patient)
	if err != nil {
		return err
	}
	defer free()
	s := &session{on: c, rewrite: p.dialect.Rewrite, one: true, view: kind == reading, pool: p, limit: left, dictionary: &p.dictionary,
		asked: names}
	if store.IsOnce(ctx) {
		s.asked = nil
	}
	s.begins = s.follow(ctx, kind)
	defer func() {
		// After a commit this does nothing. A cancelled ctx must not lose the connection.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = s.end(ctx, pgx.Tx.Rollback)
	}()
	if err = fn(ctx, s); s.failed != nil {
		return s.failed // the statements tell only that there is no transaction
	}
	if names.any() { // also when fn went on without them
		return errNewNames
	}
	if err != nil {
		return err
	}
	commit, end := p.bound(ctx, s.limit)
	defer end()
	return s.end(commit, pgx.Tx.Commit)
}

// follow applies the hints of ctx to a transaction, and returns how it begins.
func (s *session) follow(ctx context.Context, kind txKind) *pgx.Batch {
	limit, longer := store.LimitOf(ctx), time.Duration(0)
	if limit > s.limit {
		longer = limit
		limit = limit * 5 / 4
	}
	if limit > 0 {
		s.limit = limit
	}
	b := &pgx.Batch{}
	b.BeginTx(isolations[kind])
	if set := s.pool.settings.begin[kind]; set != "" {
		b.Queue(set)
	}
	for _, q := range own(longer, store.LockWaitOf(ctx)) {
		b.Queue(q.text, q.args...)
	}
	return b
}

// frozen closes every connection on which the server has been silent. A call that waits
// there would wait for its whole limit, although another server may answer already.
func (d *db) frozen() {
	if d.reset() {
		d.log.Warn("the database does not answer; its connections are closed")
	}
	d.wires.closeSilent(d.hot.limit / 2)
}

// reset closes every idle connection, and those in use when they are released. It does
// nothing if it did so within resetGap.
func (d *db) reset() bool {
	d.resetting.Lock()
	defer d.resetting.Unlock()
	now := clock.Now()
	if now.Sub(d.lastReset) < resetGap {
		return false
	}
	d.lastReset = now
	if d.mode != borrowed {
		d.conns.Reset()
	}
	return true
}

func (d *db) pools() []*pool { return []*pool{d.hot, d.cold, d.heartbeats, d.background, d.due} }

// poolStates has the connections of each kind, and before them those of the process. An idle
// connection is of no kind.
func (d *db) poolStates() []pawl.Pool {
	all := d.conns.Stat()
	out := []pawl.Pool{{Name: "all", Max: int(all.MaxConns()), InUse: int(all.AcquiredConns()), Idle: int(all.IdleConns()),
		Waits: all.EmptyAcquireCount()}}
	for _, p := range d.pools() {
		state := pawl.Pool{Name: p.name, Max: p.slots.most(p.use), InUse: p.slots.inUse(p.use, p.patient), Waits: p.waits.Load()}
		if at := p.failed.Load(); at > clock.Now().Add(-exhaustedFor).UnixMicro() {
			state.Exhausted = fmt.Sprintf("a call got no connection for %s in time", p.name)
		}
		out[0].Waits += state.Waits
		out = append(out, state)
	}
	return out
}

// hotPool returns the pool in which a context's hot verbs run.
func (d *db) hotPool(ctx context.Context) *pool {
	switch store.PurposeOf(ctx) {
	case store.Heartbeats:
		return d.heartbeats
	case store.Background:
		return d.due
	}
	return d.hot
}

// coldPool returns the pool in which a context's other transactions run.
func (d *db) coldPool(ctx context.Context) *pool {
	switch store.PurposeOf(ctx) {
	case store.Heartbeats:
		return d.heartbeats
	case store.Background:
		return d.background
	}
	return d.cold
}
