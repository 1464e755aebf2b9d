package postgres

import (
	"context"
	"strings"
)

// compact vacuums every table of a schema, one after the other. Reads and writes go on. What it gives back is at the
// end of a table; the rest is used for new rows.
func (d *db) compact(ctx context.Context, schema string) (freed int64, err error) {
	size := func() (n int64, err error) {
		err = d.plain.QueryRowContext(ctx, "SELECT COALESCE(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "+
			"WHERE c.relnamespace = to_regnamespace(quote_ident($1)) AND c.relkind = 'r'", schema).Scan(&n)
		return n, err
	}
	before, err := size()
	if err != nil {
		return 0, classify(err)
	}
	var text string
	if err := d.plain.QueryRowContext(ctx, "SELECT string_agg(format('VACUUM (ANALYZE) %I.%I', schemaname, tablename), ';') "+
		"FROM pg_tables WHERE schemaname = $1", schema).Scan(&text); err != nil {
		return 0, classify(err)
	}
	for _, vacuum := range strings.Split(text, ";") { // each outside of a transaction
		if _, err := d.plain.ExecContext(ctx, vacuum); err != nil {
			return 0, classify(err)
		}
	}
	after, err := size()
	return max(0, before-after), classify(err)
}
