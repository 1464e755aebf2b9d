package postgres

import (
	"context"
	"embed"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

//go:embed names.sql
var namesFile embed.FS

// namesSQL are the statements that insert rows of the dictionaries.
var namesSQL = store.Texts(namesFile, "names.sql")

// dictionary remembers the names that have rows, for all transactions of a database. A name is
// inserted before the transaction that needs it, or by itself: each transaction finds the row at
// once, and no transaction holds a name until its end while others wait for it.
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

// newNames are the names that a transaction needs and that may have no row yet. It ends, they are
// inserted, and it runs again: with two connections, two transactions that each need another
// connection would wait for each other.
type newNames struct {
	actors []store.ActorName
	queues []store.QueueName
	made   map[any]bool
}

// errNewNames ends a transaction that needs names.
var errNewNames = &pawl.Error{Code: pawl.CodeUnavailable, Message: "names are inserted first"}

func (n *newNames) any() bool { return n != nil && len(n.actors)+len(n.queues) > 0 }

// missing returns those of some names that were not inserted for this transaction.
func missing[T comparable](n *newNames, names []T) (out []T) {
	for _, name := range names {
		if !n.made[name] {
			out = append(out, name)
		}
	}
	return out
}

// makeNames inserts what a transaction has asked for.
func (d *db) makeNames(ctx context.Context, n *newNames) error {
	err := d.coldPool(ctx).do(ctx, nil, changing, true, func(ctx context.Context, tx store.Tx) error {
		return d.dictionary.insert(ctx, tx, n.actors, n.queues)
	})
	if err == nil {
		if n.made == nil {
			n.made = map[any]bool{}
		}
		for _, a := range n.actors {
			n.made[a] = true
		}
		for _, q := range n.queues {
			n.made[q] = true
		}
		d.dictionary.learn(n.actors, n.queues)
	}
	n.actors, n.queues = nil, nil
	return err
}

// MakeActors implements store.Dictionary.
func (s *session) MakeActors(ctx context.Context, names []store.ActorName) (bool, error) {
	if s.dictionary == nil {
		return false, nil
	}
	if s.asked == nil {
		return true, s.makeAlone(ctx, names, nil)
	}
	more := missing(s.asked, names)
	if len(more) == 0 {
		return true, nil
	}
	s.asked.actors = append(s.asked.actors, more...)
	return true, errNewNames
}

// MakeQueues implements store.Dictionary.
func (s *session) MakeQueues(ctx context.Context, names []store.QueueName) (bool, error) {
	if s.dictionary == nil {
		return false, nil
	}
	if s.asked == nil {
		return true, s.makeAlone(ctx, nil, names)
	}
	more := missing(s.asked, names)
	if len(more) == 0 {
		return true, nil
	}
	s.asked.queues = append(s.asked.queues, more...)
	return true, errNewNames
}

// makeAlone inserts names for a statement or a transaction that does not run again.
func (s *session) makeAlone(ctx context.Context, actors []store.ActorName, queues []store.QueueName) error {
	if s.one {
		beside, err := s.dictionary.makeBeside(ctx, s, actors, queues)
		s.inserted = s.inserted || !beside
		return err
	}
	err := s.dictionary.insert(ctx, s, actors, queues) // committed by itself
	if err == nil {
		s.dictionary.learn(actors, queues)
	}
	return err
}

// makeBeside inserts names while a transaction is open, on another connection if one is free. It does
// not wait for one, because the others may wait for this transaction's. Then it returns false: the
// transaction has the names, others wait for them until its end, and it remembers none.
func (d *dictionary) makeBeside(ctx context.Context, tx store.Tx, actors []store.ActorName, queues []store.QueueName) (bool, error) {
	p := d.db.cold
	if !p.slots.try(p.use) {
		return false, d.insert(ctx, tx, actors, queues)
	}
	defer p.slots.give(p.use)
	within, cancel := context.WithTimeout(ctx, p.limit/4)
	defer cancel()
	c, err := p.takeFree(within)
	if err != nil {
		return false, d.insert(ctx, tx, actors, queues)
	}
	defer c.Release()
	err = d.insert(ctx, &session{on: c, rewrite: p.dialect.Rewrite, pool: p, limit: p.limit}, actors, queues)
	if err == nil {
		d.learn(actors, queues)
	}
	return true, err
}

// MakeActors implements store.Dictionary for a transaction of database/sql.
func (s *sqlSession) MakeActors(ctx context.Context, names []store.ActorName) (bool, error) {
	return s.makeNames(ctx, names, nil)
}

// MakeQueues implements store.Dictionary.
func (s *sqlSession) MakeQueues(ctx context.Context, names []store.QueueName) (bool, error) {
	return s.makeNames(ctx, nil, names)
}

func (s *sqlSession) makeNames(ctx context.Context, actors []store.ActorName, queues []store.QueueName) (bool, error) {
	if s.dictionary == nil {
		return false, nil
	}
	beside, err := s.dictionary.makeBeside(ctx, s, actors, queues)
	s.inserted = s.inserted || !beside
	return true, err
}

// Known implements store.Dictionary.
func (s *sqlSession) Known() *store.Names {
	if s.inserted {
		return nil
	}
	return s.dictionary.Known()
}

// Known implements store.Dictionary.
func (s *session) Known() *store.Names {
	if s.inserted {
		return nil
	}
	return s.dictionary.Known()
}

// insert inserts rows of the dictionary.
func (d *dictionary) insert(ctx context.Context, tx store.Tx, actors []store.ActorName, queues []store.QueueName) error {
	if len(actors) > 0 {
		kinds, texts := make([]string, len(actors)), make([]string, len(actors))
		for i, n := range actors {
			kinds[i], texts[i] = n.Kind, n.Name
		}
		if _, err := tx.Exec(ctx, namesSQL["actors"], kinds, texts); err != nil {
			return err
		}
	}
	if len(queues) == 0 {
		return nil
	}
	namespaces, types := make([]string, len(queues)), make([]string, len(queues))
	for i, n := range queues {
		namespaces[i], types[i] = n.Namespace, n.Type
	}
	_, err := tx.Exec(ctx, namesSQL["queues"], namespaces, types)
	return err
}

// learn remembers names whose rows are committed.
func (d *dictionary) learn(actors []store.ActorName, queues []store.QueueName) {
	for _, n := range actors {
		d.names.Learn(n, store.NoNumber)
	}
	for _, n := range queues {
		d.names.LearnQueue(n, store.NoNumber)
	}
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
