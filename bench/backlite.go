package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mikestefanello/backlite"

	"github.com/pawl-work/pawl/internal/clock"
)

// backliteTask has 200 bytes as JSON.
type backliteTask riverArgs

// Config implements backlite.Task. It keeps nothing of a completed task: that is backlite's
// default and its fastest setting.
func (backliteTask) Config() backlite.QueueConfig {
	return backlite.QueueConfig{Name: "bench", MaxAttempts: 3, Timeout: time.Minute, Backoff: time.Minute}
}

// backliteDrain adds n tasks and returns how many are done per second, with 1000 workers, one
// connection, and each commit on disk.
func (b *bench) backliteDrain(ctx context.Context, n int) (float64, error) {
	db, err := b.openFile()
	if err != nil {
		return 0, err
	}
	defer db.Close()
	client, err := backlite.NewClient(backlite.ClientConfig{DB: db, NumWorkers: 1000, ReleaseAfter: 10 * time.Minute})
	if err != nil {
		return 0, err
	}
	if err := client.Install(); err != nil {
		return 0, err
	}
	var left atomic.Int64
	left.Store(int64(n))
	all := make(chan struct{})
	client.Register(backlite.NewQueue(func(context.Context, backliteTask) error {
		if left.Add(-1) == 0 {
			close(all)
		}
		return nil
	}))
	tasks := make([]backlite.Task, 100)
	for i := range tasks {
		tasks[i] = backliteTask(riverJob)
	}
	for todo := inBatches(n, len(tasks)); ; {
		k := todo.next()
		if k == 0 {
			break
		}
		if _, err := client.Add(tasks[:k]...).Ctx(ctx).Save(); err != nil {
			return 0, err
		}
	}
	start := clock.Now()
	client.Start(ctx)
	select {
	case <-all:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if !client.Stop(ctx) { // until the last task is also done in the database
		return 0, fmt.Errorf("backlite did not stop: %w", ctx.Err())
	}
	return perSecond(n, clock.Now().Sub(start)), nil
}
