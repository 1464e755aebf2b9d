package postgres

import (
	"context"
	"embed"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-work/pawl/store"
)

//go:embed names.sql
var namesFile embed.FS

// namesSQL are the statements that insert rows of the dictionaries.
var namesSQL = store.Texts(namesFile, "names.sql")

// dictionary implements store.Dictionary for the transactions of a database. Names are
// inserted on a connection of their own: each transaction finds the row at once, and no
// transaction holds a name until its end while others wait for it.
type dictionary struct {
	db    *db
	names store.Names
}

// Known implements store.Dictionary. A nil dictionary knows nothing.
func (d *dictionary) Known() *store.Names {
	if d == nil {
		return nil
	}
	return &d.names
}

// MakeActors implements store.Dictionary.
func (d *dictionary) MakeActors(ctx context.Context, names []store.ActorName) (bool, error) {
	if d == nil {
		return false, nil
	}
	kinds, texts := make([]string, len(names)), make([]string, len(names))
	for i, n := range names {
		kinds[i], texts[i] = n.Kind, n.Name
	}
	if err := d.add(ctx, namesSQL["actors"], kinds, texts); err != nil {
		return true, err
	}
	for _, n := range names {
		d.names.Learn(n, store.NoNumber)
	}
	return true, nil
}

// MakeQueues implements store.Dictionary.
func (d *dictionary) MakeQueues(ctx context.Context, names []store.QueueName) (bool, error) {
	if d == nil {
		return false, nil
	}
	namespaces, types := make([]string, len(names)), make([]string, len(names))
	for i, n := range names {
		namespaces[i], types[i] = n.Namespace, n.Type
	}
	if err := d.add(ctx, namesSQL["queues"], namespaces, types); err != nil {
		return true, err
	}
	for _, n := range names {
		d.names.LearnQueue(n, store.NoNumber)
	}
	return true, nil
}

// add inserts rows of a dictionary, in a transaction of its own.
func (d *dictionary) add(ctx context.Context, query string, first, second []string) error {
	p := d.db.names
	c, left, free, err := p.acquire(ctx, false)
	if err != nil {
		return classify(err)
	}
	defer free()
	s := &session{on: c, rewrite: d.db.dialect.Rewrite, pool: p, limit: left}
	_, err = s.Exec(ctx, query, first, second)
	return err
}

// classified is classify. When a statement did not find the row of a name, it also forgets
// what is remembered: a caller's own transaction is not run again by this package.
func (d *dictionary) classified(err error) error {
	if d != nil && err != nil && unknownName(err) {
		d.names.Forget()
	}
	return classify(err)
}

// unknownName says that a statement did not find the row of a name: the database went back
// to a time before the name had one, or the caller's transaction has an older snapshot.
func unknownName(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == notNull && (pg.ColumnName == "actor" || pg.ColumnName == "worker" || pg.ColumnName == "queue_id")
}
