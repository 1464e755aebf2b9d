// Package store keeps the SQL, but for that of the rooms of the engine. Cold statements are written once, in the subset of SQL
// that SQLite and PostgreSQL share, in .sql files beside their Go. The closed list of
// hot verbs (Hot, Timed) has one text per database, in store/sqlite and store/postgres.
// In this package and below it, times are microseconds since 1970 UTC; payloads and errors
// are text. Ids are text in Go; those of tasks and items are 16 bytes in the databases: see
// TaskID.
//
// # What a database implements
//
// A database is a package of its own, as store/sqlite is. Its Open returns a DB.
// database_test.go has all of its parts with their signatures, and compiles. This is
// the list:
//
//   - DB: transactions, and the Dialect. Its errors are *pawl.Error, by code.
//   - Tx and Rows: statements in a transaction, in the common subset of SQL. Rewrite of
//     the Dialect, made by Rewriter, replaces the marks in them.
//   - Hot and Timed: the hot verbs, with their own SQL.
//   - Migrator: NewMigrator on a folder of migrations, with the numbers and names that
//     the other databases have. schema_test.go of the root compares the schemas.
//   - Commits of the Dialect, if events do not become visible in the order of their
//     numbers. The feed relies on it.
//   - The capabilities of the Dialect, each a bool. DataVersion (Changed) or Notices
//     (Notify, Listen) let calls wait without polling. No function of it is nil.
//   - Dictionary of a Tx that remembers names from one transaction to the next.
//   - ForgetNow() of a Tx whose clock is the server's: see NowAgain. Native() any of a Tx
//     whose transaction hooks may use.
//
// engine.Open chooses the database by the scheme of the URL, and pawltest.Each runs
// every test on each database.
package store

import (
	"context"
	"database/sql/driver"
	"encoding/json"

	"github.com/pawl-work/pawl"
)

// DB is an open database. Do, Auto and View pass a Tx to fn, which must not keep it.
// Errors are *pawl.Error, classified by code and never by text. A database that does not
// answer is unavailable, and so is a full disk.
type DB interface {
	// Do runs fn in one write transaction and commits it if fn returns nil. After a deadlock
	// or a serialization failure it runs fn again, a limited number of times. fn must
	// therefore have no effect outside the Tx.
	Do(ctx context.Context, fn func(ctx context.Context, tx Tx) error) error
	// Auto runs one hot verb. On PostgreSQL its single statement commits by itself on a hot
	// connection; on SQLite it has its own transaction.
	Auto(ctx context.Context, fn func(ctx context.Context, tx Tx) error) error
	// Whole is Do for a transaction with hot verbs and other statements.
	Whole(ctx context.Context, fn func(ctx context.Context, tx Tx) error) error
	// View runs fn on a read snapshot.
	View(ctx context.Context, fn func(ctx context.Context, tx Tx) error) error
	// Dialect returns what differs between the databases.
	Dialect() *Dialect
	Close() error
}

// Tx runs statements. Placeholders are $1, $2 …; table names have the prefix "pawl.".
// Marks in a statement are replaced for each database:
//
//	@list($1)            the rows of a JSON array of texts
//	@among($1)           a column is one of those texts; each is looked up in its index
//	@ids($1)             @list of the ids of a TaskList or ItemList
//	@among_ids($1)       @among of such ids
//	@id(x)               the id of a text of such a list
//	@task_text(x)        the text of a task's id
//	@item_text(x)        the text of an item's id
//	@least(x)            MIN of ids
//	@uuid                the type of an id
//	@hex(x@)             the hex form of bytes, in lower case
//	@each($1) AS x       a table: x.value ->> 0 … are the members of each array in a JSON array
//	@lock, @skip         FOR UPDATE, FOR UPDATE SKIP LOCKED, where a database locks rows
//	@exclusive, @shared  FOR NO KEY UPDATE, which lets other rows refer to the row; FOR SHARE
//	@kept                FOR KEY SHARE: the row is not deleted before the transaction ends
//	@unlocked            after one of them: SKIP LOCKED
//	@new_rank(x), @requeue_rank(x), …   the functions of rank.go
//	@actor(kind, name) … look-ups of names: see ExpandNames
//	@alone               false while another open transaction has asked for it with the
//	                     same ($1, $2, $3)
//	@apart               false while another open transaction has asked for it with bytes $2 of the
//	                     same beginning
//
// Query replaces the marks once per text and keeps the result, so texts must be constants
// or come from a bounded set. A statement's context must last as long as the rows that are
// open at the same time: on SQLite the context of the last statement interrupts all of
// them.
type Tx interface {
	Exec(ctx context.Context, query string, args ...any) (int64, error)
	Query(ctx context.Context, query string, args ...any) (Rows, error)
	// ExecEach runs one statement for each row of arguments, in order, in as few round trips
	// as the driver allows.
	ExecEach(ctx context.Context, query string, rows [][]any) error
	// Now returns the transaction's only time, in microseconds, by the database's clock. On
	// SQLite it is never below the time of the newest event.
	Now(ctx context.Context) (int64, error)
}

// NowAgain reads the time again where the clock is the server's. After a wait for a lock,
// the earlier time would judge a lease by the time before the wait. On SQLite a
// transaction waits only before it begins, so the time is not read again.
func NowAgain(ctx context.Context, tx Tx) (int64, error) {
	if s, ok := tx.(interface{ ForgetNow() }); ok {
		s.ForgetNow()
	}
	return tx.Now(ctx)
}

// Native returns the driver's own transaction under tx, for a hook that writes in the same
// transaction: a pgx.Tx on PostgreSQL, nil elsewhere.
func Native(tx Tx) any {
	if n, ok := tx.(interface{ Native() any }); ok {
		return n.Native()
	}
	return nil
}

// Undone marks an error that is the database's own answer: the failed statement has
// changed nothing. After any other error, for example an answer that could not be read,
// the statement may have been carried out.
type Undone struct{ Err error }

// Error implements error.
func (u Undone) Error() string { return u.Err.Error() }

// Unwrap returns the driver's error.
func (u Undone) Unwrap() error { return u.Err }

// Rows is the result of a query. Close may be called twice.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close()
}

// Dialect is what differs between the databases. Every function is set on both. What only
// one of them can do is a capability, named for what can be done.
type Dialect struct {
	Name    string // for messages
	Hot     Hot
	Timed   Timed
	Rewrite func(query string) string

	GroupCommits   bool // concurrent calls of Auto share a transaction: callers need not batch them first
	ParallelWrites bool // transactions write concurrently; otherwise one waits for the other
	RoundTrips     bool // a read costs a round trip: concurrent reads are worth sharing
	ChecksFile     bool // the database can search its own file for damage
	DataVersion    bool // Changed detects what other processes write
	Notices        bool // processes notify each other of work, by Notify
	Listens        bool // with Notices: this process can receive them, by Listen

	// Changed returns a number that differs when another process may have written in the
	// meantime. Without DataVersion it always returns 0, and waiting calls poll.
	Changed func(ctx context.Context) (int64, error)
	// Look is a View for statements that need no common snapshot.
	Look func(ctx context.Context, fn func(ctx context.Context, tx Tx) error) error
	// Notify sends short hints to other processes. Listen receives them until ctx or its
	// connection ends, and calls ready when it has begun. Each is called only if it can work.
	Notify func(ctx context.Context, payloads []string) error
	Listen func(ctx context.Context, ready func(), heard func(payload string)) error
	// Commits says in which order transactions become visible. It is nil where event numbers
	// are in the order of commit.
	Commits *Commits
	// Warnings lists settings of the server that put a promise at risk.
	Warnings func(ctx context.Context) ([]Warning, error)
	// Guard makes new connections fail with ErrExcluded from now on when a migration has
	// excluded this program in the meantime.
	Guard func()
	// Snapshot reports whether all statements of a transaction read the state at its first one.
	// Such a transaction cannot count what others have committed since.
	Snapshot func(ctx context.Context, tx Tx) (bool, error)
	// OnCommit sets what is told how many calls each transaction of GroupCommits carried out. It
	// is called at most once. Without GroupCommits it does nothing.
	OnCommit func(told func(calls int))
	// Forget drops what is remembered of the rows, for tests that have emptied the tables.
	Forget func()
	// Shrink gives some of the space that removed rows leave back to the file system. more = call it again, in another
	// transaction. Where the server does that by itself it does nothing.
	Shrink func(ctx context.Context, tx Tx) (more bool, err error)
	// Compact gives all of that space back and returns the freed bytes. Writes may wait meanwhile.
	Compact func(ctx context.Context) (freed int64, err error)
	// Lent says that the program has lent its pool: its own transactions have connections that Pawl's wait for.
	Lent bool
	// Pools returns the state of each pool of connections.
	Pools func() []pawl.Pool
	// Place reads where the database is. With renew, and where the place has a file beside the database, that
	// file is written anew.
	Place func(ctx context.Context, tx Tx, renew bool) (Place, error)
	// Fences are what moves of rows to another database need.
	Fences *Fences
	// Wrap returns a Tx of a transaction that a caller began on the same database, or nil when
	// the value is no such transaction.
	Wrap func(tx any) Tx
	// Migrator runs and lists migrations.
	Migrator Migrator
}

// Migrator brings the schema up to date and reports its state.
type Migrator interface {
	// Up applies the missing migrations once, even when many processes call it at the same
	// time.
	Up(ctx context.Context) ([]Migration, error)
	// Status lists every known migration, applied or not, and the applied ones that this
	// program does not know.
	Status(ctx context.Context) ([]Migration, error)
	// Newest returns the newest migration that this program knows.
	Newest() int64
	// SQL returns exactly what Up would run for the migrations after the given number.
	SQL(from int64) (string, error)
}

// Migration is one numbered step of the schema.
type Migration struct {
	ID          int64  `json:"id"`
	Description string `json:"description"`
	ExecutedAt  int64  `json:"executed_at,omitempty"` // 0 = not applied
	Known       bool   `json:"known"`                 // this program contains its text
	Oldest      int64  `json:"oldest,omitempty"`      // a program needs to know this migration or a newer one to run on the schema
}

// Text is a nullable column: NULL reads as "".
type Text string

// Scan implements sql.Scanner.
func (t *Text) Scan(v any) error {
	switch x := v.(type) {
	case nil:
		*t = ""
	case string:
		*t = Text(x)
	case []byte:
		*t = Text(x)
	}
	return nil
}

// Value implements driver.Valuer: "" is written as NULL.
func (t Text) Value() (driver.Value, error) {
	if t == "" {
		return nil, nil
	}
	return string(t), nil
}

// List returns the texts of which the function List made t; nil = it is "".
func (t Text) List() (texts []string) {
	if t != "" {
		_ = json.Unmarshal([]byte(t), &texts) // written by us
	}
	return texts
}
