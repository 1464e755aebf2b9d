package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/clock"
)

// wholeLife is what items cost from their creation to their removal.
type wholeLife struct {
	rate   series // lives a second, without the removal
	kept   series // lives a second, removal included
	cpu    series // µs of processor time a life, removal included: this process and the server
	stored series // bytes of the database an ended life, before the removal
}

// sustained measures whole lives at one size of batch for create, claim and complete, with the log on, and then the
// removal of all that has ended, beside River with the statement of its cleaner.
func (b *bench) sustained(ctx context.Context) error {
	n := b.sized(50_000, 10_000)
	for _, batch := range []int{1000, 100} {
		var own, river wholeLife
		if err := b.alternate(func() error {
			err := b.fresh(ctx, forPawl, func(url string) error { return b.liveAndRetire(ctx, url, n, batch, &own) })
			if err != nil {
				return err
			}
			return b.fresh(ctx, forRiver, func(url string) error { return b.liveAndClean(ctx, url, n, &river) })
		}); err != nil {
			return err
		}
		rate, cpu := 1.6, 2.1
		if batch == 100 {
			rate = 1.15
		}
		b.add(line{name: fmt.Sprintf("whole life, batch %d, of River", batch), got: own.rate.over(river.rate), unit: "×", atLeast: rate,
			absolute: figure(own.rate.median()) + "/s", peer: riverBest.String() + ": " + figure(river.rate.median()) + "/s"})
		b.add(line{name: fmt.Sprintf("sustained life with retention, batch %d, CPU of River", batch), got: own.cpu.over(river.cpu), unit: "×",
			atMost: cpu, absolute: figure(own.cpu.median()) + " µs", peer: "River with its cleaner: " + figure(river.cpu.median()) + " µs"})
		if batch == 1000 {
			b.add(line{name: "stored bytes of an ended life", got: own.stored, unit: " B", atMost: 850,
				peer: "River: " + figure(river.stored.median()) + " B"})
		}
	}
	return nil
}

// liveAndRetire makes n tasks of one and works on them until all their events are in the log, and archives and removes them.
func (b *bench) liveAndRetire(ctx context.Context, url string, n, batch int, into *wholeLife) (err error) {
	sweeps := pawl.DefaultSweepOptions()
	sweeps.RetainTasks = time.Microsecond
	sweeps.ScanIntervalSeconds = 3600 // what it removes is measured
	h, err := openEngineWith(ctx, url, engine.Options{Sweep: &sweeps})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	return b.live(ctx, url, n, into, func() (create, drain time.Duration, err error) {
		if create, err = h.createTasks(ctx, n, batch); err != nil {
			return 0, 0, err
		}
		drain, err = h.drainAndLog(ctx, n, batch)
		return create, drain, err
	}, func() (int64, error) {
		s, err := h.Sweep(ctx)
		return s.TasksPruned, err
	})
}

// liveAndClean does the same with River, and removes jobs as its cleaner does: 1000 in a statement.
func (b *bench) liveAndClean(ctx context.Context, url string, n int, into *wholeLife) error {
	r, err := openRiver(ctx, url, riverBest, nil)
	if err != nil {
		return err
	}
	defer r.pool.Close()
	return b.live(ctx, url, n, into, func() (create, drain time.Duration, err error) {
		if create, err = r.create(ctx, n, 1000); err != nil {
			return 0, 0, err
		}
		drain, err = r.drain(ctx, url, n)
		return create, drain, err
	}, func() (int64, error) {
		tag, err := r.pool.Exec(ctx, text("river clean"))
		return tag.RowsAffected(), err
	})
}

// live measures lives, and their removal in steps until n are removed.
func (b *bench) live(ctx context.Context, url string, n int, into *wholeLife, lives func() (create, drain time.Duration, err error),
	remove func() (int64, error)) error {
	empty, err := b.bytes(ctx, url)
	if err != nil {
		return err
	}
	before := b.admin.cpu()
	create, drain, err := lives()
	if err != nil {
		return err
	}
	lived := b.admin.cpu() - before
	full, err := b.bytes(ctx, url)
	if err != nil {
		return err
	}
	before, start := b.admin.cpu(), clock.Now()
	for removed := int64(0); removed < int64(n); {
		k, err := remove()
		if err != nil {
			return err
		}
		if k == 0 {
			return fmt.Errorf("only %d of %d lives are removed", removed, n)
		}
		removed += k
	}
	into.rate = append(into.rate, perSecond(n, create+drain))
	into.kept = append(into.kept, perSecond(n, create+drain+clock.Now().Sub(start)))
	into.cpu = append(into.cpu, (lived+b.admin.cpu()-before)/float64(n)*1e6)
	into.stored = append(into.stored, float64(full-empty)/float64(n))
	return nil
}

// bytes returns the size of a database without what is free in it at the ends of its tables.
func (b *bench) bytes(ctx context.Context, url string) (n int64, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if _, err := conn.Exec(ctx, text("vacuum")); err != nil {
		return 0, err
	}
	err = conn.QueryRow(ctx, text("bytes")).Scan(&n)
	return n, err
}
