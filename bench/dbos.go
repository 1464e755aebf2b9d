package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-work/pawl/internal/clock"
)

const (
	dbosWorkers = 1000
	dbosSetup   = "1.8 for Go, 1000 enqueued in a transaction, 1000 workers, polls each millisecond, a pool of 20"
)

// openDBOS is DBOS with one queue: a client enqueues, and a process that begins with the drain works.
func openDBOS(ctx context.Context, _ peer, url string) (*openPeer, error) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	if err := dbos.Migrate(ctx, url, dbos.WithMigrateLogger(log)); err != nil {
		return nil, err
	}
	pool, err := poolOf(ctx, url, 20)
	if err != nil {
		return nil, err
	}
	var done atomic.Int64
	d, err := dbos.NewContext(ctx, dbos.Config{AppName: "bench", SystemDBPool: pool, Logger: log, ApplicationVersion: "bench"})
	if err != nil {
		pool.Close()
		return nil, err
	}
	dbos.RegisterWorkflow(d, func(dbos.Context, riverArgs) (bool, error) {
		done.Add(1)
		return true, nil
	}, dbos.WithWorkflowName("bench"))

	drain := func(n int) (time.Duration, error) {
		start := clock.Now()
		if _, err := dbos.RegisterQueue(d, "bench", dbos.WithWorkerConcurrency(dbosWorkers),
			dbos.WithQueueBasePollingInterval(time.Millisecond)); err != nil {
			return 0, err
		}
		if err := dbos.Launch(d); err != nil {
			return 0, err
		}
		for done.Load() < int64(n) {
			if err := rest(ctx, time.Millisecond); err != nil {
				return 0, err
			}
		}
		for { // the outputs follow
			var left int64
			if err := pool.QueryRow(ctx, text("dbos left")).Scan(&left); err != nil || left == 0 {
				return clock.Now().Sub(start), err
			}
		}
	}
	create := func(n int) (time.Duration, error) { return createDBOS(ctx, d, pool, n) }
	return &openPeer{create: create, drain: drain, close: func() error {
		err := dbos.Shutdown(d, 10*time.Second)
		pool.Close()
		return err
	}}, nil
}

// createDBOS enqueues n workflows.
func createDBOS(ctx context.Context, d dbos.Context, pool *pgxpool.Pool, n int) (time.Duration, error) {
	todo := inBatches(n, 1000)
	return many(callers, func(int) error {
		for k := todo.next(); k > 0; k = todo.next() {
			if err := enqueueDBOS(ctx, d, pool, k); err != nil {
				return err
			}
		}
		return nil
	})
}

// enqueueDBOS enqueues k workflows in one transaction.
func enqueueDBOS(ctx context.Context, d dbos.Context, pool *pgxpool.Pool, k int) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	for range k {
		if _, err := dbos.Enqueue[bool](d, "bench", "bench", riverJob, dbos.WithEnqueueTransaction(tx)); err != nil {
			return fmt.Errorf("%w; %w", err, tx.Rollback(ctx))
		}
	}
	return tx.Commit(ctx)
}
