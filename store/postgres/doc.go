// Package postgres keeps Pawl in PostgreSQL 14 or newer, through pgx. All tables are in a
// schema of their own, and all times come from one clock, pawl.now().
//
// Where a connection is a session, it has settings and prepared statements, and one of them listens.
// Behind a pooler of transactions nothing relies on a session: settings go with the statements, in
// the same transaction. The login needs no right beyond creating objects in the schema.
package postgres
