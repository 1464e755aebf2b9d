package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/worker"
)

// stepsOfBoth measures the steps of handlers and their checkpoints.
func (b *bench) stepsOfBoth(ctx context.Context) error {
	n := b.sized(5000, 1500)
	var file, server, bareFile, bareServer series
	if err := b.alternate(func() error {
		if err := b.file(func(url string) error { return inARow(ctx, url, n, &file) }); err != nil {
			return err
		}
		if err := b.bareCommitsOfFile(ctx, n, &bareFile); err != nil {
			return err
		}
		return b.fresh(ctx, forPawl, func(url string) error {
			return errors.Join(inARow(ctx, url, n, &server), bareCommits(ctx, url, n, &bareServer))
		})
	}); err != nil {
		return err
	}
	b.add(line{name: "steps in a row in one handler, SQLite", got: file, unit: "/s", atLeast: 3000,
		peer: "Restate 1.08k/s, DBOS 0.96k/s (measured elsewhere)"})
	b.add(line{name: "steps in a row in one handler, PostgreSQL", got: server, unit: "/s", atLeast: 2000,
		peer: "Restate 1.08k/s, DBOS 0.96k/s (measured elsewhere)"})
	for _, of := range []struct {
		name      string
		got, bare series
	}{{"SQLite", file, bareFile}, {"PostgreSQL", server, bareServer}} {
		b.add(line{name: "steps in a row in one handler, of bare commits, " + of.name, got: of.got.over(of.bare), unit: "×", atLeast: 0.7,
			absolute: figure(of.got.median()) + "/s", peer: "commits of one row: " + figure(of.bare.median()) + "/s"})
	}

	var appended, replayed series
	if err := b.alternate(func() error {
		if err := b.file(func(url string) error { return appends(ctx, url, b.sized(60_000, 20_000), &appended) }); err != nil {
			return err
		}
		return b.file(func(url string) error { return replays(ctx, url, b.sized(400, 100), &replayed) })
	}); err != nil {
		return err
	}
	b.add(line{name: "checkpoint append, 64 callers, SQLite", got: appended, unit: "/s", atLeast: 20_000})
	b.add(line{name: "step replay, 64 handlers, SQLite", got: replayed, unit: "/s", atLeast: 50_000,
		absolute: "the read of what is left included"})
	return nil
}

// inARow runs n steps one after the other in one handler.
func inARow(ctx context.Context, url string, n int, into *series) (err error) {
	h, err := openEngine(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	if _, err := pawl.Create(ctx, h, pawl.NewTask{Type: taskOf, Payload: payload}); err != nil {
		return err
	}
	working, end := context.WithCancel(ctx)
	defer end()
	var took time.Duration
	var failed error
	err = worker.Run(working, h, worker.Handler{Type: taskOf, Do: func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
		defer end()
		start := clock.Now()
		for i := range n {
			if _, failed = pawl.Step(ctx, fmt.Sprintf("step-%d", i), func(context.Context) (int, error) { return i, nil }); failed != nil {
				return nil, failed
			}
		}
		took = clock.Now().Sub(start)
		return result, nil
	}})
	*into = append(*into, perSecond(n, took))
	return errors.Join(err, failed)
}

// bareCommitsOfFile commits n transactions of one row, one after the other, to an SQLite file.
func (b *bench) bareCommitsOfFile(ctx context.Context, n int, into *series) error {
	db, err := b.openFile()
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, text("bare table")); err != nil {
		return err
	}
	insert, err := db.PrepareContext(ctx, text("bare commit"))
	if err != nil {
		return err
	}
	start := clock.Now()
	for i := range n {
		if _, err := insert.ExecContext(ctx, i, string(payload)); err != nil {
			return err
		}
	}
	*into = append(*into, perSecond(n, clock.Now().Sub(start)))
	return nil
}

// bareCommits does the same on PostgreSQL.
func bareCommits(ctx context.Context, url string, n int, into *series) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, text("bare table")); err != nil {
		return err
	}
	start := clock.Now()
	for i := range n {
		if _, err := conn.Exec(ctx, text("bare commit"), i, string(payload)); err != nil {
			return err
		}
	}
	*into = append(*into, perSecond(n, clock.Now().Sub(start)))
	return nil
}

// appends saves n checkpoints by single calls; each caller has its own lease.
func appends(ctx context.Context, url string, n int, into *series) (err error) {
	h, err := openEngine(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	rate, err := h.appendCheckpoints(ctx, n)
	*into = append(*into, rate)
	return err
}

func (h *runningEngine) appendCheckpoints(ctx context.Context, n int) (float64, error) {
	if _, err := h.createTasks(ctx, crowd, crowd); err != nil {
		return 0, err
	}
	leases, err := h.claimAll(ctx, crowd, 3600)
	if err != nil {
		return 0, err
	}
	todo := inBatches(n, 1)
	took, err := many(crowd, func(who int) error {
		for todo.next() > 0 {
			if _, err := pawl.SaveCheckpoint(ctx, h, leases[who].Fence(),
				pawl.NewCheckpoint{Type: pawl.LLMResponse, Snapshot: payload}); err != nil {
				return err
			}
		}
		return nil
	})
	return perSecond(n, took), err
}

// replays runs handlers of n steps until all steps are saved, and has all of them fail. It
// measures how fast their second attempts pass the same steps.
func replays(ctx context.Context, url string, n int, into *series) (err error) {
	h, err := openEngine(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	if _, err := h.createTasks(ctx, crowd, crowd); err != nil {
		return err
	}
	working, end := context.WithCancel(ctx)
	defer end()
	var saved, again, over gate
	saved.need, again.need, over.need = crowd, crowd, crowd
	var ran atomic.Int64
	var start, stop time.Time
	var once sync.Once
	err = worker.RunWith(working, h, worker.Options{Concurrency: crowd, LeaseSeconds: 600, Logger: slog.New(slog.DiscardHandler)},
		worker.Handler{Type: taskOf, Do: func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			lease, err := pawl.ItemFrom(ctx)
			if err != nil {
				return nil, err
			}
			if lease.Attempt == 2 {
				again.pass()
				once.Do(func() { start = clock.Now() })
			}
			for i := range n {
				if _, err := pawl.Step(ctx, fmt.Sprintf("step-%d", i), func(context.Context) (riverArgs, error) {
					ran.Add(1)
					return riverJob, nil
				}); err != nil {
					return nil, err
				}
			}
			if lease.Attempt == 1 {
				saved.pass()
				return nil, pawl.RetryAfter(0, errors.New("once more"))
			}
			over.passThen(func() {
				stop = clock.Now()
				end()
			})
			return result, nil
		}})
	if err == nil && ran.Load() != int64(n*crowd) {
		err = fmt.Errorf("%d steps were run, of %d", ran.Load(), n*crowd)
	}
	*into = append(*into, perSecond(n*crowd, stop.Sub(start)))
	return err
}
