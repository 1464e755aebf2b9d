package sweep

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// budgets ends reservations whose attempt holds no lease any more, sums up old ones, and
// removes what is left of deleted budgets.
func (p *pass) budgets(ctx context.Context) error {
	for last := ""; ; {
		next, err := store.ReclaimReservations(ctx, p.DB, last, batch)
		if err != nil {
			return p.logError(ctx, "lost reservations of budgets", err)
		}
		if last = next; last == "" {
			break
		}
	}
	if err := p.questions(ctx); err != nil {
		return err
	}
	if err := p.repeat(ctx, "old reservations of budgets", func(ctx context.Context, tx store.Tx, now int64) (int64, error) {
		return store.SumReservations(ctx, tx, ago(now, pawl.BudgetDetailKept), batch)
	}); err != nil {
		return err
	}
	return p.repeat(ctx, "reservations of deleted budgets", func(ctx context.Context, tx store.Tx, _ int64) (int64, error) {
		return store.RemoveSpendingOfNone(ctx, tx, batch)
	})
}

// questions ends the questions of items that do not ask for a budget any more.
func (p *pass) questions(ctx context.Context) error {
	for last := ""; ; {
		var old []store.TaskRef
		err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			old, err = store.OldQuestions(ctx, tx, last, batch)
			return err
		})
		for _, q := range old {
			if last = q.ID; err == nil {
				err = p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) error { return store.EndQuestion(ctx, tx, now, q) })
			}
		}
		if err != nil {
			return p.logError(ctx, "questions about budgets", err)
		}
		if len(old) < batch {
			return nil
		}
	}
}

// repeat runs a step in transactions until it changes nothing.
func (p *pass) repeat(ctx context.Context, what string, run func(ctx context.Context, tx store.Tx, now int64) (int64, error)) error {
	for {
		var n int64
		err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
			n, err = run(ctx, tx, now)
			return err
		})
		if err != nil {
			return p.logError(ctx, what, err)
		}
		if n == 0 {
			return nil
		}
	}
}
