package postgres

import (
	"context"
	"embed"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-work/pawl/store"
)

// tries bounds how often a transaction that lost a deadlock runs again.
const tries = 10

var (
	writing = pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}
	reading = pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
)

// Do implements store.DB.
func (d *db) Do(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return d.again(ctx, func() error { return inside(ctx, d.cold, d.dialect.Rewrite, writing, fn) })
}

// Whole implements store.DB: on a hot connection, for its hot verbs.
func (d *db) Whole(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return d.again(ctx, func() error { return inside(ctx, d.hot, d.dialect.Rewrite, writing, fn) })
}

// View implements store.DB.
func (d *db) View(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return d.again(ctx, func() error { return inside(ctx, d.cold, d.dialect.Rewrite, reading, fn) })
}

// Auto implements store.DB. A statement that lost a deadlock has done nothing,
// so fn runs again, as it does in Do.
func (d *db) Auto(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return d.again(ctx, func() error {
		return d.hot.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
			return fn(ctx, &session{on: c, rewrite: d.dialect.Rewrite})
		})
	})
}

func inside(ctx context.Context, pool *pgxpool.Pool, rewrite func(string) string, o pgx.TxOptions, fn func(ctx context.Context, tx store.Tx) error) error {
	tx, err := pool.BeginTx(ctx, o)
	if err != nil {
		return err
	}
	defer func() {
		// After a commit this does nothing; a cancelled ctx must not cost the connection.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = tx.Rollback(ctx)
	}()
	if err := fn(ctx, &session{on: tx, rewrite: rewrite, one: true}); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// again runs a transaction until it has not lost to another one.
func (d *db) again(ctx context.Context, run func() error) error {
	for n := 1; ; n++ {
		err := run()
		var pg *pgconn.PgError
		lost := errors.As(err, &pg) && (pg.Code == deadlock || pg.Code == serialization)
		unsent := n == 1 && pgconn.SafeToRetry(err) // a pooled connection had died before
		if err == nil || n == tries || !lost && !unsent {
			return classify(err)
		}
		d.log.DebugContext(ctx, "transaction runs again", "try", n, "cause", err)
		if err := pause(ctx, time.Duration(rand.Int64N(int64(time.Millisecond)<<min(n, 6)))); err != nil {
			return classify(err)
		}
	}
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

// WrapTx makes a store.Tx of a caller's own transaction. Its commit is the
// caller's; an error leaves the transaction to be rolled back, as PostgreSQL
// wants it.
func WrapTx(tx pgx.Tx, schema string) store.Tx {
	return &session{on: tx, rewrite: rewriteFor(schema), one: true}
}

//go:embed fence.sql
var fenceFile embed.FS

// fence is what the hot verbs of a worker share: @held locks the leases that are
// the callers' own, and @begun leaves the first sign of life of those in x.
var fence = store.Texts(fenceFile, "fence.sql")

var rewrites sync.Map // of schema: each keeps the texts it has rewritten

func rewriteFor(schema string) func(string) string {
	if f, ok := rewrites.Load(schema); ok {
		return f.(func(string) string)
	}
	quoted := `"` + schema + `".`
	f, _ := rewrites.LoadOrStore(schema, store.Rewriter("(SELECT jsonb_array_elements_text(%s::jsonb))",
		"@held", strings.ReplaceAll(fence["held"], "pawl.", quoted), "@begun", strings.ReplaceAll(fence["begun"], "pawl.", quoted),
		"@each(", "jsonb_array_elements(", "pawl.", quoted, "@lock", "FOR UPDATE", "@skip", "FOR UPDATE SKIP LOCKED",
		"@among", "= ANY(ARRAY(SELECT jsonb_array_elements_text($1::jsonb)))", // IN would join to the whole of a view
		"@metadata", "json_each_text(t.metadata::json)",
		"@alone", "pg_try_advisory_xact_lock(hashtextextended(concat_ws(' ', '"+schema+"', CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS TEXT)), 0))"))
	return f.(func(string) string)
}

// Native is the pgx.Tx, nil on a connection without one.
func (s *session) Native() any {
	if tx, ok := s.on.(pgx.Tx); ok {
		return tx
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
	on      runner
	rewrite func(string) string
	one     bool // a transaction, with one now
	now     int64
}

// Exec implements store.Tx.
func (s *session) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	tag, err := s.on.Exec(ctx, s.rewrite(query), args...)
	return tag.RowsAffected(), classify(err)
}

// Query implements store.Tx.
func (s *session) Query(ctx context.Context, query string, args ...any) (store.Rows, error) {
	r, err := s.on.Query(ctx, s.rewrite(query), args...)
	if err != nil {
		return nil, classify(err)
	}
	return rows{r}, nil
}

// chunk bounds what ExecEach keeps in memory before it waits for the answers.
const chunk = 1000

// ExecEach implements store.Tx.
func (s *session) ExecEach(ctx context.Context, query string, all [][]any) error {
	text := s.rewrite(query)
	for len(all) > 0 {
		n := min(chunk, len(all))
		var b pgx.Batch
		for _, args := range all[:n] {
			b.Queue(text, args...)
		}
		if err := s.on.SendBatch(ctx, &b).Close(); err != nil {
			return classify(err)
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

type rows struct{ pgx.Rows }

// Scan implements store.Rows.
func (r rows) Scan(dest ...any) error { return classify(r.Rows.Scan(dest...)) }

// Err implements store.Rows.
func (r rows) Err() error { return classify(r.Rows.Err()) }
