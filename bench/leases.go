package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
)

// leases measures the cost of heartbeats and of expired leases.
func (b *bench) leases(ctx context.Context) error {
	if err := b.heartbeats(ctx); err != nil {
		return err
	}
	var onPostgres, onSQLite series
	n := b.sized(10_000, 10_000)
	rounds := b.rounds
	if b.short {
		rounds = 1
	}
	for range rounds {
		if err := b.fresh(ctx, forPawl, func(url string) error { return expire(ctx, url, n, &onPostgres) }); err != nil {
			return err
		}
		if err := b.file(func(url string) error { return expire(ctx, url, n, &onSQLite) }); err != nil {
			return err
		}
	}
	b.add(line{name: "lease end to claimed again p99, PostgreSQL", got: onPostgres, unit: " ms", atMost: 1000,
		absolute: "of " + figure(float64(n)) + " expiring together"})
	b.add(line{name: "lease end to claimed again p99, SQLite", got: onSQLite, unit: " ms", atMost: 1000,
		absolute: "of " + figure(float64(n)) + " expiring together"})
	return nil
}

// file runs fn on a fresh SQLite file.
func (b *bench) file(fn func(url string) error) error {
	b.admin.made++
	path := filepath.Join(b.disk, fmt.Sprintf("bench_%d.db", b.admin.made))
	err := fn("sqlite:" + path)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		_ = os.Remove(path + suffix) // the whole directory is removed at the end
	}
	return err
}

// heartbeats measures the processor time of one heartbeat of every live lease. It reports the
// share of a core that 100,000 leases with a heartbeat every 30 s would take. The first
// heartbeat of a lease leaves an event, so it is not measured.
func (b *bench) heartbeats(ctx context.Context) error {
	const live, every = 100_000, 30.0
	n := b.sized(live, 20_000)
	var share series
	var rewritten int64
	err := b.fresh(ctx, forPawl, func(url string) error {
		err := b.beat(ctx, url, n, func(cpu float64) { share = append(share, 100*cpu*live/float64(n)/every) })
		if err == nil {
			rewritten, err = one(ctx, url, "updates of wide rows")
		}
		return err
	})
	if err != nil {
		return err
	}
	b.add(line{name: "heartbeat of 100,000 leases every 30 s", got: share, unit: " % of a core", atMost: 4,
		absolute: "server and caller, measured on " + figure(float64(n))})
	b.add(line{name: "wide rows rewritten by heartbeats", got: series{float64(rewritten)}, atMost: 0})
	return nil
}

func (b *bench) beat(ctx context.Context, url string, n int, took func(cpu float64)) (err error) {
	h, err := openEngine(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	if _, err := h.createTasks(ctx, n, 1000); err != nil {
		return err
	}
	leases, err := h.claimAll(ctx, n, 3600)
	if err != nil {
		return err
	}
	for round := range b.rounds + 1 {
		before := b.admin.cpu()
		for start := 0; start < n; start += 1000 {
			var calls []pawl.HeartbeatCall
			for _, l := range leases[start:min(n, start+1000)] {
				calls = append(calls, pawl.HeartbeatCall{Fence: l.Fence()})
			}
			if err := firstOf(h.Heartbeat(ctx, calls)); err != nil {
				return err
			}
		}
		if round > 0 {
			took(b.admin.cpu() - before)
		}
	}
	return nil
}

// expire claims n items for 3 s and lets all leases expire at once. It measures the time from
// each lease's end to the next claim of its item, by the database's clock.
func expire(ctx context.Context, url string, n int, into *series) (err error) {
	h, err := openEngine(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	if _, err := h.createTasks(ctx, n, 1000); err != nil {
		return err
	}
	leases, err := h.claimAll(ctx, n, 3)
	if err != nil {
		return err
	}
	ends := map[string]time.Time{}
	for _, l := range leases {
		ends[l.ID] = l.LeaseExpiresAt
	}
	var mu sync.Mutex
	var late series
	waiting, end := context.WithCancel(ctx)
	defer end()
	_, err = many(callers, func(int) error {
		for {
			got, err := h.Claim(waiting, pawl.ClaimRequest{WorkerID: "heir", Types: []string{taskOf}, Limit: 1000, WaitSeconds: 5})
			if waiting.Err() != nil {
				return ctx.Err()
			}
			if err != nil || len(got) == 0 {
				return err
			}
			mu.Lock()
			for _, l := range got {
				late = append(late, millis(l.ServerTime.Sub(ends[l.ID])))
			}
			if len(late) >= n {
				end()
			}
			mu.Unlock()
		}
	})
	if err == nil && len(late) != n {
		err = errors.New("not every item was claimed again exactly once")
	}
	*into = append(*into, late.quantile(0.99))
	return err
}
