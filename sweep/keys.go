package sweep

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// keys removes expired idempotency keys, and keys without an expiry whose call ended
// longer than RetainKeys ago.
func (p *pass) keys(ctx context.Context) error {
	err := p.remove(ctx, "expired keys", func(ctx context.Context, tx store.Tx, now int64) (int64, error) {
		return removeExpiredKeys(ctx, tx, now, batch)
	})
	if err != nil || p.Options.RetainKeys <= 0 {
		return err
	}
	return p.remove(ctx, "old keys", func(ctx context.Context, tx store.Tx, now int64) (int64, error) {
		return removeOldKeys(ctx, tx, ago(now, p.Options.RetainKeys), batch)
	})
}

func (p *pass) remove(ctx context.Context, what string, run func(ctx context.Context, tx store.Tx, now int64) (int64, error)) error {
	for {
		var n int64
		err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
			n, err = run(ctx, tx, now)
			return err
		})
		if err != nil {
			return p.logError(ctx, what, err)
		}
		p.stats.KeysPruned += n
		if n < batch {
			return nil
		}
	}
}

// removeExpiredKeys removes up to limit keys that have expired.
func removeExpiredKeys(ctx context.Context, tx store.Tx, now int64, limit int) (int64, error) {
	return tx.Exec(ctx, sweepSQL["remove expired keys"], now, limit)
}

// removeOldKeys removes up to limit keys without expiry that ended by the given time.
func removeOldKeys(ctx context.Context, tx store.Tx, endedBy int64, limit int) (int64, error) {
	return tx.Exec(ctx, sweepSQL["remove old keys"], endedBy, limit)
}

// countOldKeys counts the keys that have expired and the keys without expiry that ended by
// the given time.
func countOldKeys(ctx context.Context, tx store.Tx, now, endedBy int64) (n int64, err error) {
	_, err = store.Row(ctx, tx, []any{&n}, sweepSQL["count old keys"], now, endedBy)
	return n, err
}
