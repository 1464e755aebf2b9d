package postgres

import (
	"io/fs"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// SQL is exactly what migrating runs on a PostgreSQL database from after the
// given number, without a database at hand. A schema of "" is pawl.
func SQL(schema string, from int64) (string, error) {
	if schema == "" {
		schema = "pawl"
	}
	if !identifier.MatchString(schema) {
		return "", pawl.Invalid("/schema", "%q is not a schema's name: lower-case letters, digits and underscores, at most 63", schema)
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		panic(err) // embedded at build time
	}
	return store.NewMigrator(nil, files, rewriteFor(schema), `"`+schema+`".schema_migrations`, nil).SQL(from)
}
