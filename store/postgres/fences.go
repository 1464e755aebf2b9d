package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawl-work/pawl/store"
)

// fenced is the SQLSTATE of a change that a trigger of a move refuses.
const fenced = "PWMOV"

// movingLock is the advisory lock that writers of watched tables share.
const movingLock = "hashtextextended('pawl.relocations'::regclass::oid::text, 20251)"

// movingCode is the code whose row of moves each step of a move writes anew. A transaction with one snapshot that is older than
// the step does not see the step. It locks that row, which ends it with a serialization failure.
const movingCode = "(SELECT MIN(x.code) FROM pawl.moves x)"

// fences are triggers, and functions of the same names, that begin with moving_.
var fences = store.Fences{
	Tables:  fencedTables,
	Columns: columns,
	Clock:   present,
	Watch:   watchTable,
	Unwatch: func(table string) []string {
		return []string{"DROP TRIGGER IF EXISTS moving_" + table + " ON pawl." + table, "DROP FUNCTION IF EXISTS pawl.moving_" + table + "()"}
	},
	Last: func(ctx context.Context, tx store.Tx) error {
		_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock("+movingLock+")")
		if err == nil {
			_, err = tx.Exec(ctx, "UPDATE pawl.moves\nSET code = code\nWHERE code = "+movingCode)
		}
		return err
	},
	Renumber: func(ctx context.Context, tx store.Tx, table string, least int64) error {
		_, err := tx.Exec(ctx, "SELECT setval(pg_get_serial_sequence('pawl."+table+"', 'id'), m.id)\n"+
			"FROM (SELECT GREATEST(MAX(id), $1) AS id FROM pawl."+table+") m\nWHERE m.id > 0", least)
		return err
	},
	Draw: func(ctx context.Context, tx store.Tx, table string, n int) ([]int64, error) {
		return store.Ints(ctx, tx, "SELECT nextval(pg_get_serial_sequence('pawl."+table+"', 'id')) FROM generate_series(1, $1::bigint)", int64(n))
	},
	Stage: func(table, as string, columns []store.TableColumn) []string {
		return []string{"CREATE TABLE IF NOT EXISTS pawl." + as + " (LIKE pawl." + table + ", PRIMARY KEY (" +
			strings.Join(store.ColumnNames(store.KeyColumns(columns)), ", ") + "))"}
	},
	Value: func(c store.TableColumn, v any) any {
		if b, ok := v.([]byte); ok && c.Kind == store.UUIDColumn && len(b) == 16 {
			return [16]byte(b)
		}
		return v
	},
}

func fencedTables(ctx context.Context, tx store.Tx) (out []string, err error) {
	err = store.EachRow(ctx, tx, func(rows store.Rows) error {
		var name string
		err := rows.Scan(&name)
		out = append(out, name)
		return err
	}, `SELECT c.relname::text FROM pg_class c
WHERE c.relkind = 'r' AND c.relnamespace = (SELECT i.relnamespace FROM pg_class i WHERE i.oid = 'pawl.items'::regclass)
ORDER BY c.relname`)
	return out, err
}

func columns(ctx context.Context, tx store.Tx, table string) (out []store.TableColumn, err error) {
	err = store.EachRow(ctx, tx, func(rows store.Rows) error {
		var c store.TableColumn
		var kind string
		err := rows.Scan(&c.Name, &kind, &c.Key)
		switch kind {
		case "text":
			c.Kind = store.TextColumn
		case "bytea":
			c.Kind = store.BytesColumn
		case "uuid":
			c.Kind = store.UUIDColumn
		}
		out = append(out, c)
		return err
	}, `SELECT a.attname::text, t.typname::text, COALESCE(array_position(i.indkey::int2[], a.attnum), -1) + 1
FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
WHERE a.attrelid = 'pawl.`+table+`'::regclass AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum`)
	return out, err
}

// present is the time in a trigger.
const present = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

// watchTable makes a trigger and its function. A writer shares the lock until its transaction ends, so
// that Last waits for it.
func watchTable(table string, columns []store.TableColumn, refuse, noted string) []string {
	var body strings.Builder
	for _, row := range []string{"OLD", "NEW"} {
		var key []string
		for _, c := range store.KeyColumns(columns) {
			key = append(key, row+"."+c.Name)
		}
		of := strings.NewReplacer("$row", row, "@clock", present).Replace
		not := map[string]string{"OLD": "INSERT", "NEW": "DELETE"}[row]
		fmt.Fprintf(&body, `  IF TG_OP <> '%s' THEN
    IF %s THEN RAISE EXCEPTION 'pawl: %s is being moved' USING ERRCODE = '%s'; END IF;
    IF %s THEN INSERT INTO pawl.relocation_changes (named, key) VALUES ('%s', jsonb_build_array(%s)::text); END IF;
  END IF;
`, not, of(refuse), table, fenced, of(noted), table, strings.Join(key, ", "))
	}
	return []string{
		fmt.Sprintf("CREATE OR REPLACE FUNCTION pawl.moving_%s() RETURNS trigger LANGUAGE plpgsql AS $moving$\nBEGIN\n"+
			"  PERFORM pg_advisory_xact_lock_shared(%s);\n  IF current_setting('transaction_isolation') NOT LIKE 'read %%' THEN\n"+
			"    PERFORM 1 FROM pawl.moves m WHERE m.code = %s FOR SHARE;\n  END IF;\n%s  RETURN NULL;\nEND $moving$",
			table, movingLock, movingCode, &body),
		fmt.Sprintf("DROP TRIGGER IF EXISTS moving_%s ON pawl.%s", table, table),
		fmt.Sprintf("CREATE TRIGGER moving_%s AFTER INSERT OR UPDATE OR DELETE ON pawl.%s FOR EACH ROW EXECUTE FUNCTION pawl.moving_%s()",
			table, table, table),
	}
}
