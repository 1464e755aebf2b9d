package postgres

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/postgres/hot"
)

// capabilities describes what PostgreSQL can do: many concurrent writers, a round trip for
// each call, and notices between processes.
func (d *db) capabilities(t target) store.Dialect {
	schema := t.schema
	return store.Dialect{
		Name: "postgres", Hot: hot.Verbs{}, Timed: hot.Verbs{}, Rewrite: rewriteFor(schema), Migrator: d.migrator(schema),
		ParallelWrites: true, RoundTrips: true, Notices: true, Listens: d.listens, Commits: d.commits(),
		Changed:  func(context.Context) (int64, error) { return 0, nil },
		Look:     d.look,
		Notify:   d.notifier(schema),
		Listen:   d.listener(t.listen, schema),
		Warnings: func(ctx context.Context) ([]store.Warning, error) { return d.warnings(ctx, schema) },
		Guard:    func() { d.guarded.Store(true) },
		OnCommit: func(func(int)) {},
		Forget:   d.dictionary.names.Forget,
		Pools:    d.poolStates,
		Lent:     d.mode == borrowed,
		Place:    placeOf(t.config.ConnConfig),
		Fences:   &fences,
		Shrink:   func(context.Context, store.Tx) (bool, error) { return false, nil }, // autovacuum does it
		Compact:  func(ctx context.Context) (int64, error) { return d.compact(ctx, schema) },
		Snapshot: func(ctx context.Context, tx store.Tx) (of bool, err error) {
			_, err = store.Row(ctx, tx, []any{&of}, "SELECT current_setting('transaction_isolation') <> 'read committed'")
			return of, err
		},
		Wrap: func(tx any) store.Tx {
			switch t := tx.(type) {
			case pgx.Tx:
				return &session{on: t, rewrite: rewriteFor(schema), one: true, dictionary: &d.dictionary}
			case *sql.Tx:
				return &sqlSession{tx: t, rewrite: rewriteFor(schema), dictionary: &d.dictionary}
			}
			return nil
		},
	}
}
