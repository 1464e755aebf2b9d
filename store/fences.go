package store

import (
	"cmp"
	"context"
	"slices"
)

// TableColumn is a column of a table, as the schema has it.
type TableColumn struct {
	Name string
	Kind ColumnKind
	Key  int // its place in the primary key; 0 = it is not in it
}

// KeyColumns returns the columns of the primary key, in its order.
func KeyColumns(columns []TableColumn) (key []TableColumn) {
	for _, c := range columns {
		if c.Key > 0 {
			key = append(key, c)
		}
	}
	slices.SortFunc(key, func(a, b TableColumn) int { return cmp.Compare(a.Key, b.Key) })
	return key
}

// ColumnNames returns the names of columns.
func ColumnNames(columns []TableColumn) (out []string) {
	for _, c := range columns {
		out = append(out, c.Name)
	}
	return out
}

// ColumnKind is what the values of a column are.
type ColumnKind int

// The kinds of columns.
const (
	NumberColumn ColumnKind = iota
	TextColumn
	BytesColumn
	UUIDColumn // bytes that the database has a type for
)

// Fences are what a database has for moving its rows to another database: see package
// store/relocate.
type Fences struct {
	// Tables lists all tables of the schema.
	Tables func(ctx context.Context, tx Tx) ([]string, error)
	// Columns lists the columns of a table.
	Columns func(ctx context.Context, tx Tx, table string) ([]TableColumn, error)
	// Clock is the time in a trigger, in microseconds, whatever Tx.Now says.
	Clock string
	// Watch returns the statements that make a table's triggers: each change runs the condition
	// refuse, which refers to the row as $row and to the time as @clock, and is refused with ErrFenced where it is true,
	// and is noted in relocation_changes while noted is true.
	Watch func(table string, columns []TableColumn, refuse, noted string) []string
	// Unwatch returns the statements that remove these triggers, where there are any.
	Unwatch func(table string) []string
	// Last waits until every transaction that has written to a watched table has ended, and keeps
	// others from writing until the present one ends.
	Last func(ctx context.Context, tx Tx) error
	// Renumber lets new rows have numbers above those that a table has, and above least.
	Renumber func(ctx context.Context, tx Tx, table string, least int64) error
	// Draw returns n numbers for new rows of a table, in order.
	Draw func(ctx context.Context, tx Tx, table string, n int) ([]int64, error)
	// Stage returns the statements that make an empty table with the columns and the key of another.
	Stage func(table, as string, columns []TableColumn) []string
	// Value makes an argument of a value that the other database has returned.
	Value func(c TableColumn, v any) any
}

// EachRow calls scan for each row of a query's result.
func EachRow(ctx context.Context, tx Tx, scan func(rows Rows) error, query string, args ...any) error {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
