package sweep

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// copies removes the rows of copies of tasks whose process has died.
func (p *pass) copies(ctx context.Context) error {
	var found []string
	err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
		found, err = store.GivenUpCopies(ctx, tx, now, batch)
		return err
	})
	for i := 0; err == nil && i < len(found); i++ {
		err = p.RemoveCopy(ctx, found[i])
	}
	return p.logError(ctx, "copies", err)
}

// RemoveCopy removes the rows of a copy that is not made any more, in bounded transactions.
func (s *Sweeper) RemoveCopy(ctx context.Context, taskID string) error {
	for done := false; !done; {
		err := s.do(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
			done, err = store.RemoveCopy(ctx, tx, now, taskID, batch)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
