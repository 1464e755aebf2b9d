package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
)

// retirement measures the processor time of retention: archives with proofs, and the removal of what they have.
func (b *bench) retirement(ctx context.Context) error {
	n := b.sized(50_000, 5_000)
	var onPostgres, onSQLite series
	if err := b.alternate(func() error {
		if err := b.fresh(ctx, forPawl, func(url string) error { return b.retire(ctx, url, n, &onPostgres) }); err != nil {
			return err
		}
		return b.file(func(url string) error { return b.retire(ctx, url, n, &onSQLite) })
	}); err != nil {
		return err
	}
	absolute := "this process and the server, archive and proof included, of " + figure(float64(n))
	b.add(line{name: "retired task of one, PostgreSQL", got: onPostgres, unit: " µs", atMost: 110, absolute: absolute})
	b.add(line{name: "retired task of one, SQLite", got: onSQLite, unit: " µs", atMost: 120, absolute: absolute})
	return nil
}

// retire ends n tasks of one item, and measures the passes that archive and remove them.
func (b *bench) retire(ctx context.Context, url string, n int, into *series) (err error) {
	sweeps := pawl.DefaultSweepOptions()
	sweeps.RetainTasks = time.Microsecond
	e, err := engine.OpenWith(ctx, url, engine.Options{Sweep: &sweeps})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	h := &runningEngine{Engine: e}
	if _, err := h.createTasks(ctx, n, 1000); err != nil {
		return err
	}
	if _, err := h.drain(ctx, n, 1000); err != nil {
		return err
	}
	if err := e.Log(ctx); err != nil {
		return err
	}
	before := b.admin.cpu()
	for retired := int64(0); retired < int64(n); {
		s, err := e.Sweep(ctx)
		if err != nil {
			return err
		}
		if s.TasksPruned == 0 {
			return fmt.Errorf("only %d of %d tasks are due", retired, n)
		}
		retired += s.TasksPruned
	}
	*into = append(*into, (b.admin.cpu()-before)/float64(n)*1e6)
	return nil
}
