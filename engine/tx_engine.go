package engine

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
)

// TxEngine is the service inside a caller's own transaction. What its verbs write is
// committed or rolled back with that transaction. Only one goroutine at a time may use
// it, until the transaction ends.
//
//   - A verb that is refused undoes its own part; the transaction goes on. An error
//     that is unavailable or internal means that the transaction is broken: roll it
//     back.
//   - Reads see what the transaction has written.
//   - A claim does not wait, whatever its WaitSeconds. DeleteTasks, RestoreArchive,
//     Sweep and Prunable run in several transactions and are invalid here; so are
//     FollowEvents, FollowMessage, and pawl.Await of a task that has not ended.
//   - On PostgreSQL the transaction should be READ COMMITTED. A stricter one may end
//     with a serialization failure; the caller must then repeat it. In a stricter one, a
//     claim from a queue with limits is invalid.
//   - Locks that the verbs take are held until the transaction ends: keep it short.
type TxEngine struct {
	pawl.Service
	scope *kernel.Scope
}

// In returns the service inside a transaction that the caller began on the engine's own
// database. On PostgreSQL tx is a pgx.Tx, or an *sql.Tx over pgx's stdlib. On SQLite it
// is an *sql.Tx of a modernc.org/sqlite handle on the same file; see
// docs/transactions.md. With any other value every verb is invalid.
//
// Call Committed after the commit: it wakes waiting claims. Without that call, waiting
// claims see the work at their next poll, and the next pass of Run does what follows from
// it.
func (e *Engine) In(tx any) *TxEngine {
	in := e.root.over(e.k.In(tx))
	return &TxEngine{Service: in, scope: in.scope}
}

// AwaitTask is Engine.AwaitTask; it does not wait.
func (t *TxEngine) AwaitTask(ctx context.Context, id string, look func(ctx context.Context) (done bool, err error)) error {
	return t.Service.(*Engine).AwaitTask(ctx, id, look)
}

// InTransaction says that a call that failed is not to be made again in this service: the
// transaction is broken then.
func (t *TxEngine) InTransaction() bool { return true }

// Create creates one task.
func (t *TxEngine) Create(ctx context.Context, task pawl.NewTask) (pawl.Task, error) {
	return pawl.Create(ctx, t, task)
}

// Committed must be called only after the transaction has committed. It wakes the claims
// that wait for its work and does what follows from it.
func (t *TxEngine) Committed() {
	t.scope.Committed()
}
