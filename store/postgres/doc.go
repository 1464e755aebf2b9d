// Package postgres is Pawl on PostgreSQL 14 or newer, through pgx. It keeps
// everything in a schema of its own and reads one clock, pawl.now().
//
// It uses prepared statements, SET and session-wide advisory locks, so a pooler
// between it and the server must pool sessions, not transactions. Nothing is
// needed beyond the right to create in the schema.
package postgres
