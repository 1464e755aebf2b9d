package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// lives holds the rates of create and drain, and the bytes of log of both, by round.
type lives struct {
	create, drain, wal series
}

// system is one way to create and drain n items.
type system struct {
	name     string
	template string
	run      func(ctx context.Context, url string, n, batch int) (create, drain time.Duration, err error)
}

var (
	oneTask = system{"one task", forPawl, func(ctx context.Context, url string, n, batch int) (create, drain time.Duration, err error) {
		return pawlLife(ctx, url, n, batch, (*runningEngine).createWhole)
	}}
	manyTasks = system{"tasks of one", forPawl, func(ctx context.Context, url string, n, batch int) (create, drain time.Duration, err error) {
		return pawlLife(ctx, url, n, batch, (*runningEngine).createTasks)
	}}
	riverJobs = system{"River", forRiver, func(ctx context.Context, url string, n, _ int) (create, drain time.Duration, err error) {
		r, err := openRiver(ctx, url, riverBest, nil)
		if err != nil {
			return 0, 0, err
		}
		defer r.pool.Close()
		if create, err = r.create(ctx, n, 1000); err != nil {
			return 0, 0, err
		}
		drain, err = r.drain(ctx, url, n)
		return create, drain, err
	}}
	handSQL = system{"SQL limit", forLimit, func(ctx context.Context, url string, n, batch int) (create, drain time.Duration, err error) {
		l, err := openLimit(ctx, url)
		if err != nil {
			return 0, 0, err
		}
		defer l.pool.Close()
		if create, err = l.create(ctx, n, 1000); err != nil {
			return 0, 0, err
		}
		drain, err = l.drain(ctx, n, batch)
		return create, drain, err
	}}
)

func pawlLife(
	ctx context.Context,
	url string,
	n, batch int,
	fill func(*runningEngine, context.Context, int, int) (time.Duration, error),
) (create, drain time.Duration, err error) {
	return lifeAt(ctx, url, url, n, batch, fill)
}

// lifeAt is pawlLife at the URL of a pooler; server is that of the server behind it.
func lifeAt(
	ctx context.Context,
	url, server string,
	n, batch int,
	fill func(*runningEngine, context.Context, int, int) (time.Duration, error),
) (create, drain time.Duration, err error) {
	h, err := openEngine(ctx, url)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	if create, err = fill(h, ctx, n, 1000); err != nil {
		return 0, 0, err
	}
	if drain, err = h.drain(ctx, n, batch); err != nil {
		return 0, 0, err
	}
	if !strings.HasPrefix(url, "postgres") {
		return create, drain, nil
	}
	done, err := one(ctx, server, "pawl done")
	if err == nil && done != int64(n) {
		err = fmt.Errorf("%d of %d items are completed", done, n)
	}
	return create, drain, err
}

// measure runs a system once, in a fresh database.
func (b *bench) measure(ctx context.Context, s system, n, batch int, into *lives) error {
	url, drop, err := b.admin.fresh(ctx, s.template)
	if err != nil {
		return err
	}
	defer drop()
	before, err := b.admin.wal(ctx)
	if err != nil {
		return err
	}
	create, drain, err := s.run(ctx, url, n, batch)
	if err != nil {
		return fmt.Errorf("%s, batch %d: %w", s.name, batch, err)
	}
	after, err := b.admin.wal(ctx)
	into.create = append(into.create, perSecond(n, create))
	into.drain = append(into.drain, perSecond(n, drain))
	into.wal = append(into.wal, float64(after-before)/float64(n))
	b.say("%s, batch %d: create %s/s, drain %s/s, %s bytes of log an item", s.name, batch, figure(perSecond(n, create)),
		figure(perSecond(n, drain)), figure(into.wal[len(into.wal)-1]))
	return err
}

// life creates and drains n items with every system, alternating.
func (b *bench) life(ctx context.Context) error {
	n := b.sized(100_000, 40_000)
	var river, one1000, one100, solo1000, solo100, limit1000, limit100, bare1000, bare100 lives
	var into series
	err := b.alternate(func() error {
		for _, m := range []struct {
			s     system
			batch int
			into  *lives
		}{
			{riverJobs, 1000, &river}, {oneTask, 1000, &one1000}, {manyTasks, 1000, &solo1000}, {handSQL, 1000, &limit1000},
			{oneTask, 100, &one100}, {manyTasks, 100, &solo100}, {handSQL, 100, &limit100},
			{bareStatements, 1000, &bare1000}, {bareStatements, 100, &bare100},
		} {
			if err := b.measure(ctx, m.s, n, m.batch, m.into); err != nil {
				return err
			}
		}
		return b.fresh(ctx, forPawl, func(url string) error { return intoOne(ctx, url, b.sized(100_000, 10_000), &into) })
	})
	if err != nil {
		return err
	}
	drains := func(name string, got, peer series, least float64, who string) {
		b.add(line{name: name, got: got.over(peer), unit: "×", atLeast: least, absolute: figure(got.median()) + "/s",
			peer: who + ": " + figure(peer.median()) + "/s"})
	}
	best := riverBest.String()
	drains("drain one task, batch 1000", one1000.drain, river.drain, 2.4, best)
	drains("drain one task, batch 100", one100.drain, river.drain, 1.75, best)
	drains("drain tasks of one, batch 1000", solo1000.drain, river.drain, 2.4, best)
	drains("drain tasks of one, batch 100", solo100.drain, river.drain, 1.75, best)
	drains("drain one task, of the SQL limit, batch 1000", one1000.drain, limit1000.drain, 0.7, "SQL limit")
	drains("drain one task, of the SQL limit, batch 100", one100.drain, limit100.drain, 0.8, "SQL limit")
	drains("drain tasks of one, of the SQL limit, batch 1000", solo1000.drain, limit1000.drain, 0.7, "SQL limit")
	drains("drain tasks of one, of the SQL limit, batch 100", solo100.drain, limit100.drain, 0.8, "SQL limit")
	drains("create into one task", into, river.create, 1.0, "River InsertManyFast")
	drains("create tasks of one", solo1000.create, river.create, 1.0, "River InsertManyFast")
	drains("one big task against tasks of one", one1000.drain, solo1000.drain, 1.0, "tasks of one")
	b.say("the SQL limit creates %s/s", limit1000.create)
	b.say("the store's statements alone, tasks of one: create %s/s, drain %s/s at batch 1000 and %s/s at 100",
		bare1000.create, bare1000.drain, bare100.drain)
	b.say("Pawl reaches %s×, %s× and %s× of them",
		solo1000.create.over(bare1000.create), solo1000.drain.over(bare1000.drain), solo100.drain.over(bare100.drain))
	b.add(line{name: "WAL of a whole life, item of a big task", got: one1000.wal, unit: " B", atMost: 2250,
		peer: "River: " + figure(river.wal.median()) + " B"})
	b.add(line{name: "WAL of a whole life, task of one", got: solo1000.wal, unit: " B", atMost: 2150,
		peer: "River: " + figure(river.wal.median()) + " B; SQL limit: " + figure(limit1000.wal.median()) + " B"})
	return b.riverAtDefaults(ctx, solo1000.drain)
}

// riverAtDefaults is for comparison: with its defaults, River drains MaxWorkers jobs per
// cooldown.
func (b *bench) riverAtDefaults(ctx context.Context, pawl series) error {
	n := b.sized(5_000, 2_000)
	var rates series
	err := b.alternate(func() error {
		url, drop, err := b.admin.fresh(ctx, forRiver)
		if err != nil {
			return err
		}
		r, err := openRiver(ctx, url, riverDefaults, nil)
		if err != nil {
			return err
		}
		if _, err = r.create(ctx, n, 1000); err != nil {
			return err
		}
		took, err := r.drain(ctx, url, n)
		r.pool.Close()
		drop()
		if err != nil {
			return err
		}
		rates = append(rates, perSecond(n, took))
		return nil
	})
	if err != nil {
		return err
	}
	b.add(line{name: "drain tasks of one, River at its defaults", got: pawl.over(rates), unit: "×", atLeast: 2.0,
		absolute: figure(pawl.median()) + "/s", peer: riverDefaults.String() + ": " + figure(rates.median()) + "/s"})
	return nil
}

// intoOne adds batches of 1000 items to one task.
func intoOne(ctx context.Context, url string, n int, into *series) (err error) {
	h, err := openEngine(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	took, err := h.createItems(ctx, n, 1000)
	*into = append(*into, perSecond(n, took))
	return err
}
