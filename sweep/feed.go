package sweep

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// feed removes pages of the feed whose events are all deleted, once the pages are older
// than RetainTasks. Each pass checks some of the old pages and the next one continues
// there.
func (p *pass) feed(ctx context.Context) error {
	if p.Options.RetainTasks <= 0 || p.DB.Dialect().Commits == nil {
		return nil
	}
	err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
		p.feedSeen, err = store.PruneFeed(ctx, tx, p.feedSeen, ago(now, p.Options.RetainTasks), batch)
		return err
	})
	return p.logError(ctx, "feed", err)
}
