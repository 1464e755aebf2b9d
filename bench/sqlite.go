package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-work/pawl"
)

// ofDriver is what SQLite is to reach of hand-written SQL on the same driver.
const ofDriver = 0.9

// sqlite measures SQLite: whole lives by single callers and in batches beside the driver
// itself, and the drain beside backlite. Each commit is on disk.
func (b *bench) sqlite(ctx context.Context) error {
	budget := time.Duration(b.sized(4000, 1000)) * time.Millisecond
	shapes := []struct{ callers, batch int }{{8, 1}, {64, 1}, {1, 1000}}
	got, peer := make([]series, len(shapes)), make([]series, len(shapes))
	var drain, backlite series
	n := b.sized(60_000, 20_000)
	err := b.alternate(func() error {
		for i, s := range shapes {
			if err := b.file(func(url string) error { return pawlLives(ctx, url, s.callers, s.batch, budget, &got[i]) }); err != nil {
				return err
			}
			rate, err := b.rawLives(ctx, s.callers, s.batch, budget)
			if err != nil {
				return err
			}
			peer[i] = append(peer[i], rate)
		}
		if err := b.file(func(url string) error {
			_, took, err := manyTasks.run(ctx, url, n, 1000)
			drain = append(drain, perSecond(n, took))
			return err
		}); err != nil {
			return err
		}
		rate, err := b.backliteDrain(ctx, n)
		if err != nil {
			return err
		}
		backlite = append(backlite, rate)
		return nil
	})
	if err != nil {
		return err
	}
	for i := range 2 {
		b.add(line{name: fmt.Sprintf("SQLite whole life, %d single callers", shapes[i].callers), got: got[i], unit: "/s",
			atLeast: ofDriver * peer[i].median(), peer: "driver with group commit: " + figure(peer[i].median()) + "/s"})
	}
	b.add(line{name: "SQLite whole life, batch 1000, of the driver's limit", got: got[2].over(peer[2]), unit: "×", atLeast: ofDriver,
		absolute: figure(got[2].median()) + "/s", peer: "driver: " + figure(peer[2].median()) + "/s"})
	b.add(line{name: "SQLite drain, batch 1000", got: drain.over(backlite), unit: "×", atLeast: 3, absolute: figure(drain.median()) + "/s",
		peer: "backlite, 1000 workers: " + figure(backlite.median()) + "/s"})
	return nil
}

// pawlLives has callers create, claim and complete for a time.
func pawlLives(ctx context.Context, url string, callers, batch int, budget time.Duration, into *series) (err error) {
	h, err := openEngine(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	tasks := make([]pawl.NewTask, batch)
	for i := range tasks {
		tasks[i] = pawl.NewTask{Type: taskOf, Payload: payload}
	}
	rate, err := livesFor(callers, budget, func(who int) (int, error) {
		if err := firstOf(h.CreateTasks(ctx, tasks)); err != nil {
			return 0, err
		}
		leases, err := h.Claim(ctx, pawl.ClaimRequest{WorkerID: fmt.Sprintf("bench-%d", who), Types: []string{taskOf}, Limit: batch})
		if err != nil {
			return 0, err
		}
		return len(leases), h.complete(ctx, leases)
	})
	*into = append(*into, rate)
	return err
}
