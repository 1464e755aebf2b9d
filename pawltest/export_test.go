package pawltest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl/store"
)

// random are the tables with values that each migration draws anew.
var random = []string{"secrets", "log_epochs", "schema_migrations"}

// Contents returns the rows of each table of a test's database, and the state of the sequences.
// Without the values of random: a PostgreSQL schema of the pool has its own.
func Contents(t testing.TB, p *Pawl) (out []string) {
	t.Helper()
	rows := func(query string) (texts []string) {
		err := p.Engine.DB().View(context.Background(), func(ctx context.Context, tx store.Tx) (err error) {
			texts, err = store.Strings(ctx, tx, query)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return texts
	}
	tables, columns := "SELECT name FROM sqlite_schema WHERE type = 'table'", func(table string) string {
		return strings.Join(rows("SELECT 'quote('||name||')' FROM pragma_table_info('"+table+"')"), " || ' ' || ")
	}
	if p.Schema != "" {
		tables = "SELECT tablename FROM pg_tables WHERE schemaname = '" + p.Schema + "'"
		columns = func(table string) string { return "CAST(" + table + " AS text)" }
		out = rows("SELECT sequencename || ' is at ' || COALESCE(last_value, 0) FROM pg_sequences WHERE schemaname = '" + p.Schema + "'")
	}
	for _, table := range rows(tables) {
		of := "pawl." + table
		if strings.HasPrefix(table, "sqlite_") {
			of = table
		}
		all := rows("SELECT " + columns(table) + " FROM " + of)
		if slices.Contains(random, table) {
			all = []string{fmt.Sprint(len(all), " rows")}
		}
		for _, row := range all {
			out = append(out, table+": "+row)
		}
	}
	slices.Sort(out)
	return out
}

// Own is Open with a new database, which is removed when the test ends.
func Own(t testing.TB, which Database) *Pawl {
	t.Helper()
	k, err := newKept(t, kind{which: which})
	if err != nil {
		t.Fatal(err)
	}
	put(k)
	p := Open(t, which)
	if p.URL != k.url || p.schema != k.schema {
		t.Fatal("another test has taken it")
	}
	return p
}

// WaitLess makes the pool wait shortly for calls that are in progress when a test ends.
func WaitLess(t *testing.T) {
	was := closeWait
	closeWait = 100 * time.Millisecond
	t.Cleanup(func() { closeWait = was })
}

// RunTransactionsTwice makes each second transaction of an engine run twice.
func RunTransactionsTwice() { twice = true }
