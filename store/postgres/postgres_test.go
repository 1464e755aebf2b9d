package postgres_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/postgres"
)

// database is an empty, migrated schema for one test, with a connection that reads the tables
// directly.
type database struct {
	*testing.T
	db     store.DB
	schema string
	conn   *pgx.Conn
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

var schemas atomic.Int64

func server(t *testing.T) string {
	url := os.Getenv("PAWL_TEST_POSTGRES")
	switch {
	case url != "":
	case os.Getenv("CI") == "true":
		t.Fatal("PAWL_TEST_POSTGRES names no server")
	default:
		t.Skip("PAWL_TEST_POSTGRES names no server")
	}
	return url
}

// emptyDatabase returns a schema that does not exist yet and is removed with the test.
func emptyDatabase(t *testing.T) *database {
	h := &database{T: t, schema: fmt.Sprintf("pawl_%d_%d_%d", os.Getpid(), clock.Now().UnixMicro(), schemas.Add(1))}
	var err error
	if h.conn, err = pgx.Connect(t.Context(), server(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.exec("DROP SCHEMA IF EXISTS " + h.schema + " CASCADE")
		h.conn.Close(context.Background())
	})
	h.exec("SET search_path = " + h.schema)
	return h
}

func (h *database) open() store.DB {
	h.Helper()
	db, err := postgres.Open(h.Context(), server(h.T), postgres.Options{Schema: h.schema, Log: quiet})
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { db.Close() })
	return db
}

func newDatabase(t *testing.T) *database {
	h := emptyDatabase(t)
	h.db = h.open()
	if _, err := h.db.Dialect().Migrator.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *database) exec(query string, args ...any) {
	h.Helper()
	if _, err := h.conn.Exec(context.Background(), query, args...); err != nil {
		h.Fatalf("%s: %v", query, err)
	}
}

// advance moves the database's clock forward permanently.
func (h *database) advance(d time.Duration) {
	h.Helper()
	h.exec("CREATE TABLE IF NOT EXISTS ahead (micros bigint)")
	h.exec("INSERT INTO ahead VALUES ($1)", d.Microseconds())
	h.exec("CREATE OR REPLACE FUNCTION now() RETURNS bigint LANGUAGE sql VOLATILE AS $$ " +
		"SELECT (date_part('epoch', clock_timestamp()) * 1000000 + (SELECT sum(micros) FROM " + h.schema + ".ahead))::bigint $$")
}

// one returns the first row of a query as text, or "" when there is none.
func (h *database) one(query string, args ...any) string {
	h.Helper()
	var s *string
	err := h.conn.QueryRow(context.Background(), "SELECT string_agg(q::text, ' ') FROM ("+query+") q", args...).Scan(&s)
	if err != nil {
		h.Fatalf("%s: %v", query, err)
	}
	if s == nil {
		return ""
	}
	return *s
}

// want compares the rows of a query, as PostgreSQL writes rows, with a text. Ids are those
// of items, and are written as in narrow.
func (h *database) want(wanted, query string, args ...any) {
	h.Helper()
	query = shortID.ReplaceAllStringFunc(query, func(short string) string { return h.schema + ".id('" + wide(short) + "')" })
	for i := range args {
		if id, ok := args[i].(string); ok && len(id) == 30 {
			for _, b := range []store.ID{store.TaskID(id), store.ItemID(id)} {
				if _, ok := b.Bytes(); ok {
					args[i] = b
				}
			}
		}
	}
	if got := narrow(h.one(query, args...)); got != wanted {
		h.Errorf("%s\n got  %s\n want %s", query, got, wanted)
	}
}

// auto runs one hot verb.
func (h *database) auto(fn func(ctx context.Context, tx store.Tx, hot store.Hot) error) {
	h.Helper()
	err := h.db.Auto(h.Context(), func(ctx context.Context, tx store.Tx) error { return fn(ctx, tx, h.db.Dialect().Hot) })
	if err != nil {
		h.Fatal(err)
	}
}

var (
	shortID = regexp.MustCompile(`'?(tsk|itm)_(\d{6})(_\d{6})?'?`)
	wideID  = regexp.MustCompile(`(tsk|itm)_(\d{6})([01])0{13}(\d{6})`)
	uuid    = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
)

// wide returns the id that the tests write as tsk_000001 or, for an item of a task of many,
// itm_000001_000002.
func wide(short string) string {
	m := shortID.FindStringSubmatch(short)
	if m[3] == "" {
		return m[1] + "_" + m[2] + strings.Repeat("0", 20)
	}
	return m[1] + "_" + m[2] + "1" + strings.Repeat("0", 13) + m[3][1:]
}

// narrow replaces ids and the UUIDs of items by what wide made them of.
func narrow(text string) string {
	text = uuid.ReplaceAllStringFunc(text, func(u string) string {
		var id store.ItemID
		_ = id.Scan(u) // it is a UUID
		return string(id)
	})
	return wideID.ReplaceAllStringFunc(text, func(id string) string {
		m := wideID.FindStringSubmatch(id)
		if m[3] == "0" {
			return m[1] + "_" + m[2]
		}
		return m[1] + "_" + m[2] + "_" + m[4]
	})
}
