package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/pawl-work/pawl/store"
)

// maxStatements bounds the statements a connection keeps prepared.
const maxStatements = 512

// connection is what a transaction runs on: a reader's session, or the writing connection.
type connection interface {
	exec(ctx context.Context, query string, args []any) (int64, error)
	query(ctx context.Context, t *tx, query string, args []any) (store.Rows, error)
	// settle closes results that the transaction left open: a statement that is
	// still being read would keep its snapshot.
	settle()
	// discard closes the connection for good.
	discard()
}

// session is one connection and the statements prepared on it. It serves one
// goroutine at a time.
type session struct {
	conn  *sql.Conn
	stmts map[string]*statement
	loose []*sqlRows // results of statements that are not kept
	open  int        // results not closed yet
}

// statement is prepared once. While its rows are being read, a second use of
// the same text runs unprepared.
type statement struct {
	*sql.Stmt
	reading *sqlRows
}

func connect(ctx context.Context, from *sql.DB) (*session, error) {
	conn, err := from.Conn(ctx)
	if err != nil {
		return nil, classify(err)
	}
	return &session{conn: conn, stmts: map[string]*statement{}}, nil
}

// discard does not give the connection back to its pool.
func (s *session) discard() {
	for _, st := range s.stmts {
		st.Close()
	}
	_ = s.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = s.conn.Close()
}

// statement finds or prepares; nil for one that cannot be kept.
func (s *session) statement(ctx context.Context, query string) (*statement, error) {
	if st, found := s.stmts[query]; found {
		if st.reading != nil {
			return nil, nil
		}
		return st, nil
	}
	if len(s.stmts) >= maxStatements {
		return nil, nil
	}
	stmt, err := s.conn.PrepareContext(ctx, rewrite(query))
	if err != nil {
		return nil, err
	}
	st := &statement{Stmt: stmt}
	s.stmts[query] = st
	return st, nil
}

func (s *session) exec(ctx context.Context, query string, args []any) (int64, error) {
	st, err := s.statement(ctx, query)
	if err != nil {
		return 0, err
	}
	var res sql.Result
	if st != nil {
		res, err = st.ExecContext(ctx, args...)
	} else {
		res, err = s.conn.ExecContext(ctx, rewrite(query), args...)
	}
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (s *session) query(ctx context.Context, t *tx, query string, args []any) (store.Rows, error) {
	st, err := s.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	r := &sqlRows{session: s, tx: t, statement: st}
	if st != nil {
		r.Rows, err = st.QueryContext(ctx, args...)
	} else {
		r.Rows, err = s.conn.QueryContext(ctx, rewrite(query), args...)
	}
	if err != nil {
		return nil, err
	}
	s.open++
	if st != nil {
		st.reading = r
	} else {
		s.loose = append(s.loose, r)
	}
	return r, nil
}

func (s *session) settle() {
	if s.open > 0 {
		for _, st := range s.stmts {
			if st.reading != nil {
				st.reading.Close()
			}
		}
		for _, r := range s.loose {
			r.Close()
		}
	}
	s.loose = s.loose[:0]
}

// sqlRows implements store.Rows.
type sqlRows struct {
	*sql.Rows
	session   *session
	tx        *tx
	statement *statement
	closed    bool
}

func (r *sqlRows) Close() {
	if r.closed {
		return
	}
	r.closed = true
	r.session.open--
	if r.statement != nil {
		r.statement.reading = nil
	}
	_ = r.Rows.Close() // what went wrong is in Err
}

func (r *sqlRows) Err() error { return r.tx.fail(r.Rows.Err()) }

func (r *sqlRows) Scan(dest ...any) error { return classify(r.Rows.Scan(dest...)) }

var _ store.Rows = (*sqlRows)(nil)
