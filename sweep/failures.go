package sweep

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// failures sets the group of failed items that an older program wrote.
func (p *pass) failures(ctx context.Context) error {
	for n := batch; n == batch; {
		err := p.do(ctx, func(ctx context.Context, tx store.Tx, _ int64) (err error) {
			n, err = store.GroupFailures(ctx, tx, batch)
			return err
		})
		if err != nil {
			return p.logError(ctx, "groups of failures", err)
		}
	}
	return nil
}
