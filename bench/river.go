package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/pawl-work/pawl/internal/clock"
)

// riverArgs are the arguments of a River job, 200 bytes as JSON.
type riverArgs struct {
	To string `json:"to"`
}

// Kind implements river.JobArgs.
func (riverArgs) Kind() string { return "bench" }

var riverJob = func() (a riverArgs) {
	_ = json.Unmarshal(payload, &a) // the bench wrote it
	return a
}()

// riverWorker only reports that it was called.
type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	did func(riverArgs)
}

// Work implements river.Worker.
func (w *riverWorker) Work(_ context.Context, job *river.Job[riverArgs]) error {
	if w.did != nil {
		w.did(job.Args)
	}
	return nil
}

// riverSet configures River.
type riverSet struct {
	workers  int
	cooldown time.Duration // 0 = River's default, 100 ms
}

var (
	riverBest     = riverSet{workers: 2000, cooldown: time.Millisecond}
	riverDefaults = riverSet{workers: 100}
)

func (s riverSet) String() string {
	if s.cooldown == 0 {
		return fmt.Sprintf("River at its defaults, %d workers", s.workers)
	}
	return fmt.Sprintf("River, %d workers, cooldown %s", s.workers, s.cooldown)
}

const riverConns = 20

type riverClient struct {
	*river.Client[pgx.Tx]
	pool *pgxpool.Pool
}

func openRiver(ctx context.Context, url string, set riverSet, did func(riverArgs)) (*riverClient, error) {
	pool, err := poolOf(ctx, url, riverConns)
	if err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{did: did})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: set.workers}},
		FetchCooldown: set.cooldown,
		Workers:       workers,
		Logger:        slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &riverClient{client, pool}, nil
}

func migrateRiver(ctx context.Context, url string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	m, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return err
	}
	_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// create inserts n jobs with InsertManyFast.
func (r *riverClient) create(ctx context.Context, n, batch int) (time.Duration, error) {
	todo := inBatches(n, batch)
	params := make([]river.InsertManyParams, batch)
	for i := range params {
		params[i] = river.InsertManyParams{Args: riverJob}
	}
	return many(callers, func(int) error {
		for k := todo.next(); k > 0; k = todo.next() {
			if _, err := r.InsertManyFast(ctx, params[:k]); err != nil {
				return err
			}
		}
		return nil
	})
}

// completions subscribes to the jobs that River reports as completed in the database. room is
// how many of its events are buffered.
func (r *riverClient) completions(room int) (<-chan *river.Event, func()) {
	return r.SubscribeConfig(&river.SubscribeConfig{ChanSize: room, Kinds: []river.EventKind{river.EventKindJobCompleted}})
}

// drain works on n jobs until all are completed in the database.
func (r *riverClient) drain(ctx context.Context, url string, n int) (time.Duration, error) {
	events, cancel := r.completions(n)
	defer cancel()
	start := clock.Now()
	if err := r.Start(ctx); err != nil {
		return 0, err
	}
	for range n {
		select {
		case <-events:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	took := clock.Now().Sub(start)
	if err := r.Stop(ctx); err != nil {
		return 0, err
	}
	done, err := one(ctx, url, "river done")
	if err == nil && done != int64(n) {
		err = fmt.Errorf("completed %d of %d jobs", done, n)
	}
	return took, err
}

// numbered returns a string with a number in it; an argument that holds it has 200 bytes as JSON.
func numbered(i int) string { return fmt.Sprintf("%08d", i) + strings.Repeat("x", 183) }

// numberOf returns the number of a payload.
func numberOf(to string) (i int) {
	_, _ = fmt.Sscanf(to[:8], "%d", &i)
	return i
}
