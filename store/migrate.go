package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"

	"github.com/pawl-work/pawl"
)

// NewMigrator runs the files NNNN_the_words.sql of fsys through goose, each in
// its own transaction, and records them in table (id, description, executed_at,
// oldest). A table with a schema before its dot is PostgreSQL's, and the schema
// is made with it. rewrite is applied to the files' texts. guard keeps all but
// one of the processes that migrate at once waiting; nil = there is no other.
//
// Each file says in a line `-- oldest: N` the lowest newest-migration number
// that a program may know and still use the schema after it. It panics on a
// file without one: the files are embedded.
func NewMigrator(db *sql.DB, fsys fs.FS, rewrite func(string) string, table string, guard func(ctx context.Context) (release func(), err error)) Migrator {
	schema, _, found := strings.Cut(table, ".")
	if !found {
		schema = ""
	}
	m := &migrator{db: db, fsys: rewritten{fsys, rewrite}, table: table, schema: schema, guard: guard, texts: map[int64]string{}}
	names, err := fs.Glob(fsys, "*.sql")
	if err != nil || len(names) == 0 {
		panic(fmt.Sprintf("store: no migrations (%v)", err))
	}
	for _, name := range names {
		text, err := fs.ReadFile(m.fsys, name)
		parts, oldest := fileName.FindStringSubmatch(name), oldestLine.FindSubmatch(text)
		if err != nil || parts == nil || oldest == nil {
			panic(fmt.Sprintf("store: %s is not NNNN_words.sql with a line `-- oldest: N` (%v)", name, err))
		}
		id, _ := strconv.ParseInt(parts[1], 10, 64)
		old, _ := strconv.ParseInt(string(oldest[1]), 10, 64)
		m.known = append(m.known, Migration{ID: id, Description: strings.ReplaceAll(parts[2], "_", " "), Known: true, Oldest: old})
		m.texts[id] = string(text)
	}
	slices.SortFunc(m.known, byID)
	return m
}

// Verify says whether this program may use the schema as it is: an unavailable
// error when a migration is missing, or when the schema has become too new.
func Verify(ctx context.Context, m Migrator) error {
	all, err := m.Status(ctx)
	if err != nil {
		return err
	}
	for _, x := range all {
		if x.ExecutedAt == 0 {
			return &pawl.Error{Code: pawl.CodeUnavailable, Op: "migrate",
				Message: fmt.Sprintf("the database's schema is older than this program: migration %d (%s) is missing; run `pawl migrate up`", x.ID, x.Description)}
		}
	}
	return tooOld(all)
}

// Exists is a not_found error when no migration was run: Pawl has never used the
// schema.
func Exists(ctx context.Context, m Migrator) error {
	all, err := m.Status(ctx)
	if err != nil || slices.ContainsFunc(all, func(x Migration) bool { return x.ExecutedAt != 0 }) {
		return err
	}
	return &pawl.Error{Code: pawl.CodeNotFound, Op: "open", Message: "the database does not hold Pawl's schema; check its name, or create the schema with `pawl migrate up`"}
}

// SchemaMismatch makes of a migrator's error that the database's codes say nothing about
// the refusal of a schema that its table of migrations does not describe.
func SchemaMismatch(err error) error {
	var e *pawl.Error
	if !errors.As(err, &e) || e.Code != pawl.CodeInternal || e.Message != "" {
		return err
	}
	return &pawl.Error{Code: pawl.CodeInvalid, Op: "migrate", Err: e.Err,
		Message: "the schema is not what the table schema_migrations says, or that table is not Pawl's: restore a backup, or name another database"}
}

var (
	fileName   = regexp.MustCompile(`^(\d+)_(\w+)\.sql$`)
	oldestLine = regexp.MustCompile(`(?m)^-- oldest: (\d+)$`)
)

type migrator struct {
	db            *sql.DB
	fsys          fs.FS
	table, schema string
	guard         func(ctx context.Context) (func(), error)
	known         []Migration      // ascending
	texts         map[int64]string // by id, rewritten
}

func byID(a, b Migration) int { return cmp.Compare(a.ID, b.ID) }

// tooOld refuses when an applied migration that this program does not know asks
// for a newer one.
func tooOld(all []Migration) error {
	var newest int64
	for _, x := range all {
		if x.Known {
			newest = max(newest, x.ID)
		}
	}
	for _, x := range all {
		if !x.Known && x.Oldest > newest {
			return Excluded(x, newest)
		}
	}
	return nil
}

// ErrExcluded is in the error of a program that a migration has excluded: it must
// not use the schema any more.
var ErrExcluded = errors.New("the program is too old for the schema")

// Excluded is the error of a program whose newest migration is too old for another.
func Excluded(x Migration, newest int64) error {
	return &pawl.Error{Code: pawl.CodeUnavailable, Op: "migrate", Err: ErrExcluded,
		Message: fmt.Sprintf("the database's schema is too new for this program: migration %d (%s) needs one that knows migration %d, this one knows %d; upgrade it", x.ID, x.Description, x.Oldest, newest)}
}

// Excluding finds a migration that excludes a program; $1 is the newest that the
// program knows.
const Excluding = "SELECT id, description, oldest FROM pawl.schema_migrations WHERE id > $1 AND oldest > $1 ORDER BY id LIMIT 1"

// CheckSchema says whether this program may still use the schema: ErrExcluded.
func CheckSchema(ctx context.Context, tx Tx, m Migrator) error {
	var x Migration
	newest := m.Newest()
	found, err := Row(ctx, tx, []any{&x.ID, &x.Description, &x.Oldest}, Excluding, newest)
	if err != nil || !found {
		return err
	}
	return Excluded(x, newest)
}

// Newest implements Migrator.
func (m *migrator) Newest() int64 { return m.known[len(m.known)-1].ID }

func pending(all []Migration) bool {
	return slices.ContainsFunc(all, func(x Migration) bool { return x.ExecutedAt == 0 })
}

// Up implements Migrator. It waits for the guard only when something is missing.
func (m *migrator) Up(ctx context.Context) ([]Migration, error) {
	all, err := m.Status(ctx)
	if err == nil {
		err = tooOld(all)
	}
	if err != nil || !pending(all) {
		return nil, err
	}
	if m.guard != nil {
		release, err := m.guard(ctx)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	p, err := goose.NewProvider("", m.db, m.fsys, goose.WithStore(journal{m}), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return nil, err
	}
	done, err := p.Up(ctx)
	if err != nil {
		return nil, err
	}
	if all, err = m.Status(ctx); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(x Migration) bool {
		return !slices.ContainsFunc(done, func(r *goose.MigrationResult) bool { return r.Source.Version == x.ID })
	}), tooOld(all)
}

// Status implements Migrator.
func (m *migrator) Status(ctx context.Context) ([]Migration, error) {
	all := slices.Clone(m.known)
	exists, err := journal{m}.TableExists(ctx, m.db)
	if err != nil || !exists {
		return all, err
	}
	rows, err := m.db.QueryContext(ctx, "SELECT id, description, executed_at, oldest FROM "+m.table+" ORDER BY id")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var x Migration
		if err := rows.Scan(&x.ID, &x.Description, &x.ExecutedAt, &x.Oldest); err != nil {
			return nil, err
		}
		if i, found := slices.BinarySearchFunc(all, x, byID); found {
			all[i].ExecutedAt = x.ExecutedAt
		} else {
			all = slices.Insert(all, i, x)
		}
	}
	return all, rows.Err()
}

// SQL implements Migrator.
func (m *migrator) SQL(from int64) (string, error) {
	var b strings.Builder
	if from <= 0 {
		fmt.Fprintf(&b, "BEGIN;\n%s;\nCOMMIT;\n", strings.Join(m.create(), ";\n"))
	}
	for _, x := range m.known {
		if x.ID <= from {
			continue
		}
		alone := strings.Contains(m.texts[x.ID], "-- +goose NO TRANSACTION")
		fmt.Fprintf(&b, "\n-- %d: %s\n", x.ID, x.Description)
		if !alone {
			b.WriteString("BEGIN;\n")
		}
		for line := range strings.Lines(m.texts[x.ID]) {
			if !strings.HasPrefix(line, "-- +goose") {
				b.WriteString(line)
			}
		}
		fmt.Fprintf(&b, "%s;\n", m.insert(x))
		if !alone {
			b.WriteString("COMMIT;\n")
		}
	}
	return b.String(), nil
}

// rewritten is a folder whose .sql files read as rewrite has them.
type rewritten struct {
	fs.FS
	rewrite func(string) string
}

func (r rewritten) Open(name string) (fs.File, error) {
	f, err := r.FS.Open(name)
	if err != nil || !strings.HasSuffix(name, ".sql") {
		return f, err
	}
	text, err := io.ReadAll(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return rewrittenFile{f, strings.NewReader(r.rewrite(string(text)))}, nil
}

type rewrittenFile struct {
	fs.File
	text io.Reader
}

func (f rewrittenFile) Read(b []byte) (int, error) { return f.text.Read(b) }
