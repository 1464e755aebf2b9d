// Package pawl is the language of a durable engine for long, expensive,
// failure-prone work: its nouns, its verbs and the tables of facts that every
// other package reads. It does no I/O and starts no goroutine.
//
// A task is what somebody asked for; it has one or more items. A worker claims
// an item and holds a lease on it; whatever the worker writes carries
// (worker_id, attempt), the fence, and is refused whole when that claim is no
// longer the current one. What Pawl promises:
//
//   - At-least-once execution, exactly-once effect on record: a write, its event
//     and its idempotency record commit together or not at all.
//   - Nothing accepted is lost: once a call has answered, its effect survives a
//     killed process and a restarted database.
//   - Every change of state leaves one event.
//   - A dead worker's work is claimable again within a second of its lease's end.
//   - SQLite and PostgreSQL, in process and over HTTP, behave alike.
//
// Five tables hold the facts; code, schema, documents and tests read them:
// the moves of items, tasks and messages (lifecycle.go), Errors, Events and
// Limits here, and the routes in package api.
//
// Service, the sum of the roles, is implemented by engine.Engine in process and
// by client.Client over HTTP. Programs take only the role they need. Every verb
// takes a batch and answers each call of it on its own; the functions Create,
// Complete and so on are the single forms.
package pawl
