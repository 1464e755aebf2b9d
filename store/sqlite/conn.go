package sqlite

import (
	"context"
	"errors"
	"slices"
	"strings"

	direct "zombiezen.com/go/sqlite"

	"github.com/pawl-work/pawl/store"
)

// The settings of each connection. The writer does not wait inside SQLite, where a context
// cannot end the wait: Do tries again instead. Readers wait only while SQLite recovers the
// log after a crash.
var (
	commonPragmas = []string{"foreign_keys(1)", "synchronous(FULL)", "temp_store(MEMORY)"}
	writerPragmas = append([]string{"busy_timeout(0)", "cache_size(-65536)", "journal_size_limit(67108864)"}, commonPragmas...)
	readerPragmas = append([]string{"busy_timeout(10000)", "cache_size(-16384)", "query_only(1)"}, commonPragmas...)
)

// conn is a connection to the file and the statements prepared on it. It serves one
// goroutine at a time. It uses SQLite without database/sql, which would take as much time
// as SQLite itself.
type conn struct {
	raw     *direct.Conn
	rewrite func(string) string
	stmts   map[string]*stmt
	open    []*rows // results that are not closed yet

	watched     context.Context // when it ends, the statements are interrupted; nil = none
	stopWatch   func() bool     // stops the watching of watched
	interrupted chan struct{}   // closed when watched ends
}

// sqlError is an error of SQLite with its extended result code.
type sqlError struct {
	code int
	err  error
}

func (e *sqlError) Error() string { return e.err.Error() }
func (e *sqlError) Unwrap() error { return e.err }

func asSQLError(err error) error {
	if err == nil {
		return nil
	}
	return &sqlError{int(direct.ErrCode(err)), err}
}

// openConn opens the file at path. It creates the file only when create is set.
func openConn(path string, create bool, pragmas []string) (*conn, error) {
	mode, flags := "rw", direct.OpenReadWrite|direct.OpenURI
	if create {
		mode, flags = "rwc", flags|direct.OpenCreate
	}
	raw, err := direct.OpenConn(dsn(path, mode), flags)
	if err != nil {
		return nil, asSQLError(err)
	}
	raw.SetBusyTimeout(0) // until the pragmas set another; the default waits without end
	c := &conn{raw: raw, rewrite: rewrite, stmts: map[string]*stmt{}}
	for _, pragma := range pragmas {
		if err := c.script("PRAGMA " + pragma); err != nil {
			_ = c.close()
			return nil, err
		}
	}
	return c, nil
}

// close closes the connection. SQLite rolls back a transaction that is open.
func (c *conn) close() error {
	c.closeRows()
	c.unwatch()
	for _, s := range c.stmts {
		_ = s.Finalize() // repeats the error of Step
	}
	return classify(asSQLError(c.raw.Close()))
}

// watch makes the end of ctx interrupt the statements. It replaces the context that was
// watched before. The connection keeps one goroutine for this; a further context needs
// none.
func (c *conn) watch(ctx context.Context) {
	if c.watched != nil && c.watched.Done() == ctx.Done() {
		return
	}
	c.unwatch()
	if ctx.Done() == nil {
		return
	}
	if c.interrupted == nil {
		c.interrupted = make(chan struct{})
		c.raw.SetInterrupt(c.interrupted)
	}
	ended := c.interrupted
	c.watched, c.stopWatch = ctx, func() bool { return false }
	if ctx.Err() != nil {
		close(ended) // AfterFunc would close it a moment later
	} else {
		c.stopWatch = context.AfterFunc(ctx, func() { close(ended) })
	}
}

// unwatch makes the connection usable again after its context has ended.
func (c *conn) unwatch() {
	if c.watched == nil {
		return
	}
	if !c.stopWatch() {
		c.raw.SetInterrupt(nil) // waits for an interrupt that has begun
		c.interrupted = nil
	}
	c.watched, c.stopWatch = nil, nil
}

// fail returns the error of a statement. If the end of the context interrupted the
// statement, it returns the context's error.
func (c *conn) fail(err error) error {
	if err != nil && c.watched != nil && c.watched.Err() != nil && direct.ErrCode(err).ToPrimary() == direct.ResultInterrupt {
		return c.watched.Err()
	}
	return asSQLError(err)
}

// begin finds or prepares a statement and binds its parameters. If the statement is being
// read, or maxStatements are kept already, it is prepared for this use only.
func (c *conn) begin(query string, args []any) (*stmt, error) {
	s := c.stmts[query]
	if s == nil || s.reading {
		var err error
		if s, err = c.prepare(query, s == nil && len(c.stmts) < maxStatements); err != nil {
			return nil, err
		}
	}
	if err := s.bindAll(args); err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

func (c *conn) prepare(query string, keep bool) (*stmt, error) {
	prepared, trailing, err := c.raw.PrepareTransient(c.rewrite(query))
	if err != nil {
		return nil, c.fail(err)
	}
	s := &stmt{Stmt: prepared, kept: keep}
	if trailing > 0 {
		err = errors.New("sqlite: more than one statement")
	} else {
		err = s.numberParameters()
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

// exec runs a statement to its end and returns how many rows it changed.
func (c *conn) exec(query string, args ...any) (int64, error) {
	s, err := c.begin(query, args)
	if err != nil {
		return 0, err
	}
	err = s.finish()
	n := c.raw.Changes()
	s.end()
	return int64(n), c.fail(err)
}

func (c *conn) query(t *tx, query string, args []any) (store.Rows, error) {
	s, err := c.begin(query, args)
	if err != nil {
		return nil, err
	}
	r := &rows{conn: c, tx: t, stmt: s}
	if r.ahead, err = s.Step(); err != nil {
		s.end()
		return nil, c.fail(err)
	}
	s.reading = true
	c.open = append(c.open, r)
	return r, nil
}

// row reads the first row of a query outside a transaction.
func (c *conn) row(dest []any, query string, args ...any) error {
	defer c.closeRows()
	r, err := c.query(&tx{conn: c}, query, args)
	if err != nil {
		return err
	}
	if !r.Next() {
		return r.Err()
	}
	return r.Scan(dest...)
}

// script runs the statements of a text. None of them is kept.
func (c *conn) script(text string) error {
	for text = strings.TrimSpace(text); text != ""; {
		s, trailing, err := c.raw.PrepareTransient(text)
		if err != nil {
			return c.fail(err)
		}
		text = strings.TrimSpace(text[len(text)-trailing:])
		once := stmt{Stmt: s}
		err = once.finish()
		once.end()
		if err != nil {
			return c.fail(err)
		}
	}
	return nil
}

// closeRows closes results that were left open. A statement that is still being read would
// keep its snapshot.
func (c *conn) closeRows() {
	for len(c.open) > 0 {
		c.open[len(c.open)-1].Close()
	}
}

func (c *conn) closed(r *rows) {
	if i := slices.Index(c.open, r); i >= 0 {
		c.open = slices.Delete(c.open, i, i+1)
	}
}
