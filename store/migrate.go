package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
)

// MigrationDB is the database that a Migrator works on.
type MigrationDB interface {
	// Applied lists the rows of the table of migrations in ascending order. It returns none if
	// there is no such table.
	Applied(ctx context.Context) ([]Migration, error)
	// Apply creates the table if there is none, with the statements of create. It then runs
	// the scripts in order, each in one transaction with its record.
	Apply(ctx context.Context, create []string, scripts []Script) error
	// Lock waits until no other process migrates. Other processes then wait until release.
	Lock(ctx context.Context) (release func(), err error)
}

// Script is a migration to run.
type Script struct {
	Migration
	SQL string // the whole of it: the transaction, with its record
}

// NewMigrator runs the files NNNN_the_words.sql of fsys and records them in table (id,
// description, executed_at, oldest). A table name with a schema before the dot is for
// PostgreSQL; the schema is created with the table.
//
// Each file has a line `-- oldest: N`. A program can use the schema after this migration
// only if it knows migration N or a newer one. NewMigrator panics on a file without the
// line; the files are embedded.
func NewMigrator(db MigrationDB, fsys fs.FS, table string) Migrator {
	schema, _, found := strings.Cut(table, ".")
	if !found {
		schema = ""
	}
	m := &migrator{db: db, table: table, schema: schema, texts: map[int64]string{}}
	names, err := fs.Glob(fsys, "*.sql")
	if err != nil || len(names) == 0 {
		panic(fmt.Sprintf("store: no migrations (%v)", err))
	}
	for _, name := range names {
		text, err := fs.ReadFile(fsys, name)
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

// Verify says whether this program may use the schema. It returns an unavailable error
// when a migration is missing, or when the schema is too new.
func Verify(ctx context.Context, m Migrator) error {
	all, err := m.Status(ctx)
	if err != nil {
		return err
	}
	for _, x := range all {
		if x.ExecutedAt == 0 {
			return &pawl.Error{Code: pawl.CodeUnavailable, Op: "migrate",
				Message: fmt.Sprintf("the database's schema is older than this program: migration %d (%s) is missing; run `pawl migrate up`", x.ID,
					x.Description)}
		}
	}
	return tooOld(all)
}

// Exists returns a not_found error when no migration was run: Pawl has never used the
// schema.
func Exists(ctx context.Context, m Migrator) error {
	all, err := m.Status(ctx)
	if err != nil || slices.ContainsFunc(all, func(x Migration) bool { return x.ExecutedAt != 0 }) {
		return err
	}
	return &pawl.Error{Code: pawl.CodeNotFound, Op: "open",
		Message: "the database does not hold Pawl's schema; check its name, or create the schema with `pawl migrate up`"}
}

// SchemaMismatch converts a migrator's error that has no known database code into an error
// that says that the schema is not what its table of migrations describes.
func SchemaMismatch(err error) error {
	var e *pawl.Error
	if !errors.As(err, &e) || e.Code != pawl.CodeInternal || e.Message != "" {
		return err
	}
	return &pawl.Error{Code: pawl.CodeInvalid, Op: "migrate", Err: e.Err,
		Message: "the schema is not what the table schema_migrations says, or that table is not Pawl's: restore a backup, or name another " +
			"database"}
}

var (
	fileName   = regexp.MustCompile(`^(\d+)_(\w+)\.sql$`)
	oldestLine = regexp.MustCompile(`(?m)^-- oldest: (\d+)$`)
)

type migrator struct {
	db            MigrationDB
	table, schema string
	known         []Migration      // ascending
	texts         map[int64]string // by id
}

func byID(a, b Migration) int { return cmp.Compare(a.ID, b.ID) }

// tooOld returns an error when an applied migration that this program does not know needs
// a newer program.
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

// ErrExcluded is in the error of a program that a migration has excluded. The program must
// not use the schema any more.
var ErrExcluded = errors.New("the program is too old for the schema")

// Excluded is the error of a program that migration x excludes. newest is the newest
// migration that the program knows.
func Excluded(x Migration, newest int64) error {
	return &pawl.Error{Code: pawl.CodeUnavailable, Op: "migrate", Err: ErrExcluded,
		Message: fmt.Sprintf("the database's schema is too new for this program: migration %d (%s) needs one that knows migration %d, this "+
			"one knows %d; upgrade it", x.ID, x.Description, x.Oldest, newest)}
}

// Excluding finds a migration that excludes a program. $1 is the newest migration that the
// program knows.
const Excluding = "SELECT id, description, oldest FROM pawl.schema_migrations WHERE id > $1 AND oldest > $1 ORDER BY id LIMIT 1"

// CheckSchema returns ErrExcluded when this program may not use the schema any more.
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

// missing returns the scripts of the migrations that were not applied. A migration that is
// older than an applied one cannot be run any more.
func (m *migrator) missing(all []Migration) ([]Script, error) {
	var scripts []Script
	for _, x := range all {
		switch {
		case x.ExecutedAt == 0:
			scripts = append(scripts, Script{Migration: x, SQL: m.script(x)})
		case len(scripts) > 0:
			return nil, fmt.Errorf("store: migration %d is applied, %d before it is not", x.ID, scripts[0].ID)
		}
	}
	return scripts, nil
}

// Up implements Migrator. It waits for the lock only when something is missing.
func (m *migrator) Up(ctx context.Context) ([]Migration, error) {
	if scripts, err := m.toApply(ctx); err != nil || len(scripts) == 0 {
		return nil, err
	}
	release, err := m.db.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	scripts, err := m.toApply(ctx) // another process may have migrated in the meantime
	if err != nil || len(scripts) == 0 {
		return nil, err
	}
	if err := m.db.Apply(ctx, m.create(), scripts); err != nil {
		return nil, err
	}
	all, err := m.Status(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(x Migration) bool {
		return !slices.ContainsFunc(scripts, func(s Script) bool { return s.ID == x.ID })
	}), tooOld(all)
}

// toApply returns the scripts that are not applied yet, if this program may use the
// database.
func (m *migrator) toApply(ctx context.Context) ([]Script, error) {
	all, err := m.Status(ctx)
	if err == nil {
		err = tooOld(all)
	}
	if err != nil {
		return nil, err
	}
	return m.missing(all)
}

// Status implements Migrator.
func (m *migrator) Status(ctx context.Context) ([]Migration, error) {
	all := slices.Clone(m.known)
	applied, err := m.db.Applied(ctx)
	for _, x := range applied {
		if i, found := slices.BinarySearchFunc(all, x, byID); found {
			all[i].ExecutedAt = x.ExecutedAt
		} else {
			all = slices.Insert(all, i, x)
		}
	}
	return all, err
}

func (m *migrator) create() []string {
	table := "CREATE TABLE IF NOT EXISTS " + m.table +
		" (\n  id          BIGINT PRIMARY KEY,\n  description TEXT NOT NULL,\n  executed_at BIGINT NOT NULL,\n  oldest      BIGINT NOT NULL\n)"
	if m.schema == "" {
		return []string{table}
	}
	return []string{"CREATE SCHEMA IF NOT EXISTS " + m.schema, table}
}

func (m *migrator) insert(x Migration) string {
	now := "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"
	if m.schema != "" {
		now = "CAST(date_part('epoch', clock_timestamp()) * 1000000 AS BIGINT)"
	}
	return fmt.Sprintf("INSERT INTO %s (id, description, executed_at, oldest) VALUES (%d, '%s', %s, %d)", m.table, x.ID, x.Description, now,
		x.Oldest)
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
		fmt.Fprintf(&b, "\n-- %d: %s\n%s", x.ID, x.Description, m.script(x))
	}
	return b.String(), nil
}

// script returns a migration's text and the statement that records it, in a transaction.
func (m *migrator) script(x Migration) string {
	var b strings.Builder
	b.WriteString("BEGIN;\n")
	for line := range strings.Lines(m.texts[x.ID]) {
		if !strings.HasPrefix(line, "-- +goose") { // marks for the program that ran the scripts before
			b.WriteString(line)
		}
	}
	fmt.Fprintf(&b, "%s;\nCOMMIT;\n", m.insert(x))
	return b.String()
}

// Rewritten returns fsys with the texts of its .sql files replaced by rewrite.
func Rewritten(fsys fs.FS, rewrite func(string) string) fs.FS { return rewritten{fsys, rewrite} }

// rewritten is a file system whose .sql files have the texts that rewrite returns.
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
