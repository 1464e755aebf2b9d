package store

import (
	"context"

	"github.com/pawl-work/pawl"
)

// Step is a part of each whole pass of the sweep, in bounded transactions.
type Step struct {
	Name string
	// Run deals with what is due. It returns with how many rows.
	Run func(ctx context.Context, p Sweeping) (n int64, err error)
	// Counts is where the rows are counted; nil = nowhere.
	Counts func(s *pawl.SweepStats) *int64
}

// Sweeping is what a step runs on.
type Sweeping struct {
	DB
	Options pawl.SweepOptions
	Limit   int // how many rows one transaction deals with at most
}

// In runs fn in a transaction, with the transaction's time.
func (p Sweeping) In(ctx context.Context, fn func(ctx context.Context, tx Tx, now int64) error) error {
	return p.Do(ctx, func(ctx context.Context, tx Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		return fn(ctx, tx, now)
	})
}

// Repeat returns the Run of a step that is repeated until it deals with fewer rows than the limit.
func Repeat(do func(ctx context.Context, tx Tx, now int64, limit int) (int64, error)) func(context.Context, Sweeping) (int64, error) {
	return func(ctx context.Context, p Sweeping) (all int64, err error) {
		for n := int64(p.Limit); err == nil && n >= int64(p.Limit); all += n {
			n = 0
			err = p.In(ctx, func(ctx context.Context, tx Tx, now int64) (err error) {
				n, err = do(ctx, tx, now, p.Limit)
				return err
			})
		}
		return all, err
	}
}
