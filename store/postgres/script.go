package postgres

import (
	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// SQL returns exactly what migrating runs on a PostgreSQL database for the migrations
// after the given number. It needs no database. A schema of "" is pawl.
func SQL(schema string, from int64) (string, error) {
	if schema == "" {
		schema = "pawl"
	}
	if !identifier.MatchString(schema) {
		return "", pawl.Invalid("/schema", "%q is not a schema's name: lower-case letters, digits and underscores, at most 63", schema)
	}
	files, table := scripts(schema)
	return store.NewMigrator(nil, files, table).SQL(from)
}
