package sqlite

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawl-work/pawl/store"
)

// fences are triggers whose names begin with moving_.
var fences = store.Fences{
	Tables:  fencedTables,
	Columns: columns,
	Clock:   present,
	Watch:   watchTable,
	Unwatch: func(table string) (out []string) {
		for _, op := range []string{"insert", "update", "delete"} {
			out = append(out, "DROP TRIGGER IF EXISTS pawl.moving_"+table+"_"+op)
		}
		return out
	},
	Last: func(context.Context, store.Tx) error { return nil }, // one transaction writes at a time
	Renumber: func(ctx context.Context, tx store.Tx, table string, least int64) error {
		// The rows have raised it.
		_, err := tx.Exec(ctx, "UPDATE sqlite_sequence SET seq = MAX(seq, $2) WHERE name = 'pawl.' || $1", table, least)
		return err
	},
	Draw: func(ctx context.Context, tx store.Tx, table string, n int) (out []int64, err error) {
		var last int64
		_, err = store.Row(ctx, tx, []any{&last}, "SELECT seq FROM sqlite_sequence WHERE name = 'pawl.' || $1", table)
		for i := range int64(n) {
			out = append(out, last+1+i)
		}
		if err == nil {
			_, err = tx.Exec(ctx, "UPDATE sqlite_sequence SET seq = $2 WHERE name = 'pawl.' || $1", table, last+int64(n))
		}
		if err == nil && last == 0 {
			_, err = tx.Exec(ctx, "INSERT INTO sqlite_sequence (name, seq) SELECT 'pawl.' || $1, $2\n"+
				"WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'pawl.' || $1)", table, int64(n))
		}
		return out, err
	},
	Stage: func(table, as string, columns []store.TableColumn) []string {
		key := strings.Join(store.ColumnNames(store.KeyColumns(columns)), ", ")
		return []string{"CREATE TABLE IF NOT EXISTS pawl." + as + " AS SELECT * FROM pawl." + table + " LIMIT 0",
			"CREATE UNIQUE INDEX IF NOT EXISTS pawl." + as + "_key ON pawl." + as + " (" + key + ")"}
	},
	Value: func(_ store.TableColumn, v any) any { return v },
}

func fencedTables(ctx context.Context, tx store.Tx) (out []string, err error) {
	err = store.EachRow(ctx, tx, func(rows store.Rows) error {
		var name string
		err := rows.Scan(&name)
		out = append(out, name)
		return err
	}, `SELECT substr(name, 1 + length('pawl.'))
FROM sqlite_schema
WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND substr(name, 1, length('pawl.')) = 'pawl.'
ORDER BY name`)
	return out, err
}

func columns(ctx context.Context, tx store.Tx, table string) (out []store.TableColumn, err error) {
	err = store.EachRow(ctx, tx, func(rows store.Rows) error {
		var c store.TableColumn
		var kind string
		err := rows.Scan(&c.Name, &kind, &c.Key)
		switch strings.ToUpper(kind) {
		case "TEXT":
			c.Kind = store.TextColumn
		case "BLOB":
			c.Kind = store.BytesColumn
		}
		out = append(out, c)
		return err
	}, "SELECT name, type, pk FROM pragma_table_info('pawl."+table+"') ORDER BY cid")
	return out, err
}

// present is the time in a trigger.
const present = "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"

// beingMoved ends what a trigger of watchTable says. SQLite has one code for the refusals of all triggers.
const beingMoved = "is being moved"

// watchTable makes triggers. What they refuse looks into the table relocations.
func watchTable(table string, columns []store.TableColumn, refuse, noted string) (out []string) {
	for _, op := range []string{"insert", "update", "delete"} {
		var body strings.Builder
		for _, row := range []string{"OLD", "NEW"} {
			if op == "insert" && row == "OLD" || op == "delete" && row == "NEW" {
				continue
			}
			var key []string
			for _, c := range store.KeyColumns(columns) {
				v := row + "." + c.Name
				if c.Kind == store.BytesColumn {
					v = "hex(" + v + ")"
				}
				key = append(key, v)
			}
			of := strings.NewReplacer("$row", row, "@clock", present).Replace
			fmt.Fprintf(&body, "SELECT RAISE(ABORT, 'pawl: %s %s') WHERE %s;\n", table, beingMoved, of(refuse))
			fmt.Fprintf(&body, "INSERT INTO pawl.relocation_changes (named, key) SELECT '%s', json_array(%s) WHERE %s;\n", table,
				strings.Join(key, ", "), of(noted))
		}
		out = append(out, "DROP TRIGGER IF EXISTS pawl.moving_"+table+"_"+op, // that of an earlier move
			fmt.Sprintf("CREATE TRIGGER pawl.moving_%s_%s AFTER %s ON pawl.%s\nBEGIN\n%sEND", table, op, op, table, &body))
	}
	return out
}
