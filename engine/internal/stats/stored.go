package stats

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// storedStats keeps the numbers of checkpoints and keys of namespaces, which are counted row by
// row. Large counts are kept for a hundred times as long as they took, failures of the count itself for ten times as long.
type storedStats struct {
	mu   sync.Mutex
	kept map[string]*storedCount
}

type storedCount struct {
	turn        chan struct{} // is full while a caller counts; it guards what follows
	checkpoints int64
	keys        pawl.KeyStats
	err         error
	until       time.Time
}

const (
	// smallCount is how many rows a count has that is not kept.
	smallCount = 20_000
	// maxFailedCount bounds how long a failure is kept.
	maxFailedCount = time.Minute
	// maxStoredCounts bounds the namespaces.
	maxStoredCounts = 1000
)

func (s *storedStats) of(namespace string) *storedCount {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kept[namespace]
	if k == nil {
		if s.kept == nil || len(s.kept) >= maxStoredCounts {
			s.kept = map[string]*storedCount{}
		}
		k = &storedCount{turn: make(chan struct{}, 1)}
		s.kept[namespace] = k
	}
	return k
}

// read returns the numbers of the caller's namespace. One caller counts at a time; the others wait without a connection.
func (s *storedStats) read(ctx context.Context, db *kernel.Kernel) (int64, pawl.KeyStats, error) {
	k := s.of(pawl.CallerOf(ctx).Namespace)
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return 0, pawl.KeyStats{}, ctx.Err()
	}
	began := clock.Now()
	if began.Before(k.until) {
		return k.checkpoints, k.keys, k.err
	}
	k.err = db.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		return k.count(ctx, tx, pawl.CallerOf(ctx).Namespace)
	})
	switch took := clock.Now().Sub(began); {
	case k.err != nil && ctx.Err() == nil && !store.IsDown(k.err):
		k.until = began.Add(min(11*took, maxFailedCount))
	case k.err == nil && k.checkpoints+k.keys.Pending+k.keys.Completed+k.keys.Failed > smallCount:
		k.until = began.Add(101 * took)
	}
	return k.checkpoints, k.keys, k.err
}

// count counts the checkpoints and the keys of a namespace, without those that belong to calls. It reads all of them.
func (k *storedCount) count(ctx context.Context, tx store.Tx, namespace string) error {
	_, err := store.Row(ctx, tx, []any{&k.checkpoints}, texts["checkpoints"], namespace)
	if err == nil {
		s := &k.keys
		_, err = store.Row(ctx, tx, []any{&s.Pending, &s.Completed, &s.Failed, &s.Hits, &s.Misses, &s.Replays}, texts["key stats"], namespace)
	}
	return err
}
