package sqlite

// SQL is exactly what migrating runs on a SQLite database from after the given
// number, without a database at hand.
func SQL(from int64) (string, error) { return (&db{}).migrator().SQL(from) }
