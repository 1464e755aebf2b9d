package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/worker"
)

// flow measures what limits of queues cost where they are used.
func (b *bench) flow(ctx context.Context) error {
	n := b.sized(50_000, 20_000)
	var free, keyed, fileFree, fileKeyed, plain, rated, alone, beside series
	const limits = `{"per_key":{"pointer":"/tenant","concurrency":10}}`
	err := b.alternate(func() error {
		for _, m := range []struct {
			patch string
			into  *series
			file  *series
		}{{`{}`, &free, &fileFree}, {limits, &keyed, &fileKeyed}} {
			if err := b.fresh(ctx, forPawl, func(url string) error { return drainLimited(ctx, url, m.patch, n, m.into) }); err != nil {
				return err
			}
			if err := b.file(func(url string) error { return drainLimited(ctx, url, m.patch, n/4, m.file) }); err != nil {
				return err
			}
		}
		for big, into := range map[int]*series{0: &alone, b.sized(50_000, 20_000): &beside} {
			if err := b.fresh(ctx, forPawl, func(url string) error { return smallTenant(ctx, url, b.sized(1000, 300), big, into) }); err != nil {
				return err
			}
		}
		return b.fresh(ctx, forPawl, func(url string) error { return claimsOneByOne(ctx, url, b.sized(2000, 500), &plain, &rated) })
	})
	if err == nil {
		err = b.firings(ctx)
	}
	if err != nil {
		return err
	}
	for _, of := range []struct {
		name      string
		got, peer series
	}{{"PostgreSQL", keyed, free}, {"SQLite", fileKeyed, fileFree}} {
		b.add(line{name: "drain with a limit on each of 1000 keys, batch 100, of without, " + of.name, got: of.got.over(of.peer), unit: "×",
			atLeast: 0.5, absolute: figure(of.got.median()) + "/s", peer: "without: " + figure(of.peer.median()) + "/s"})
	}
	added := make(series, len(rated))
	for i := range rated {
		added[i] = rated[i] - plain[i]
	}
	b.add(line{name: "what a rate adds to a claim, p50, PostgreSQL", got: added, unit: "ms", atMost: 1,
		absolute: fmt.Sprintf("%.2f ms", rated.median()), peer: fmt.Sprintf("without: %.2f ms", plain.median())})
	b.add(line{name: "wait of a small tenant beside a large one, p95, of alone, PostgreSQL", got: beside.over(alone), unit: "×", atMost: 2,
		absolute: fmt.Sprintf("%.1f ms", beside.median()), peer: fmt.Sprintf("alone: %.1f ms", alone.median())})
	return nil
}

// smallTenant measures how long the tasks of a small tenant wait until a worker has them: 8
// workers take one item at a time and work for 0 to 10 ms on it. With equal times all of them would be
// free at the same moment, and a task would wait for it. big is how many tasks of a large tenant
// are queued before.
func smallTenant(ctx context.Context, url string, n, big int, into *series) (err error) {
	h, err := openEngine(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	if _, err := h.SetQueue(ctx, taskOf, pawl.QueuePatch(`{"per_key":{"pointer":"/tenant"}}`)); err != nil {
		return err
	}
	for i := 0; i < big; i += 1000 {
		tasks := slices.Repeat([]pawl.NewTask{{Type: taskOf, Payload: []byte(`{"tenant":"big"}`)}}, 1000)
		if err := firstOf(h.CreateTasks(ctx, tasks)); err != nil {
			return err
		}
	}
	r := newRace(n, 100)
	working, end := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer end()
	workers.Go(func() {
		_ = worker.RunWith(working, h, worker.Options{Concurrency: 8, NoPrefetch: true, Logger: slog.New(slog.DiscardHandler)},
			worker.Handler{Type: taskOf, Do: func(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
				var task struct{ N *int }
				if err := json.Unmarshal(input, &task); err == nil && task.N != nil {
					r.arrive(*task.N)
				}
				time.Sleep(rand.N(10 * time.Millisecond))
				return nil, nil
			}})
	})
	waits, err := r.run(ctx, 100, func(i int) error {
		_, err := pawl.Create(ctx, h, pawl.NewTask{Type: taskOf, Payload: fmt.Appendf(nil, `{"tenant":"small","n":%d}`, i)})
		return err
	})
	*into = append(*into, waits.quantile(0.95))
	return err
}

// tenants returns tasks of 1000 tenants, with payloads as long as those of other sections.
func tenants(n int) []pawl.NewTask {
	tasks := make([]pawl.NewTask, n)
	for i := range tasks {
		head := fmt.Sprintf(`{"tenant":"%d","text":"`, i%1000)
		tasks[i] = pawl.NewTask{Type: taskOf, Payload: json.RawMessage(head + strings.Repeat("x", max(0, len(payload)-len(head)-2)) + `"}`)}
	}
	return tasks
}

func drainLimited(ctx context.Context, url, patch string, n int, into *series) (err error) {
	h, err := openEngine(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	if _, err := h.SetQueue(ctx, taskOf, pawl.QueuePatch(patch)); err != nil {
		return err
	}
	for i := 0; i < n; i += 1000 {
		if err := firstOf(h.CreateTasks(ctx, tenants(min(1000, n-i)))); err != nil {
			return err
		}
	}
	took, err := h.drain(ctx, n, 100)
	*into = append(*into, perSecond(n, took))
	return err
}

// claimsOneByOne measures claims of one item, without a rate and with one that is never in the way.
func claimsOneByOne(ctx context.Context, url string, n int, plain, rated *series) (err error) {
	h, err := openEngine(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	const limited = "limited"
	if _, err := h.SetQueue(ctx, limited, pawl.QueuePatch(`{"rate":{"limit":1000000,"seconds":1}}`)); err != nil {
		return err
	}
	for _, typ := range []string{taskOf, limited} {
		items := make([]pawl.NewItem, n)
		if _, err := pawl.Create(ctx, h, pawl.NewTask{Type: typ, Items: items}); err != nil {
			return err
		}
	}
	took := map[string]series{}
	for range n {
		for _, typ := range []string{taskOf, limited} {
			start := clock.Now()
			got, err := h.Claim(ctx, pawl.ClaimRequest{WorkerID: "bench", Types: []string{typ}})
			if err != nil || len(got) != 1 {
				return fmt.Errorf("a claim of one item got %d: %w", len(got), err)
			}
			took[typ] = append(took[typ], millis(clock.Now().Sub(start)))
		}
	}
	*plain, *rated = append(*plain, took[taskOf].quantile(0.5)), append(*rated, took[limited].quantile(0.5))
	return nil
}
