// Package postgres keeps Pawl in PostgreSQL 14 or newer, through pgx. All tables are in a
// schema of their own, and all times come from one clock, pawl.now().
//
// It uses prepared statements, SET and session-level advisory locks. A pooler between Pawl
// and the server must therefore use session pooling, not transaction pooling. The login
// needs no right beyond creating objects in the schema.
package postgres
