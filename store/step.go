package store

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store/objects"
)

// Step is a part of each whole pass of the sweep, in bounded transactions.
type Step struct {
	Name  string
	Quick bool                                        // of each quick pass, and before the others of a whole one
	Run   func(ctx context.Context, p Sweeping) error // deals with what is due
	// Preview counts what Run would remove; nil = it is not counted.
	Preview func(ctx context.Context, tx Tx, o *pawl.SweepOptions, out *pawl.Prunable) error
}

// Sweeping is what a step runs on.
type Sweeping struct {
	DB
	Limit   int               // how many rows one transaction deals with at most
	Options pawl.SweepOptions // in force
	Stats   *pawl.SweepStats  // of the pass
	Objects func(place string) (objects.Store, error)
	// Failed logs and counts the error of one thing. It returns the error if the pass must stop.
	Failed func(ctx context.Context, what string, err error) error
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

// Repeat repeats a part of a step until it deals with fewer rows than the limit, and returns with how many it has dealt.
func (p Sweeping) Repeat(ctx context.Context,
	do func(ctx context.Context, tx Tx, now int64, limit int) (int64, error)) (all int64, err error) {
	for n := int64(p.Limit); err == nil && n >= int64(p.Limit); {
		err = p.In(ctx, func(ctx context.Context, tx Tx, now int64) (err error) {
			n, err = do(ctx, tx, now, p.Limit)
			return err
		})
		if err == nil {
			all += n
		}
	}
	return all, err
}

// Repeat returns the Run of a step that is repeated until it deals with fewer rows than the limit.
func Repeat(do func(ctx context.Context, tx Tx, now int64, limit int) (int64, error)) func(context.Context, Sweeping) error {
	return func(ctx context.Context, p Sweeping) error {
		_, err := p.Repeat(ctx, do)
		return err
	}
}
