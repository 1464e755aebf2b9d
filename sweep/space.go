package sweep

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// space gives back what the removed rows leave free, in short transactions. It is the last step, after those that remove.
func (p *pass) space(ctx context.Context) error {
	for more := true; more; {
		err := p.do(ctx, func(ctx context.Context, tx store.Tx, _ int64) (err error) {
			more, err = p.DB.Dialect().Shrink(ctx, tx)
			return err
		})
		if err != nil {
			return p.logError(ctx, "space", err)
		}
	}
	return nil
}
