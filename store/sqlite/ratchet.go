package sqlite

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/pawl-work/pawl/store"
)

// ratchet is a clock that never turns back: not below what this process has
// used, nor below the newest stamp on record, whoever wrote it.
type ratchet struct {
	clock func() time.Time
	log   *slog.Logger // nil = a clock of one transaction, which says nothing
	last  atomic.Int64
	stood atomic.Bool // it was said that time stands still
}

func (r *ratchet) notBelow(stamp int64) int64 {
	clock := r.clock().UnixMicro()
	now := max(clock, stamp)
	for {
		last := r.last.Load()
		if last >= now {
			now = last
			break
		}
		if r.last.CompareAndSwap(last, now) {
			break
		}
	}
	if r.log != nil {
		r.compare(clock, now)
	}
	return now
}

// compare says once, each time that the clock falls behind, that time stands
// still: leases that do not end look like anything but a clock.
func (r *ratchet) compare(clock, now int64) {
	behind := time.Duration(now-clock) * time.Microsecond
	if behind < time.Second {
		if r.stood.Load() {
			r.stood.Store(false)
		}
	} else if behind > time.Minute && r.stood.CompareAndSwap(false, true) {
		r.log.Warn("the machine's clock is behind the record: until it has caught up no lease ends and nothing falls due", "behind", behind.Round(time.Second))
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
