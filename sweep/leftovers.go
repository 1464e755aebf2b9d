package sweep

import (
	"context"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
)

// leftoversEvery is how often a process looks for files of processes that were killed.
const leftoversEvery = 10 * time.Minute

// leftovers removes what processes that were killed have left.
func (p *pass) leftovers(ctx context.Context) error {
	if now := clock.Now(); p.leftoversAt.IsZero() || now.Sub(p.leftoversAt) >= leftoversEvery {
		p.leftoversAt = now
		if err := p.Archive.RemoveAbandoned(); err != nil {
			p.Log.WarnContext(ctx, "files that killed processes have left were not removed; trying again later", "error", err)
		}
	}
	return nil
}
