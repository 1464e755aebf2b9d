package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// A churn sends n items through a small backlog, with one producer of batches of 500 and
// several consumers. It checks whether the last part is as fast as the first.
const (
	churnBatch = 500
	parts      = 10
)

// slicer notes when each part of n items was done.
type slicer struct {
	n     int
	done  atomic.Int64
	mu    sync.Mutex
	start time.Time
	at    []time.Time
	all   chan struct{}
}

func newSlicer(n int) *slicer {
	return &slicer{n: n, at: make([]time.Time, parts), all: make(chan struct{})}
}

// add counts k more items. The clock starts at the first item: the time to begin says nothing
// about growth.
func (s *slicer) add(k int) {
	after := s.done.Add(int64(k))
	if after == int64(k) {
		s.mu.Lock()
		s.start = clock.Now()
		s.mu.Unlock()
	}
	part := s.n / parts
	for i := (int(after) - k) / part; i < parts && int(after) >= (i+1)*part; i++ {
		s.mu.Lock()
		s.at[i] = clock.Now()
		s.mu.Unlock()
	}
	if int(after) >= s.n && int(after)-k < s.n {
		close(s.all)
	}
}

// rates returns the items a second of each part, and of all parts.
func (s *slicer) rates() (each series, overall float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := s.start
	for _, at := range s.at {
		each = append(each, perSecond(s.n/parts, at.Sub(from)))
		from = at
	}
	return each, perSecond(s.n, from.Sub(s.start))
}

// hold keeps a snapshot of the database open until release.
func hold(ctx context.Context, url string) (release func(), err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	release = func() { _ = conn.Close(context.WithoutCancel(ctx)) }
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err == nil {
		_, err = tx.Exec(ctx, text("take a snapshot"))
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// paced creates n items with make, while at most backlog items wait.
func paced(ctx context.Context, s *slicer, backlog int, make func(k int) error) error {
	for made := 0; made < s.n; {
		if made-int(s.done.Load()) > backlog {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(200 * time.Microsecond):
			}
			continue
		}
		k := min(churnBatch, s.n-made)
		if err := make(k); err != nil {
			return err
		}
		made += k
	}
	return nil
}

// churn sends n tasks of one item through the engine: claims of 100.
func (h *runningEngine) churn(ctx context.Context, n int) (*slicer, error) {
	s := newSlicer(n)
	_, err := many(callers+1, func(who int) error {
		if who == callers {
			return paced(ctx, s, 2000, func(k int) error {
				return h.createOnce(ctx, k)
			})
		}
		for int(s.done.Load()) < n {
			got, err := h.Claim(ctx, pawl.ClaimRequest{WorkerID: fmt.Sprintf("bench-%d", who), Types: []string{taskOf}, Limit: 100})
			if err != nil {
				return err
			}
			if err := h.complete(ctx, got); err != nil {
				return err
			}
			s.add(len(got))
		}
		return nil
	})
	return s, err
}

// createOnce creates k tasks in one call.
func (h *runningEngine) createOnce(ctx context.Context, k int) error {
	tasks := make([]pawl.NewTask, k)
	for i := range tasks {
		tasks[i] = pawl.NewTask{Type: taskOf, Payload: payload}
	}
	return firstOf(h.CreateTasks(ctx, tasks))
}

// churn does the same with River at its best settings.
func (r *riverClient) churn(ctx context.Context, n int) (*slicer, error) {
	events, cancel := r.completions(n)
	defer cancel()
	if err := r.Start(ctx); err != nil {
		return nil, err
	}
	s := newSlicer(n)
	var counting sync.WaitGroup
	counting.Go(func() {
		for {
			select {
			case <-events:
				s.add(1)
			case <-s.all:
				return
			case <-ctx.Done():
				return
			}
		}
	})
	err := paced(ctx, s, 4000, func(k int) error {
		_, err := r.create(ctx, k, k)
		return err
	})
	counting.Wait()
	if err == nil {
		err = r.Stop(ctx)
	}
	return s, err
}
