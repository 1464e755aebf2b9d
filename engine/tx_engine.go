package engine

import (
	"context"
	"fmt"

	"github.com/pawl-work/pawl"
)

// TxEngine is the service inside a transaction of the caller's own: what its verbs
// write is there when that transaction commits, and never was when it rolls back.
// It is used by one goroutine at a time, until the transaction ends.
//
//   - A verb that is refused undoes its own part; the transaction goes on. An error
//     that is unavailable or internal means that the transaction is broken: roll it
//     back.
//   - Reads see what the transaction has written.
//   - A claim does not wait, whatever its WaitSeconds. DeleteTasks, RestoreArchive,
//     Sweep and Prunable run in several transactions and are invalid here; so is
//     FollowMessage.
//   - On PostgreSQL the transaction is expected to be READ COMMITTED. A stricter one
//     may end with a serialization failure, which is the caller's to repeat.
//   - Locks that the verbs take are held until the transaction ends: keep it short.
type TxEngine struct {
	pawl.Service
	scope *scope
}

// In returns the service inside a transaction that the caller began on the engine's
// own database: a pgx.Tx or an *sql.Tx over pgx's stdlib on PostgreSQL, an *sql.Tx
// of a modernc.org/sqlite handle on the same file on SQLite; see
// docs/transactions.md. Of any other value every verb is invalid.
//
// After the commit, Committed wakes those who wait. Without it, waiting claims see
// the work at their next poll, and what follows from it is done by the next pass of
// Run.
func (e *Engine) In(tx any) *TxEngine {
	s := &scope{DB: e.root.db, begun: true}
	s.tx = s.Dialect().Wrap(tx)
	if s.tx == nil {
		s.refused = &pawl.Error{Code: pawl.CodeInvalid, Op: "in", Message: fmt.Sprintf("a %T is no transaction of a %s database: use *sql.Tx, or on postgres pgx.Tx", tx, s.Dialect().Name)}
	}
	return &TxEngine{Service: &Engine{core: e.core, db: s, scope: s}, scope: s}
}

// Create creates one task.
func (t *TxEngine) Create(ctx context.Context, task pawl.NewTask) (pawl.Task, error) {
	return pawl.Create(ctx, t, task)
}

// Committed says that the transaction has committed: claims that wait learn of its
// work at once, and what follows from it is done. Without a commit, do not call it.
func (t *TxEngine) Committed() {
	for _, fn := range t.scope.after {
		fn()
	}
	t.scope.after = nil
}
