package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/clock"
)

// firings measures how long an engine takes to fire schedules that are due at once.
func (b *bench) firings(ctx context.Context) error {
	n := b.sized(10_000, 10_000)
	var server, file series
	err := b.fresh(ctx, forPawl, func(url string) error { return fireTogether(ctx, url, n, &server) })
	if err == nil {
		err = b.file(func(url string) error { return fireTogether(ctx, url, n, &file) })
	}
	if err != nil {
		return err
	}
	for name, got := range map[string]series{"PostgreSQL": server, "SQLite": file} {
		b.add(line{name: "10,000 schedules due at once, until all have fired, " + name, got: got, unit: "s", atMost: 2 * float64(n) / 10_000,
			absolute: figure(float64(n)/got.median()) + "/s"})
	}
	return nil
}

// fireTogether makes schedules while nothing fires them, and then runs an engine.
func fireTogether(ctx context.Context, url string, n int, into *series) (err error) {
	e, err := engine.Open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	todo := inBatches(n, 1)
	if _, err := many(16, func(who int) error {
		for i := 0; todo.next() > 0; i++ {
			at := clock.Now().Add(2 * time.Second)
			if _, err := e.CreateSchedule(ctx, pawl.NewSchedule{Name: fmt.Sprintf("s%d-%d", who, i), At: &at, CatchUp: pawl.CatchUpLast,
				Task: pawl.NewTask{Type: taskOf, Payload: payload}}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	time.Sleep(2 * time.Second)
	running, end := context.WithCancel(ctx)
	start, ended := clock.Now(), make(chan struct{})
	go func() {
		_ = e.Run(running) // nil when it is ended
		close(ended)
	}()
	defer func() {
		end()
		<-ended
	}()
	for fired := 0; fired < n; {
		time.Sleep(20 * time.Millisecond)
		q, err := e.GetQueue(ctx, taskOf)
		if err != nil && pawl.CodeOf(err) != pawl.CodeNotFound { // the first firing makes the queue
			return err
		}
		fired = int(q.Queued)
		if clock.Now().Sub(start) > 5*time.Minute {
			return fmt.Errorf("%d of %d schedules have fired", fired, n)
		}
	}
	*into = append(*into, clock.Now().Sub(start).Seconds())
	return nil
}
