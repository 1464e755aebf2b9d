package postgres

import (
	"context"
	"embed"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-work/pawl/store"
)

// tries bounds how often a transaction runs in all when it loses deadlocks.
const tries = 10

// Do implements store.DB.
func (d *db) Do(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return d.again(ctx, func(names *newNames) error { return d.coldPool(ctx).do(ctx, names, changing, true, fn) })
}

// Whole implements store.DB. It is hot, for its hot verbs. Because it has
// other statements too, it waits for locks as long as cold transactions do.
func (d *db) Whole(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	if store.LockWaitOf(ctx) == 0 {
		ctx = store.WithLockWait(ctx, d.cold.lock)
	}
	return d.again(ctx, func(names *newNames) error { return d.hotPool(ctx).do(ctx, names, writing, true, fn) })
}

// View implements store.DB.
func (d *db) View(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return d.again(ctx, func(names *newNames) error { return d.coldPool(ctx).do(ctx, names, reading, false, fn) })
}

// read is View for statements of this package, which know the driver.
func (p *pool) read(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return p.do(ctx, &newNames{}, reading, false, func(ctx context.Context, tx store.Tx) error {
		s := tx.(*session)
		on := s.tx(ctx)
		if s.failed != nil {
			return s.failed
		}
		return fn(ctx, on)
	})
}

// Auto implements store.DB. A statement that lost a deadlock has done nothing, so fn runs
// again, as in Do.
func (d *db) Auto(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	for r := (rerun{}); ; {
		if d.ended(ctx, &r, d.auto(ctx, &r.names, fn)) {
			return r.err
		}
	}
}

// look runs reads that commit by themselves. They wait for no lock, so that hints about waits have no effect.
func (d *db) look(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return d.again(ctx, func(names *newNames) error {
		p := d.hotPool(ctx)
		if store.LimitOf(ctx) > p.limit {
			return p.do(ctx, names, reading, false, fn)
		}
		return p.single(ctx, func(s *session) error { return fn(ctx, s) })
	})
}

// auto is one try of Auto.
func (d *db) auto(ctx context.Context, names *newNames, fn func(ctx context.Context, tx store.Tx) error) error {
	p := d.hotPool(ctx)
	if wait := store.LockWaitOf(ctx); wait > 0 || store.LimitOf(ctx) > p.limit { // only a transaction can have its own settings
		return p.do(ctx, names, writing, wait > p.lock, fn)
	}
	s, free, err := p.alone(ctx)
	if err != nil {
		return err
	}
	defer free()
	return fn(ctx, s)
}

// again runs a transaction until it has ended.
func (d *db) again(ctx context.Context, run func(names *newNames) error) error {
	for r := (rerun{}); ; {
		if d.ended(ctx, &r, run(&r.names)) {
			return r.err
		}
	}
}

// rerun is a transaction that may run several times.
type rerun struct {
	lost  int // how often it has lost
	names newNames
	err   error // why it ended
}

// ended reports whether a transaction has ended with err. Otherwise it runs again: it lost to other transactions, less than
// tries times, or the names that it needs have been inserted. Then it has written nothing.
func (d *db) ended(ctx context.Context, r *rerun, err error) bool {
	if r.names.any() {
		if err = d.makeNames(ctx, &r.names); err == nil {
			return false
		}
	}
	r.lost++
	again, err := d.runsAgain(ctx, r.lost, &r.names, err)
	r.err = err
	return !again
}

// runsAgain reports whether a transaction runs again after try n, which returned err, and
// waits before that. Otherwise it returns the error, classified.
func (d *db) runsAgain(ctx context.Context, n int, names *newNames, err error) (bool, error) {
	if err == nil {
		return false, nil
	}
	var pg *pgconn.PgError
	lost := errors.As(err, &pg) && (pg.Code == deadlock || pg.Code == serialization)
	if unknownName(err) {
		lost = true
		d.dictionary.names.Forget()
		*names = newNames{}
	}
	if pg != nil && inRecovery(pg) { // the primary is another server now
		d.reset()
	}
	unsent := pgconn.SafeToRetry(err) // the pooled connection was broken before the first statement, as others may be
	if n == tries || !lost && !unsent {
		return false, classify(err)
	}
	d.log.DebugContext(ctx, "transaction runs again", "try", n, "cause", err)
	if err := pause(ctx, time.Duration(rand.Int64N(int64(time.Millisecond)<<min(n, 6)))); err != nil {
		return false, classify(err)
	}
	return true, nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// WrapTx returns a store.Tx of a caller's own transaction. The caller commits it. After an
// error the caller must roll back, as PostgreSQL requires.
func WrapTx(tx pgx.Tx, schema string) store.Tx {
	return &session{on: tx, rewrite: rewriteFor(schema), one: true}
}

//go:embed fence.sql
var fenceFile embed.FS

// fence has the texts that the hot verbs of a worker share: see fence.sql.
var fence = store.Texts(fenceFile, "fence.sql")

// marks are what marks with an argument become. With IN, the planner would join the list of
// @among to a whole view.
var marks = map[string]string{
	"@list(":      "(SELECT jsonb_array_elements_text(%s::jsonb))",
	"@among(":     "= ANY(ARRAY(SELECT jsonb_array_elements_text(%s::jsonb)))",
	"@ids(":       "(SELECT CAST(jsonb_array_elements_text(%s::jsonb) AS uuid))",
	"@among_ids(": "= ANY(ARRAY(SELECT CAST(jsonb_array_elements_text(%s::jsonb) AS uuid)))",
	"@id(":        "CAST(%s AS uuid)",
	"@lower(":     `lower(%s COLLATE "C")`, // of ASCII letters, as SQLite does
	"@task_text(": "pawl.task_id(%s)",
	"@item_text(": "pawl.item_id(%s)",
	"@least(":     "CAST(MIN(CAST(%s AS text)) AS uuid)", // MIN takes no uuid before PostgreSQL 18
}

var rewrites sync.Map // by schema; each keeps the texts that it has rewritten

func rewriteFor(schema string) func(string) string {
	if f, ok := rewrites.Load(schema); ok {
		return f.(func(string) string)
	}
	quoted := `"` + schema + `".`
	shared := func(name string) string {
		return strings.ReplaceAll(store.ExpandNames(store.ExpandStates(fence[name])), "pawl.", quoted)
	}
	f, _ := rewrites.LoadOrStore(schema, store.Rewriter(marks,
		"@known_types", shared("known_types"), "@known_type", shared("known_type"),
		"@held", shared("held"), "@begun", shared("begun"), "@counted", shared("counted"), "@settling", shared("settling"),
		"@among_rows", "= ANY(ARRAY(", "@end_rows", "))", // with IN, the planner may walk over the whole task
		// The rows of ready that a query finds by their keys, w, are locked: then they keep their places.
		"@ready_rows", "ctid = ANY(ARRAY(", "@ready_row", "(SELECT r.ctid FROM "+quoted+
			"ready r WHERE r.queue_id = w.queue_id AND r.rank = w.rank AND r.item_id = w.id FOR UPDATE)",
		"@hex(", "encode(", "@)", ", 'hex')",
		"@each(", "jsonb_array_elements(", "@object(", "json_build_object(", "@array(", "json_build_array(", "@group(", "json_agg(",
		"pawl.", quoted, "@uuid", "uuid", "@lock", "FOR UPDATE", "@exclusive", "FOR NO KEY UPDATE",
		"@shared", "FOR SHARE", "@kept", "FOR KEY SHARE",
		"@skip", "FOR UPDATE SKIP LOCKED", "@transaction", "pg_current_xact_id()::text::bigint", "@unlocked", "SKIP LOCKED",
		"@metadata", "json_each_text(t.metadata::json)", "@checkpoint_metadata", "json_each_text(c.metadata::json)",
		"@alone", "pg_try_advisory_xact_lock(hashtextextended(concat_ws(' ', '"+schema+"', CAST($1 AS TEXT), CAST($2 AS TEXT), "+
			"CAST($3 AS TEXT)), 0))",
		// 1024 locks at most: the server has room for some thousands.
		"@apart", "pg_try_advisory_xact_lock(hashtext('"+schema+" blob'), get_byte($2, 0) * 4 + get_byte($2, 1) % 4)"))
	return f.(func(string) string)
}

// Native returns the pgx.Tx, or nil for a connection without a transaction.
func (s *session) Native() any {
	if tx := s.tx(context.Background()); tx != nil {
		return tx
	}
	return nil
}

// tx returns the transaction, which begins now if it has not: if that fails, its statements do. nil = there is none.
func (s *session) tx(ctx context.Context) pgx.Tx {
	if s.begins != nil {
		ctx, end := s.bound(ctx)
		defer end()
		var all pgx.BatchResults
		if all, s.failed = s.send(ctx, s.begins, s.begins.Len()); s.failed == nil {
			s.failed = all.Close()
		}
	}
	tx, _ := s.on.(pgx.Tx)
	return tx
}

// end ends the transaction, if a statement has begun it.
func (s *session) end(ctx context.Context, how func(pgx.Tx, context.Context) error) error {
	if tx, ok := s.on.(pgx.Tx); ok {
		return how(tx, ctx)
	}
	return nil
}

// runner is a transaction or a connection.
type runner interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// session implements store.Tx.
type session struct {
	on          runner
	begins      *pgx.Batch // the beginning of a transaction, which is sent with its first statement; nil = it has begun
	failed      error      // of a beginning that was sent without a statement
	rewrite     func(string) string
	one         bool // a transaction, which has only one time
	view        bool // its transaction only reads
	now         int64
	pool        *pool // nil = a caller's transaction, which has its own limits
	limit       time.Duration
	*dictionary           // nil = the transaction itself inserts names
	inserted    bool      // the transaction itself has inserted names, which may be rolled back
	asked       *newNames // of a transaction that runs again; nil = names are inserted at once
}

// bound returns ctx with the time limit of one statement. A limit that a wait for the connection
// has shortened says nothing about other connections.
func (s *session) bound(ctx context.Context) (context.Context, func()) {
	switch {
	case s.pool == nil:
		return ctx, func() {}
	case s.limit < s.pool.limit:
		return context.WithTimeout(ctx, s.limit)
	}
	return s.pool.bound(ctx, s.limit)
}

// Exec implements store.Tx.
func (s *session) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	ctx, end := s.bound(ctx)
	defer end()
	b, before := s.first()
	if before == 0 {
		tag, err := s.on.Exec(ctx, s.rewrite(query), args...)
		return tag.RowsAffected(), s.classified(err)
	}
	b.Queue(s.rewrite(query), args...)
	all, err := s.send(ctx, b, before)
	if err != nil {
		return 0, s.classified(err)
	}
	tag, err := all.Exec()
	if closed := all.Close(); err == nil {
		err = closed
	}
	return tag.RowsAffected(), s.classified(err)
}

// Query implements store.Tx. In a view, a query whose rows are found by keys is planned as in a cold change, and with one
// plan for all keys: to plan a query of the views takes longer than to run it.
func (s *session) Query(ctx context.Context, query string, args ...any) (store.Rows, error) {
	b, before := s.first()
	byKeys := s.view && store.IsByKeys(ctx)
	if byKeys {
		b.Queue(byKeysOn)
		before++
	}
	ctx, end := s.bound(ctx)
	if before == 0 {
		r, err := s.on.Query(ctx, s.rewrite(query), args...)
		if err != nil {
			end()
			return nil, s.classified(err)
		}
		return rows{r, end, s.dictionary}, nil
	}
	b.Queue(s.rewrite(query), args...)
	if byKeys {
		b.Queue(byKeysOff)
	}
	all, err := s.send(ctx, b, before)
	if err != nil {
		end()
		return nil, s.classified(err)
	}
	closed := func() {
		_ = all.Close() // the rows have an error of the query too
		end()
	}
	r, err := all.Query()
	if err != nil {
		closed()
		return nil, s.classified(err)
	}
	return rows{r, closed, s.dictionary}, nil
}

// first returns a batch with what is sent before the next statement, and how many statements that is: the beginning of a
// transaction, or the settings of a statement outside of one where its connection does not keep them.
func (s *session) first() (b *pgx.Batch, before int) {
	if b = s.begins; b == nil {
		b = &pgx.Batch{}
		if !s.one && s.pool != nil && s.pool.settings.before != "" {
			b.Queue(s.pool.settings.before)
		}
	}
	return b, b.Len()
}

// send sends a batch, and reads the answers to what is before the caller's statements.
func (s *session) send(ctx context.Context, b *pgx.Batch, before int) (pgx.BatchResults, error) {
	all := s.on.SendBatch(ctx, b)
	if s.begins != nil {
		s.on, s.begins = all.Tx(), nil // its statements fail if it does not begin
	}
	for range before {
		if _, err := all.Exec(); err != nil {
			_ = all.Close()
			return nil, err
		}
	}
	return all, nil
}

// chunk bounds the statements that ExecEach sends before it waits for the answers.
const chunk = 1000

// ExecEach implements store.Tx.
func (s *session) ExecEach(ctx context.Context, query string, all [][]any) error {
	text := s.rewrite(query)
	for len(all) > 0 {
		n := min(chunk, len(all))
		b, before := s.first()
		for rest := all[:n]; len(rest) > 0; {
			wide, rows := widened(text, len(rest))
			b.Queue(wide, slices.Concat(rest[:rows]...)...)
			rest = rest[rows:]
		}
		within, end := s.bound(ctx)
		results, err := s.send(within, b, before)
		if err == nil {
			err = results.Close()
		}
		end()
		if err != nil {
			return s.classified(err)
		}
		all = all[n:]
	}
	return nil
}

// Now implements store.Tx.
func (s *session) Now(ctx context.Context) (int64, error) {
	if s.now != 0 && s.one {
		return s.now, nil
	}
	_, err := store.Row(ctx, s, []any{&s.now}, "SELECT pawl.now()")
	return s.now, err
}

// ForgetNow makes Now read the clock again; see store.NowAgain.
func (s *session) ForgetNow() { s.now = 0 }

// rows end the time limit of their statement when they are closed.
type rows struct {
	pgx.Rows
	end func()
	of  *dictionary
}

// Next implements store.Rows. After the last row, the connection is free for the next statement.
func (r rows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

// Close implements store.Rows.
func (r rows) Close() {
	r.Rows.Close()
	r.end()
}

// Scan implements store.Rows.
func (r rows) Scan(dest ...any) error { return r.of.classified(r.Rows.Scan(dest...)) }

// Err implements store.Rows.
func (r rows) Err() error { return r.of.classified(r.Rows.Err()) }
