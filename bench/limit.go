package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-work/pawl/internal/clock"
)

// limit is hand-written SQL at its best: narrow tables, one statement per call, a lease with a
// token and three events per item. It has no tasks, no retries and no checks.
type limit struct {
	pool  *pgxpool.Pool
	token atomic.Int64
	took  func(payload []byte) // called with the payload of each claimed row; nil = not called

	mu     sync.Mutex
	head   readyKey // as far as this process knows, nothing before it is left
	looked time.Time
}

type readyKey struct {
	npri  int
	runAt time.Time
	id    int64
}

func migrateLimit(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, text("limit tables"))
	return err
}

func openLimit(ctx context.Context, url string) (*limit, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = callers
	cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, text("limit session"))
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	return &limit{pool: pool}, err
}

func (l *limit) create(ctx context.Context, n, batch int) (time.Duration, error) {
	todo := inBatches(n, batch)
	rows := make([]string, batch)
	for i := range rows {
		rows[i] = string(payload)
	}
	return many(callers, func(int) error {
		for k := todo.next(); k > 0; k = todo.next() {
			if _, err := l.pool.Exec(ctx, text("limit create"), rows[:k]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (l *limit) drain(ctx context.Context, n, batch int) (time.Duration, error) {
	var done atomic.Int64
	results := make([]string, batch)
	for i := range results {
		results[i] = string(result)
	}
	return many(callers, func(int) error {
		for done.Load() < int64(n) {
			token := l.token.Add(1)
			ids, err := l.claim(ctx, token, batch)
			if err != nil {
				return err
			}
			if len(ids) == 0 {
				continue
			}
			var got int
			if err := l.pool.QueryRow(ctx, text("limit complete"), ids, results[:len(ids)], token).Scan(&got); err != nil {
				return err
			}
			if got != len(ids) {
				return fmt.Errorf("the limit completed %d of %d", got, len(ids))
			}
			done.Add(int64(got))
		}
		return nil
	})
}

func (l *limit) claim(ctx context.Context, token int64, batch int) ([]int64, error) {
	from := l.from()
	rows, err := l.pool.Query(ctx, text("limit claim"), batch, token, from.npri, from.runAt, from.id)
	if err != nil {
		return nil, err
	}
	var ids []int64
	var last readyKey
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&last.npri, &last.runAt, &last.id, &body}, func() error {
		ids = append(ids, last.id)
		if l.took != nil {
			l.took(body)
		}
		return nil
	})
	if len(ids) == 0 {
		l.lookAgain()
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.head.npri == last.npri && l.head.runAt.Before(last.runAt) {
		l.head = last
	}
	return ids, err
}

// from returns where to start: at the remembered head, or every 500 ms at the beginning.
func (l *limit) from() readyKey {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := clock.Now(); now.Sub(l.looked) > 500*time.Millisecond {
		l.head, l.looked = readyKey{runAt: time.Unix(0, 0)}, now
	}
	return l.head
}

func (l *limit) lookAgain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looked = time.Time{}
}
