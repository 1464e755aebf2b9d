package engine

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/postgres"
	"github.com/pawl-work/pawl/store/sqlite"
)

// Inside creates work in the caller's own transaction: it is there when that
// commits, and never was when it rolls back.
type Inside struct {
	e   *Engine
	tx  store.Tx
	err error
}

// In wraps a transaction that the caller began on the engine's own database: a
// pgx.Tx or an *sql.Tx over pgx's stdlib on PostgreSQL, an *sql.Tx of a
// modernc.org/sqlite handle on the same file on SQLite; see docs/transactions.md. Waiting claims see the work at their next poll after the
// commit.
func (e *Engine) In(tx any) *Inside {
	in := &Inside{e: e}
	d := e.db.Dialect()
	switch t := tx.(type) {
	case pgx.Tx:
		if d.Name != "sqlite" {
			in.tx = postgres.WrapTx(t, d.Schema)
		}
	case *sql.Tx:
		if d.Name == "sqlite" {
			in.tx = sqlite.WrapTx(t, e.opts.Clock)
		} else {
			in.tx = postgres.WrapSQL(t, d.Schema)
		}
	}
	if in.tx == nil {
		in.err = &pawl.Error{Code: pawl.CodeInvalid, Op: "create", Message: fmt.Sprintf("a %T is no transaction of a %s database: use *sql.Tx, or on postgres pgx.Tx", tx, d.Name)}
	}
	return in
}

// CreateTasks is pawl.TaskMaker's, in the caller's transaction. An error of the
// whole batch means that the transaction is spoilt and must be rolled back.
func (in *Inside) CreateTasks(ctx context.Context, tasks []pawl.NewTask) ([]pawl.Result[pawl.Task], error) {
	if in.err != nil {
		return nil, in.err
	}
	tasks = pawl.Provenant(ctx, tasks)
	out, drafts, err := in.e.draftAll(ctx, tasks)
	if err != nil {
		return nil, err
	}
	for _, d := range drafts {
		if d.task.Dedupes {
			older, err := store.HolderOfHash(ctx, in.tx, d.task.Namespace, d.task.Type, string(d.task.InputHash))
			if err != nil {
				return nil, err
			}
			if older != "" {
				out[d.ord].Value, err = store.GetTask(ctx, in.tx, d.task.Namespace, older)
				out[d.ord].Value.Deduplicated, out[d.ord].Err = true, err
				continue
			}
		}
		made, err := insertDrafts(ctx, in.tx, in.e.db.Dialect().Hot, []draft{d})
		if err != nil {
			return nil, err
		}
		v, err := voucher(ctx, "", "create", &tasks[d.ord])
		if err == nil {
			err = keepVouchers(ctx, in.tx, in.e.vouch(nil, v, deed{task: d.task.ID}))
		}
		if err != nil {
			return nil, err
		}
		out[d.ord].Value = d.answer(made[0].now)
	}
	return out, nil
}

// Create creates one task in the caller's transaction.
func (in *Inside) Create(ctx context.Context, t pawl.NewTask) (pawl.Task, error) {
	rs, err := in.CreateTasks(ctx, []pawl.NewTask{t})
	if err != nil {
		return pawl.Task{}, err
	}
	return rs[0].Value, rs[0].Err
}
