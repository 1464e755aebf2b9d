package postgres

import (
	"context"
	"database/sql"

	"github.com/pawl-work/pawl/store"
)

// WrapSQL is WrapTx for a transaction of database/sql over pgx's stdlib. That driver
// accepts the arguments of Pawl's statements unchanged.
func WrapSQL(tx *sql.Tx, schema string) store.Tx {
	return &sqlSession{tx: tx, rewrite: rewriteFor(schema)}
}

type sqlSession struct {
	tx      *sql.Tx
	rewrite func(string) string
	now     int64
	*dictionary
	inserted bool // see session
}

// Exec implements store.Tx.
func (s *sqlSession) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := s.tx.ExecContext(ctx, s.rewrite(query), args...)
	if err != nil {
		return 0, s.classified(err)
	}
	n, err := res.RowsAffected()
	return n, classify(err)
}

// Query implements store.Tx.
func (s *sqlSession) Query(ctx context.Context, query string, args ...any) (store.Rows, error) {
	rows, err := s.tx.QueryContext(ctx, s.rewrite(query), args...)
	if err != nil {
		return nil, s.classified(err)
	}
	return sqlRows{rows, s.dictionary}, nil
}

// ExecEach implements store.Tx.
func (s *sqlSession) ExecEach(ctx context.Context, query string, rows [][]any) error {
	for _, args := range rows {
		if _, err := s.Exec(ctx, query, args...); err != nil {
			return err
		}
	}
	return nil
}

// Now implements store.Tx.
func (s *sqlSession) Now(ctx context.Context) (int64, error) {
	if s.now != 0 {
		return s.now, nil
	}
	_, err := store.Row(ctx, s, []any{&s.now}, "SELECT pawl.now()")
	return s.now, err
}

// ForgetNow makes Now read the clock again; see store.NowAgain.
func (s *sqlSession) ForgetNow() { s.now = 0 }

type sqlRows struct {
	*sql.Rows
	of *dictionary
}

func (r sqlRows) Scan(dest ...any) error { return r.of.classified(r.Rows.Scan(dest...)) }
func (r sqlRows) Err() error             { return r.of.classified(r.Rows.Err()) }
func (r sqlRows) Close()                 { _ = r.Rows.Close() }
