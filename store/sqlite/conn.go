package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	direct "zombiezen.com/go/sqlite"

	"github.com/pawl-work/pawl/store"
)

// conn is the writing connection. It uses SQLite without database/sql, which costs as
// much time as SQLite itself.
type conn struct {
	raw     *direct.Conn
	stmts   map[string]*stmt
	reading []*rows // open results
}

// stmt is a prepared statement.
type stmt struct {
	*direct.Stmt
	args    []int // the argument of each parameter: $3 may be the first parameter
	kept    bool
	reading bool
}

// sqlError is an error of the writing connection, with its extended result code.
type sqlError struct {
	code int
	err  error
}

func (f *sqlError) Error() string { return f.err.Error() }
func (f *sqlError) Unwrap() error { return f.err }

func asSQLError(err error) error {
	if err == nil {
		return nil
	}
	return &sqlError{int(direct.ErrCode(err)), err}
}

func openConn(path string) (connection, error) {
	raw, err := direct.OpenConn(dsn(path, "rw"), direct.OpenReadWrite|direct.OpenURI)
	if err != nil {
		return nil, asSQLError(err)
	}
	raw.SetBusyTimeout(0)
	c := &conn{raw: raw, stmts: map[string]*stmt{}}
	for _, pragma := range writerPragmas {
		if _, err := c.exec(context.Background(), "PRAGMA "+pragma, nil); err != nil {
			c.discard()
			return nil, err
		}
	}
	return c, nil
}

func (c *conn) discard() {
	c.settle()
	for _, s := range c.stmts {
		_ = s.Finalize()
	}
	_ = c.raw.Close()
}

// begin finds or prepares a statement and binds its parameters. A statement that is
// being read, or beyond maxStatements, is prepared for this use only.
func (c *conn) begin(query string, args []any) (*stmt, error) {
	s := c.stmts[query]
	if s == nil || s.reading {
		var err error
		if s, err = c.prepare(query, s == nil && len(c.stmts) < maxStatements); err != nil {
			return nil, err
		}
	}
	for i, n := range s.args {
		if n >= len(args) {
			s.end()
			return nil, fmt.Errorf("sqlite: %d arguments, but a parameter $%d", len(args), n+1)
		}
		if err := s.bind(i+1, args[n]); err != nil {
			s.end()
			return nil, err
		}
	}
	return s, nil
}

func (c *conn) prepare(query string, keep bool) (*stmt, error) {
	prepared, trailing, err := c.raw.PrepareTransient(rewrite(query))
	if err != nil {
		return nil, asSQLError(err)
	}
	s := &stmt{Stmt: prepared, kept: keep, args: make([]int, prepared.BindParamCount())}
	if trailing > 0 {
		err = errors.New("sqlite: more than one statement")
	}
	for i := 0; i < len(s.args) && err == nil; i++ {
		s.args[i], err = strconv.Atoi(strings.TrimLeft(prepared.BindParamName(i+1), "$"))
		s.args[i]--
	}
	if err != nil {
		_ = prepared.Finalize()
		return nil, err
	}
	if keep {
		c.stmts[query] = s
	}
	return s, nil
}

func (s *stmt) end() {
	s.reading = false
	if s.kept {
		_ = s.Reset() // repeats the error of Step
	} else {
		_ = s.Finalize()
	}
}

func (s *stmt) bind(i int, arg any) error {
	switch v := arg.(type) {
	case nil:
		s.BindNull(i)
	case string:
		s.BindText(i, v)
	case int64:
		s.BindInt64(i, v)
	case int:
		s.BindInt64(i, int64(v))
	case store.Text:
		if v == "" {
			s.BindNull(i)
		} else {
			s.BindText(i, string(v))
		}
	case bool:
		s.BindBool(i, v)
	case float64:
		s.BindFloat(i, v)
	case []byte:
		if v == nil {
			s.BindNull(i)
		} else {
			s.BindBytes(i, v)
		}
	default:
		plain, err := driver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			return err
		}
		if !driver.IsValue(plain) || reflect.TypeOf(plain) == reflect.TypeOf(arg) {
			return fmt.Errorf("sqlite: a %T cannot be bound", arg)
		}
		return s.bind(i, plain)
	}
	return nil
}

func (c *conn) exec(_ context.Context, query string, args []any) (int64, error) {
	s, err := c.begin(query, args)
	if err != nil {
		return 0, err
	}
	more := true
	for more && err == nil {
		more, err = s.Step()
	}
	n := c.raw.Changes()
	s.end()
	return int64(n), asSQLError(err)
}

func (c *conn) query(_ context.Context, t *tx, query string, args []any) (store.Rows, error) {
	s, err := c.begin(query, args)
	if err != nil {
		return nil, err
	}
	r := &rows{conn: c, tx: t, stmt: s}
	if r.ahead, err = s.Step(); err != nil {
		s.end()
		return nil, asSQLError(err)
	}
	s.reading = true
	c.reading = append(c.reading, r)
	return r, nil
}

func (c *conn) settle() {
	for len(c.reading) > 0 {
		c.reading[len(c.reading)-1].Close()
	}
}

// rows implements store.Rows.
type rows struct {
	conn   *conn
	tx     *tx
	stmt   *stmt
	ahead  bool // a row was stepped to that Next has not returned
	begun  bool
	closed bool
	err    error
}

func (r *rows) Next() bool {
	if r.closed {
		return false
	}
	if r.begun {
		var err error
		if r.ahead, err = r.stmt.Step(); err != nil {
			r.err = asSQLError(err)
		}
	}
	r.begun = true
	if !r.ahead || r.err != nil {
		r.Close()
		return false
	}
	return true
}

func (r *rows) Close() {
	if r.closed {
		return
	}
	r.closed = true
	if i := slices.Index(r.conn.reading, r); i >= 0 {
		r.conn.reading = slices.Delete(r.conn.reading, i, i+1)
	}
	r.stmt.end()
}

func (r *rows) Err() error { return r.tx.fail(r.err) }

func (r *rows) Scan(dest ...any) error {
	for i, d := range dest {
		if err := r.scan(i, d); err != nil {
			return classify(fmt.Errorf("sqlite: column %d: %w", i, err))
		}
	}
	return nil
}

func (r *rows) scan(i int, dest any) error {
	kind := r.stmt.ColumnType(i)
	switch d := dest.(type) {
	case *string:
		if kind == direct.TypeText {
			*d = r.stmt.ColumnText(i)
			return nil
		}
	case *store.Text:
		if kind == direct.TypeText {
			*d = store.Text(r.stmt.ColumnText(i))
			return nil
		}
	case *int64:
		if kind == direct.TypeInteger {
			*d = r.stmt.ColumnInt64(i)
			return nil
		}
	case *int:
		if kind == direct.TypeInteger {
			*d = int(r.stmt.ColumnInt64(i))
			return nil
		}
	}
	return assign(dest, r.value(i, kind))
}

func (r *rows) value(i int, kind direct.ColumnType) any {
	switch kind {
	case direct.TypeInteger:
		return r.stmt.ColumnInt64(i)
	case direct.TypeFloat:
		return r.stmt.ColumnFloat(i)
	case direct.TypeText:
		return r.stmt.ColumnText(i)
	case direct.TypeBlob:
		b := make([]byte, r.stmt.ColumnLen(i))
		r.stmt.ColumnBytes(i, b)
		return b
	}
	return nil
}

// assign stores a column's value as database/sql does, for the types that Pawl uses.
func assign(dest, value any) error {
	if s, ok := dest.(sql.Scanner); ok {
		return s.Scan(value)
	}
	to := reflect.ValueOf(dest).Elem()
	if to.Kind() == reflect.Pointer {
		if value == nil {
			to.SetZero()
			return nil
		}
		to.Set(reflect.New(to.Type().Elem()))
		return assign(to.Interface(), value)
	}
	switch v := value.(type) {
	case int64:
		switch {
		case to.CanInt() && !to.OverflowInt(v):
			to.SetInt(v)
			return nil
		case to.Kind() == reflect.Bool && (v == 0 || v == 1):
			to.SetBool(v == 1)
			return nil
		}
	case float64:
		if to.CanFloat() {
			to.SetFloat(v)
			return nil
		}
	case string:
		if to.Kind() == reflect.String {
			to.SetString(v)
			return nil
		}
	}
	if v := reflect.ValueOf(value); value == nil && to.Kind() == reflect.Interface {
		to.SetZero()
		return nil
	} else if value != nil && v.Type().AssignableTo(to.Type()) {
		to.Set(v)
		return nil
	}
	return fmt.Errorf("a %T does not go into a %T", value, dest)
}
