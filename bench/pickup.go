package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/worker"
)

// race is a number of tasks created at a steady rate, with the time at which each was picked
// up. Those of the first second do not count: meanwhile connections are opened, and statements
// are planned on each of them.
type race struct {
	warm int // tasks of the first second
	sent []time.Time
	took []atomic.Int64 // in ns; 0 = not yet
	left atomic.Int64
	all  chan struct{}
}

func newRace(n, rate int) *race {
	r := &race{warm: rate, sent: make([]time.Time, n+rate), took: make([]atomic.Int64, n+rate), all: make(chan struct{})}
	r.left.Store(int64(n + rate))
	return r
}

// arrive is the first call of a task's handler.
func (r *race) arrive(i int) {
	took := clock.Now().Sub(r.sent[i])
	if r.took[i].CompareAndSwap(0, int64(took)) && r.left.Add(-1) == 0 {
		close(r.all)
	}
}

// run creates tasks at a rate, each in a goroutine of its own, so that a slow create does not
// delay the next. It returns the latencies in ms.
func (r *race) run(ctx context.Context, rate int, create func(i int) error) (series, error) {
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	var wg sync.WaitGroup
	errs := make([]error, len(r.sent))
	for i := range r.sent {
		<-tick.C
		r.sent[i] = clock.Now()
		wg.Go(func() { errs[i] = create(i) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	select {
	case <-r.all:
	case <-time.After(30 * time.Second):
		return nil, fmt.Errorf("%d tasks were not picked up", r.left.Load())
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var out series
	for i := r.warm; i < len(r.took); i++ {
		out = append(out, millis(time.Duration(r.took[i].Load())))
	}
	return out, nil
}

// latency holds p50 and p99 of each round.
type latency struct{ p50, p99 series }

func (l *latency) add(s series) {
	l.p50, l.p99 = append(l.p50, s.quantile(0.5)), append(l.p99, s.quantile(0.99))
}

// overHand is the p50 that pickups may have, of that of the path written by hand.
const overHand = 1.2

// pickups measures the time from the call that creates a task to the start of its handler,
// with all settings at their defaults.
func (b *bench) pickups(ctx context.Context) error {
	for _, pace := range []struct{ rate, n int }{{50, b.sized(1000, 100)}, {300, b.sized(6000, 400)}} {
		var here, there, tuned, plain, hand latency
		err := b.alternate(func() error {
			for _, m := range []struct {
				into *latency
				run  func(url string, r *race) (series, error)
				on   string
			}{
				{&here, func(url string, r *race) (series, error) { return pawlPickup(ctx, url, url, pace.rate, r) }, forPawl},
				{&tuned, func(url string, r *race) (series, error) { return riverPickup(ctx, url, riverBest, pace.rate, r) }, forRiver},
				{&there, func(url string, r *race) (series, error) { return pawlPickup(ctx, url, "", pace.rate, r) }, forPawl},
				{&hand, func(url string, r *race) (series, error) { return handPickup(ctx, url, pace.rate, r) }, forLimit},
				{&plain, func(url string, r *race) (series, error) { return riverPickup(ctx, url, riverDefaults, pace.rate, r) }, forRiver},
			} {
				if err := b.fresh(ctx, m.on, func(url string) error {
					got, err := m.run(url, newRace(pace.n, pace.rate))
					m.into.add(got)
					return err
				}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		peer := func(s, t, h series) string {
			return fmt.Sprintf("River: %s ms, tuned %s ms; by hand %s ms", figure(s.median()), figure(t.median()), figure(h.median()))
		}
		at := fmt.Sprintf(" at %d/s", pace.rate)
		b.add(line{name: "pickup p50" + at, got: here.p50, unit: " ms", atMost: overHand * hand.p50.median(),
			peer: peer(plain.p50, tuned.p50, hand.p50)})
		b.add(line{name: "pickup p99" + at, got: here.p99, unit: " ms", atMost: 10, peer: peer(plain.p99, tuned.p99, hand.p99)})
		b.add(line{name: "pickup p50" + at + ", made by another engine", got: there.p50, unit: " ms", atMost: overHand * hand.p50.median(),
			peer: peer(plain.p50, tuned.p50, hand.p50)})
		b.add(line{name: "pickup p99" + at + ", made by another engine", got: there.p99, unit: " ms", atMost: 10,
			peer: peer(plain.p99, tuned.p99, hand.p99)})
	}
	return nil
}

// pawlPickup runs the worker on one engine. It creates tasks on the same engine or on another
// one.
func pawlPickup(ctx context.Context, url, same string, rate int, r *race) (out series, err error) {
	h, err := openEngine(ctx, url)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	maker := h.Engine
	if same == "" {
		if maker, err = engine.Open(ctx, url); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, maker.Close()) }()
	}
	working, end := context.WithCancel(ctx)
	var own sync.WaitGroup
	own.Go(func() {
		werr := worker.Run(working, h, worker.Handle(taskOf, func(_ context.Context, in riverArgs) (map[string]bool, error) {
			r.arrive(numberOf(in.To))
			return map[string]bool{"ok": true}, nil
		}))
		err = errors.Join(err, werr)
	})
	out, failed := r.run(ctx, rate, func(i int) error {
		body, err := json.Marshal(riverArgs{numbered(i)})
		if err != nil {
			return err
		}
		_, err = pawl.Create(ctx, maker, pawl.NewTask{Type: taskOf, Payload: body})
		return err
	})
	end()
	own.Wait()
	return out, errors.Join(err, failed)
}

func riverPickup(ctx context.Context, url string, set riverSet, rate int, r *race) (series, error) {
	h, err := openRiver(ctx, url, set, func(a riverArgs) { r.arrive(numberOf(a.To)) })
	if err != nil {
		return nil, err
	}
	defer h.pool.Close()
	if err := h.Start(ctx); err != nil {
		return nil, err
	}
	out, err := r.run(ctx, rate, func(i int) error {
		_, err := h.Insert(ctx, riverArgs{numbered(i)}, nil)
		return err
	})
	return out, errors.Join(err, h.Stop(ctx))
}

// handPickup is the lower bound: the statements of the SQL limit, one row per call, and LISTEN
// and NOTIFY between two connections that do nothing else.
func handPickup(ctx context.Context, url string, rate int, r *race) (out series, err error) {
	l, err := openLimit(ctx, url)
	if err != nil {
		return nil, err
	}
	defer l.pool.Close()
	ear, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer ear.Close(context.WithoutCancel(ctx))
	if _, err := ear.Exec(ctx, text("limit listen")); err != nil {
		return nil, err
	}
	l.took = func(payload []byte) {
		var a riverArgs
		_ = json.Unmarshal(payload, &a) // the bench wrote it
		r.arrive(numberOf(a.To))
	}
	working, end := context.WithCancel(ctx)
	var own sync.WaitGroup
	own.Go(func() {
		for token := int64(1); ; token++ {
			if _, werr := ear.WaitForNotification(working); werr != nil {
				return // the end; a broken connection shows in tasks that are not picked up
			}
			_, werr := l.claim(ctx, token, 100)
			err = errors.Join(err, werr)
		}
	})
	out, failed := r.run(ctx, rate, func(i int) error {
		body, err := json.Marshal(riverArgs{numbered(i)})
		if err != nil {
			return err
		}
		if _, err := l.pool.Exec(ctx, text("limit create"), []string{string(body)}); err != nil {
			return err
		}
		_, err = l.pool.Exec(ctx, text("limit notify"))
		return err
	})
	end()
	own.Wait()
	return out, errors.Join(err, failed)
}
