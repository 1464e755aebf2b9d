package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/postgres"
)

// statements runs the hot verbs of the store alone, on Pawl's tables: no engine, no feed, no
// sweeps. What Pawl's drain lacks of it is the share of those.
type statements struct {
	store.DB
	made atomic.Int64

	mu     sync.Mutex
	head   string // as far as this process knows, nothing before it is left
	looked time.Time
}

var bareStatements = system{"store statements", forPawl, statementLife}

func statementLife(ctx context.Context, url string, n, batch int) (create, drain time.Duration, err error) {
	db, err := postgres.Open(ctx, url, postgres.Options{})
	if err != nil {
		return 0, 0, err
	}
	defer db.Close()
	s := &statements{DB: db}
	if create, err = s.create(ctx, n, 1000); err != nil {
		return 0, 0, err
	}
	drain, err = s.drain(ctx, n, batch)
	return create, drain, err
}

// create creates n tasks of one item.
func (s *statements) create(ctx context.Context, n, batch int) (time.Duration, error) {
	todo := inBatches(n, batch)
	actor := store.Actor{Type: string(pawl.ActorSystem)}
	return many(callers, func(int) error {
		for k := todo.next(); k > 0; k = todo.next() {
			tasks, items := make([]store.NewTask, k), make([]store.NewItem, k)
			for i := range tasks {
				id := fmt.Sprintf("_01%024d", s.made.Add(1))
				tasks[i] = store.NewTask{ID: "tsk" + id, Namespace: pawl.DefaultNamespace, Type: taskOf, Solo: true, Metadata: "{}", Items: 1,
					Actor: actor, Data: `{"items":1}`}
				items[i] = store.NewItem{ID: "itm" + id, Namespace: pawl.DefaultNamespace, TaskID: "tsk" + id, Type: taskOf, Kind: pawl.KindWork,
					Solo: true, MaxAttempts: pawl.DefaultMaxAttempts, Input: string(payload), Actor: actor, Data: `{"items":1}`}
			}
			if err := s.Auto(ctx, func(ctx context.Context, tx store.Tx) error {
				_, err := s.Dialect().Hot.Create(ctx, tx, tasks, items)
				return err
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// drain claims and completes n items.
func (s *statements) drain(ctx context.Context, n, batch int) (time.Duration, error) {
	var done atomic.Int64
	return many(callers, func(caller int) error {
		worker := fmt.Sprint("bench-", caller)
		for done.Load() < int64(n) {
			claimed, err := s.claim(ctx, worker, batch)
			if err != nil {
				return err
			}
			calls := make([]store.Complete, len(claimed))
			for i, c := range claimed {
				calls[i] = store.Complete{Ord: i, Result: string(result),
					Fence: store.Fence{Namespace: pawl.DefaultNamespace, ItemID: c.ItemID, WorkerID: worker, Attempt: c.Attempt}}
			}
			var moved []store.Moved
			if err := s.Auto(ctx, func(ctx context.Context, tx store.Tx) (err error) {
				moved, err = s.Dialect().Hot.Complete(ctx, tx, calls)
				return err
			}); err != nil {
				return err
			}
			if len(moved) != len(calls) {
				return fmt.Errorf("the store completed %d of %d", len(moved), len(calls))
			}
			done.Add(int64(len(moved)))
		}
		return nil
	})
}

// claim claims up to batch items, in the order of their ids.
func (s *statements) claim(ctx context.Context, worker string, batch int) (claimed []store.Claimed, err error) {
	call := store.Claim{Namespace: pawl.DefaultNamespace,
		Claimants: []store.Claimant{{WorkerID: worker, Limit: batch, LeaseSeconds: 60}},
		Queues:    []store.Queue{{Type: taskOf, Rank: store.NewRank(0), Head: s.from()}}}
	if err = s.Auto(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		claimed, err = s.Dialect().Hot.Claim(ctx, tx, call)
		return err
	}); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(claimed) == 0 {
		s.looked = time.Time{}
	} else {
		s.head = max(s.head, claimed[0].ItemID)
	}
	return claimed, nil
}

// from returns where to start: at the remembered head, or every 500 ms at the beginning.
func (s *statements) from() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := clock.Now(); now.Sub(s.looked) > 500*time.Millisecond {
		s.head, s.looked = "", now
	}
	return s.head
}
