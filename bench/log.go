package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/clock"
)

// log measures what the transparency log takes from a drain, and how fast a log that lags
// catches up.
func (b *bench) log(ctx context.Context) error {
	n := b.sized(100_000, 20_000)
	var on, off, catchUp series
	err := b.alternate(func() error {
		err := b.fresh(ctx, forPawl, func(url string) error {
			_, drain, err := manyTasks.run(ctx, url, n, 1000)
			on = append(on, perSecond(n, drain))
			return err
		})
		if err != nil {
			return err
		}
		return b.fresh(ctx, forPawl, func(url string) error {
			drain, events, took, err := unlogged(ctx, url, n, 1000)
			off, catchUp = append(off, perSecond(n, drain)), append(catchUp, perSecond(int(events), took))
			return err
		})
	})
	if err != nil {
		return err
	}
	b.add(line{name: "drain tasks of one, log on, of log off", got: on.over(off), unit: "×", atLeast: 0.85,
		absolute: figure(on.median()) + "/s", peer: "log off: " + figure(off.median()) + "/s"})
	b.add(line{name: "log catch-up, events", got: catchUp, unit: "/s", atLeast: 20_000})
	return nil
}

// unlogged drains n tasks on an engine that does not run, which writes no log, and then
// brings the log up to date.
func unlogged(ctx context.Context, url string, n, batch int) (drain time.Duration, events int64, took time.Duration, err error) {
	e, err := engine.Open(ctx, url)
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	h := &runningEngine{Engine: e}
	if _, err = h.createTasks(ctx, n, 1000); err != nil {
		return 0, 0, 0, err
	}
	if drain, err = h.drain(ctx, n, batch); err != nil {
		return 0, 0, 0, err
	}
	before, err := one(ctx, url, "pawl leaves")
	if err != nil {
		return 0, 0, 0, err
	}
	start := clock.Now()
	if err = e.Log(ctx); err != nil {
		return 0, 0, 0, err
	}
	took = clock.Now().Sub(start)
	after, err := one(ctx, url, "pawl leaves")
	if err == nil && after-before < int64(n) {
		err = fmt.Errorf("%d leaves were left for the catch-up of %d tasks", after-before, n)
	}
	return drain, after - before, took, err
}
