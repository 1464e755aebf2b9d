package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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
	pingAfter   = time.Second     // a connection that was idle for this time is checked before use
	pingLimit   = 3 * time.Second
	resetGap    = time.Second
	idleTxLimit = "60s"
)

// The planner must not choose the plans of the hot statements. It estimates their arrays
// at ten elements, and a plan made while a table was empty is quadratic later. The hot
// statements check a row again after they lock it, which relies on read committed.
const (
	everySession = `SET default_transaction_isolation = 'read committed'; SET jit = off; SET idle_in_transaction_session_timeout = '` +
		idleTxLimit + `'`
	hotSession = everySession + `; SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off`
	// A cold change finds its rows by their keys too: a plan from when a table was empty would
	// read the whole table for each row. Lists use the planner's own choice on the same
	// connections.
	beginColdChange = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off`
)

// The settings of a query of a view that finds its rows by keys, and of the others.
var (
	byKeysOn  = setLocally("force_generic_plan", "off")
	byKeysOff = setLocally("auto", "on")
)

func setLocally(plans, others string) string {
	text := "SELECT set_config('plan_cache_mode', '" + plans + "', true)"
	for _, way := range []string{"seqscan", "bitmapscan", "hashjoin", "mergejoin"} {
		text += ", set_config('enable_" + way + "', '" + others + "', true)"
	}
	return text
}

// pool has connections of one kind.
type pool struct {
	*pgxpool.Pool
	name   string
	failed atomic.Int64  // when a call got no connection, in microseconds; 0 = the newest call got one
	frozen func()        // called when the server does not answer
	limit  time.Duration // the limit of a statement
	lock   time.Duration // how long a statement waits for a lock
	*dictionary
	slots chan struct{} // bounds the calls that may wait long for a lock, so that they leave connections to others
}

// poolKind is the difference between pools.
type poolKind struct {
	name        string
	conns       int32
	session     string
	limit, lock time.Duration
}

func (d *db) pool(cfg *pgxpool.Config, k poolKind) (*pool, error) {
	cfg = cfg.Copy()
	cfg.MaxConns, cfg.MinConns, cfg.MinIdleConns = k.conns, 0, 0
	if cfg.MaxConnIdleTime == poolDefaultIdle { // a pooler in front may have fewer sessions than all servers together would keep
		cfg.MaxConnIdleTime, cfg.HealthCheckPeriod = idleTime, idleTime/6
	}
	p := &pool{name: k.name, dictionary: &d.dictionary, frozen: d.frozen,
		limit: k.limit * 5 / 4, lock: k.lock, slots: make(chan struct{}, max(1, k.conns-max(1, k.conns/3)))}
	session := fmt.Sprintf("%s; SET statement_timeout = %d; SET lock_timeout = %d", k.session, k.limit.Milliseconds(), k.lock.Milliseconds())
	cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		register(c.TypeMap())
		return d.begin(ctx, c, session)
	}
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false } // PrepareConn does it
	cfg.AfterRelease = func(c *pgx.Conn) bool {
		c.PgConn().CustomData()[releasedAt] = clock.Now()
		return true
	}
	cfg.PrepareConn = p.usable
	var err error
	p.Pool, err = pgxpool.NewWithConfig(context.Background(), cfg)
	return p, err
}

// exhaustedFor is how long a pool counts as exhausted after a call that got no connection.
const exhaustedFor = 10 * time.Second

// promptly is a wait for a connection that does not shorten the time of the statement.
const promptly = 100 * time.Millisecond

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
	s := p.Stat()
	n, most := s.AcquiredConns()+s.IdleConns(), s.MaxConns()
	e := &pawl.Error{Code: pawl.CodeUnavailable, Err: store.ErrDown,
		Message: fmt.Sprintf("all %d connections for %s are in use, and none became free in time", most, p.name)}
	if n < most && s.ConstructingConns() > 0 {
		e.Message = fmt.Sprintf("the database, or a pooler in front of it, gave no connection for %s in time: this process has %d of %d of "+
			"that kind; allow more sessions there", p.name, n, most)
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
	leave := func() {}
	if patient {
		select {
		case p.slots <- struct{}{}:
			leave = func() { <-p.slots }
		case <-within.Done():
			if err = context.Cause(within); errors.Is(err, errNoConn) {
				err = p.exhausted()
			}
			return nil, 0, nil, err
		}
	}
	if c, err = p.Acquire(within); err != nil {
		leave()
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
	return c, left, func() { c.Release(); leave() }, nil
}

// do runs fn in a transaction. patient says that it may wait long for a lock.
func (p *pool) do(ctx context.Context, rewrite func(string) string, o pgx.TxOptions, patient bool,
	fn func(ctx context.Context, tx store.Tx) error) error {
	c, left, free, err := p.acquire(ctx, patient)
	if err != nil {
		return err
	}
	defer free()
	s := &session{rewrite: rewrite, one: true, view: o.AccessMode == pgx.ReadOnly, pool: p, limit: left, dictionary: p.dictionary}
	begin, end := p.bound(ctx, s.limit)
	tx, err := c.BeginTx(begin, o)
	end()
	if err != nil {
		return err
	}
	defer func() {
		// After a commit this does nothing. A cancelled ctx must not lose the connection.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = tx.Rollback(ctx)
	}()
	s.on = tx
	if err := s.follow(ctx); err != nil {
		return err
	}
	if err := fn(ctx, s); err != nil {
		return err
	}
	commit, end := p.bound(ctx, s.limit)
	defer end()
	return tx.Commit(commit)
}

// follow applies the hints of ctx to a transaction.
func (s *session) follow(ctx context.Context) error {
	if wait := store.LockWaitOf(ctx); wait > 0 {
		if _, err := s.Exec(ctx, "SELECT set_config('lock_timeout', $1, true)", strconv.FormatInt(wait.Milliseconds(), 10)); err != nil {
			return err
		}
	}
	limit := store.LimitOf(ctx)
	if limit > s.limit {
		if _, err := s.Exec(ctx, "SELECT set_config('statement_timeout', $1, true)", strconv.FormatInt(limit.Milliseconds(), 10)); err != nil {
			return err
		}
		limit = limit * 5 / 4
	}
	if limit > 0 {
		s.limit = limit
	}
	return nil
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
	for _, p := range d.pools() {
		p.Reset()
	}
	return true
}

func (d *db) pools() []*pool { return []*pool{d.hot, d.cold, d.heartbeats, d.background, d.names} }

func (d *db) poolStates() []pawl.Pool {
	out := []pawl.Pool{}
	for _, p := range d.pools() {
		s := p.Stat()
		state := pawl.Pool{Name: p.name, Max: int(s.MaxConns()), InUse: int(s.AcquiredConns()), Idle: int(s.IdleConns()),
			Waits: s.EmptyAcquireCount()}
		if at := p.failed.Load(); at > clock.Now().Add(-exhaustedFor).UnixMicro() {
			state.Exhausted = fmt.Sprintf("a call got no connection for %s in time", p.name)
		}
		out = append(out, state)
	}
	return out
}

// hotPool returns the pool in which a context's hot verbs run.
func (d *db) hotPool(ctx context.Context) *pool {
	if store.PurposeOf(ctx) == store.Calls {
		return d.hot
	}
	return d.heartbeats
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
