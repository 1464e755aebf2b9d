package engine

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// storedStats keeps the numbers of checkpoints and keys of namespaces, which are counted row by
// row. Large counts are kept for a hundred times as long as they took.
type storedStats struct {
	mu   sync.Mutex
	kept map[string]storedCount
}

type storedCount struct {
	checkpoints int64
	keys        pawl.KeyStats
	until       time.Time
}

const (
	// smallCount is how many rows a count has that is not kept.
	smallCount = 20_000
	// maxStoredCounts bounds the namespaces.
	maxStoredCounts = 1000
)

func (s *storedStats) get(ctx context.Context, tx store.Tx, namespace string) (int64, pawl.KeyStats, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	began := clock.Now()
	if k, found := s.kept[namespace]; found && began.Before(k.until) {
		return k.checkpoints, k.keys, nil
	}
	checkpoints, keys, err := store.StoredStats(ctx, tx, namespace)
	if err == nil && checkpoints+keys.Pending+keys.Completed+keys.Failed > smallCount {
		if s.kept == nil || len(s.kept) >= maxStoredCounts {
			s.kept = map[string]storedCount{}
		}
		s.kept[namespace] = storedCount{checkpoints, keys, began.Add(101 * clock.Now().Sub(began))}
	}
	return checkpoints, keys, err
}
