// Package pawl defines the types, the verbs and the tables of facts of a durable work
// engine. All other packages build on it. It does no I/O and starts no goroutines.
//
// A handler of package worker needs few of its names:
//
//   - Step runs a part of the work once: what it returned is read when the handler runs again.
//   - Permanent, RetryAfter and Snooze make the errors that say what a failed attempt means.
//   - Spawn and AwaitChildren make tasks and wait for them; WaitFor and Sleep wait without a worker.
//   - Effect does something outside that must not happen twice; Reserve keeps it within a budget.
//   - StartMessage writes a reply that people read while it is written; Progress tells how far the work is.
//
// A program that makes tasks needs Create, and Await for their results.
//
// A task is a request for work; it has one or more items. A worker claims an item and
// gets a lease on it. Every write of the worker carries the fence (worker_id, attempt),
// and is refused if that claim is not the current one any more. What Pawl guarantees:
//
//   - Execution is at least once, and its recorded effect exactly once: a write, its event
//     and its idempotency record commit together or not at all.
//   - Accepted work is not lost: once a call has returned, its effect survives a killed
//     process and a restarted database.
//   - Every change of state leaves one event.
//   - The work of a dead worker is claimable again within a second after its lease ends.
//   - SQLite and PostgreSQL, in process and over HTTP, behave the same.
//
// Five tables hold the facts that code, schema, documents and tests read: the moves of
// items, tasks and messages (lifecycle.go), Errors, Events and Limits in this package,
// and the routes in package api.
//
// Service is the sum of the roles. engine.Engine implements it in process, client.Client
// over HTTP. A program should take only the role that it needs. Every verb takes a batch
// and returns one result for each call; Create, Complete and the other functions are the
// forms for a single call.
package pawl
