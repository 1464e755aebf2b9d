package sqlite

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pawl-work/pawl/store"
)

// ratchet is a clock that never turns back: not below what this process has
// used, nor below the newest stamp on record, whoever wrote it.
type ratchet struct {
	clock func() time.Time
	last  atomic.Int64
}

func (r *ratchet) notBelow(stamp int64) int64 {
	now := max(r.clock().UnixMicro(), stamp)
	for {
		last := r.last.Load()
		if last >= now {
			return last
		}
		if r.last.CompareAndSwap(last, now) {
			return now
		}
	}
}

// read is the time for a transaction: one look at the newest event.
func (r *ratchet) read(ctx context.Context, tx store.Tx) (int64, error) {
	var newest int64
	if _, err := store.Row(ctx, tx, []any{&newest}, "SELECT created_at FROM pawl.task_events ORDER BY id DESC LIMIT 1"); err != nil {
		return 0, err
	}
	return r.notBelow(newest), nil
}
