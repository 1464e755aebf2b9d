package sqlite

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// Columns are scanned into variables as with database/sql, which runs the same statements
// in a caller's own transaction.
func TestAssign(t *testing.T) {
	var (
		text    string
		typed   pawl.ItemState
		number  int
		big     int64
		small   int8
		flag    bool
		maybe   *int64
		perhaps *string
		null    store.Text
		share   float64
		bytes   []byte
		other   any
	)
	for _, ok := range []struct{ dest, value any }{
		{&text, "a"}, {&typed, "queued"}, {&number, int64(7)}, {&big, int64(1 << 40)}, {&flag, int64(1)}, {&maybe, int64(5)}, {&perhaps, "b"},
		{&null, nil}, {&share, 0.5}, {&bytes, []byte{1}}, {&other, "c"},
	} {
		if err := assign(ok.dest, ok.value); err != nil {
			t.Errorf("%T from %T: %v", ok.dest, ok.value, err)
		}
	}
	if text != "a" || typed != "queued" || number != 7 || big != 1<<40 || !flag || *maybe != 5 || *perhaps != "b" || null != "" ||
		share != 0.5 || len(bytes) != 1 || other != "c" {
		t.Error("something was assigned wrongly")
	}
	if err := errors.Join(assign(&maybe, nil), assign(&bytes, nil), assign(&other, nil)); err != nil || maybe != nil || bytes != nil ||
		other != nil {
		t.Errorf("NULL: %v, %v, %v, %v", maybe, bytes, other, err)
	}
	for _, bad := range []struct{ dest, value any }{{&text, nil}, {&number, nil}, {&small, int64(1 << 10)}, {&number, "7"}, {&flag, int64(2)},
		{&text, []byte("x")}} {
		if err := assign(bad.dest, bad.value); err == nil {
			t.Errorf("a %T went into a %T", bad.value, bad.dest)
		}
	}
}

// A statement is run again with the arguments of its next use, whatever the last ones were:
// SQLite keeps what a parameter is bound to, except for large values.
func TestArgumentsOfTheNextUse(t *testing.T) {
	c, err := openConn(t.TempDir()+"/file", true, writerPragmas)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	large := strings.Repeat("x", largeArgument)
	for i, args := range [][]any{
		{"a", int64(1)}, {"a", int64(2)}, {store.Text("a"), 2}, {store.Text(""), nil}, {nil, int64(2)}, {large, "a"}, {large, "a"}, {"b", "a"},
		{[]byte("b"), true}, {"b", "a"}, {store.ItemID(""), "a"}, {"", "a"},
	} {
		var got, want [2]any
		if err := c.row([]any{&got[0], &got[1]}, "SELECT $1, $2", args...); err != nil {
			t.Fatal(err)
		}
		if err := c.row([]any{&want[0], &want[1]}, fmt.Sprintf("SELECT $1, $2 -- %d", i), args...); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%v was read as %v, want %v", args, got, want)
		}
	}
}

// Parameters are found by their number, in any order in the text, and a statement that is
// being read can be run again.
func TestStatements(t *testing.T) {
	c, err := openConn(t.TempDir()+"/none.db", false, writerPragmas)
	if err == nil {
		_ = c.close()
		t.Fatal("a file that is not there was opened")
	}
	if codeOf(err) == 0 {
		t.Errorf("no code in %v", err)
	}
	db := newDatabase(t).open()
	err = db.Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
		const query = "SELECT $2, $1, $2 UNION ALL SELECT 'x', 'y', 'z'"
		outer, err := tx.Query(ctx, query, "one", "two")
		if err != nil {
			return err
		}
		defer outer.Close()
		var seen []string
		for outer.Next() {
			var a, b, c string
			if err := outer.Scan(&a, &b, &c); err != nil {
				return err
			}
			var d, e, f int64
			if _, err := store.Row(ctx, tx, []any{&d, &e, &f}, query, int64(1), true); err != nil {
				return err
			}
			seen = append(seen, fmt.Sprint(a, b, c, d, e, f))
		}
		if want := []string{"twoonetwo1 1 1", "xyz1 1 1"}; !slices.Equal(seen, want) {
			t.Errorf("%q, want %q", seen, want)
		}
		if _, err := tx.Exec(ctx, "SELECT $1, $2", "one"); err == nil {
			t.Error("a missing argument was accepted")
		}
		return outer.Err()
	})
	if err == nil {
		t.Error("a transaction whose statement could not run was committed")
	}
}
