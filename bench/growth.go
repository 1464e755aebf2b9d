package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// churning is one way to churn, with its measurements.
type churning struct {
	name    string
	pinned  bool
	overall series
	parts   series // of the last round
	last    series // last part ÷ first part, by round
	churn   func(url string) (*slicer, error)
	on      string
}

// held churns with Pawl and with River, each with and without a snapshot held open.
func (b *bench) held(ctx context.Context) error {
	n := b.sized(500_000, 60_000)
	pawls := func(url string) (*slicer, error) { return b.pawlChurn(ctx, url, n) }
	rivers := func(url string) (*slicer, error) { return riverChurn(ctx, url, n) }
	free, pinned := &churning{name: "Pawl", churn: pawls, on: forPawl},
		&churning{name: "Pawl, snapshot held", pinned: true, churn: pawls, on: forPawl}
	riverFree, riverPinned := &churning{name: "River", churn: rivers, on: forRiver},
		&churning{name: "River, snapshot held", pinned: true, churn: rivers, on: forRiver}
	kinds := []*churning{pinned, riverPinned, free, riverFree}
	if b.short {
		kinds = kinds[:3]
	}
	if err := b.alternate(func() error {
		for _, k := range kinds {
			err := b.fresh(ctx, k.on, func(url string) error {
				if k.pinned {
					release, err := hold(ctx, url)
					if err != nil {
						return err
					}
					defer release()
				}
				s, err := k.churn(url)
				if err != nil {
					return err
				}
				parts, overall := s.rates()
				k.parts, k.overall = parts, append(k.overall, overall)
				k.last = append(k.last, parts[len(parts)-1]/parts[0])
				b.say("churn of %d on %s, snapshot held %t: %s/s, by part %s", n, k.on, k.pinned, figure(overall), parts)
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	of := fmt.Sprintf("of %s items", figure(float64(n)))
	rate := func(s series) string { return figure(s.median()) + "/s" }
	b.add(line{name: "snapshot held: last tenth against first", got: pinned.last, unit: "×", atLeast: 0.9, absolute: of,
		peer: "River: " + figure(riverPinned.last.median()) + "×"})
	atEnd := line{name: "no snapshot held: last tenth against first", got: free.last, unit: "×", atLeast: 0.9, absolute: of}
	if b.short { // River gets slow only in the 500,000 items of the full form
		b.add(atEnd)
		return nil
	}
	atEnd.peer = "River: " + figure(riverFree.last.median()) + "×"
	b.add(atEnd)
	b.add(line{name: "snapshot held: overall", got: pinned.overall.over(riverPinned.overall), unit: "×", atLeast: 3,
		absolute: rate(pinned.overall), peer: "River: " + rate(riverPinned.overall)})
	return drawChurns(n, []*churning{free, pinned, riverFree, riverPinned}).write(b.docs, "held-snapshot.svg")
}

func drawChurns(n int, all []*churning) curve {
	c := curve{title: fmt.Sprintf("Items a second while %s go through, with and without a snapshot held", figure(float64(n))),
		x: "items done", y: "items a second"}
	for _, k := range all {
		l := plot{name: k.name}
		for i, v := range k.parts {
			l.points = append(l.points, point{float64((i + 1) * n / parts), v})
		}
		c.lines = append(c.lines, l)
	}
	return c
}

func (b *bench) pawlChurn(ctx context.Context, url string, n int) (s *slicer, err error) {
	h, err := openEngine(ctx, url)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	return h.churn(ctx, n)
}

func riverChurn(ctx context.Context, url string, n int) (*slicer, error) {
	r, err := openRiver(ctx, url, riverSet{workers: 1000, cooldown: riverBest.cooldown}, nil)
	if err != nil {
		return nil, err
	}
	defer r.pool.Close()
	return r.churn(ctx, n)
}

// backlog times claims of 1 and of 100 while the number of waiting items grows.
func (b *bench) backlog(ctx context.Context) error {
	ones, hundreds := plot{name: "claim of 1"}, plot{name: "claim of 100"}
	err := b.fresh(ctx, forPawl, func(url string) (err error) {
		h, err := openEngine(ctx, url)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, h.stop()) }()
		waiting := 0
		for _, depth := range []int{10_000, 100_000, 1_000_000, 5_000_000} {
			depth = max(10_000, b.sized(depth, depth))
			if _, err := h.createTasks(ctx, depth-waiting, 1000); err != nil {
				return err
			}
			waiting = depth
			if _, err := sizes(ctx, url, "vacuum"); err != nil { // else autovacuum would run in the middle, and only at the largest depths
				return err
			}
			if err := b.admin.checkpoint(ctx); err != nil {
				return err
			}
			for limit, p := range map[int]*plot{1: &ones, 100: &hundreds} {
				n := 60
				if limit == 1 {
					n = 1500
				}
				var rounds series
				for range 3 { // the depth is restored before each
					if _, err := h.createTasks(ctx, depth-waiting, 1000); err != nil {
						return err
					}
					s, err := h.claimTimes(ctx, limit, n)
					if err != nil {
						return err
					}
					waiting = depth - n*limit
					rounds = append(rounds, s.median())
				}
				p.points = append(p.points, point{float64(depth), rounds.median()})
				b.say("claim of %d at a backlog of %d: p50 %s ms", limit, depth, rounds)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, p := range []plot{ones, hundreds} {
		first, last := p.points[0], p.points[len(p.points)-1]
		b.add(line{name: p.name + ", backlog of 5 M against 10 k", got: series{last.y / first.y}, unit: "×", atMost: 1.2,
			absolute: figure(last.y) + " ms"})
	}
	return curve{title: "p50 of a claim, by how much waits", x: "items waiting", y: "ms", logX: true,
		lines: []plot{ones, hundreds}}.write(b.docs, "backlog.svg")
}

// claimTimes makes n claims and returns their times in ms.
func (h *runningEngine) claimTimes(ctx context.Context, limit, n int) (out series, err error) {
	for range n {
		start := clock.Now()
		got, err := h.Claim(ctx, pawl.ClaimRequest{WorkerID: "bench", Types: []string{taskOf}, Limit: limit, LeaseSeconds: 3600})
		if err != nil {
			return nil, err
		}
		out = append(out, millis(clock.Now().Sub(start)))
		if len(got) != limit {
			return nil, fmt.Errorf("claimed %d of %d", len(got), limit)
		}
	}
	return out, nil
}

// bloat churns a million items and compares the tables' sizes with those of the same rows
// newly written.
func (b *bench) bloat(ctx context.Context) error {
	n := b.sized(1_000_000, 1_000_000)
	return b.fresh(ctx, forPawl, func(url string) error {
		if _, err := b.pawlChurn(ctx, url, n); err != nil {
			return err
		}
		churned, err := sizes(ctx, url, "")
		if err != nil {
			return err
		}
		if _, err := sizes(ctx, url, "vacuum"); err != nil {
			return err
		}
		if _, err := b.pawlChurn(ctx, url, n/5); err != nil {
			return err
		}
		again, err := sizes(ctx, url, "")
		if err != nil {
			return err
		}
		fresh, err := sizes(ctx, url, "vacuum full")
		if err != nil {
			return err
		}
		for _, t := range []string{"tasks", "items", "finished_items", "task_events", "ready", "leases"} {
			b.say("%s after %d: heap %d MiB, indexes %d MiB; after a fifth more %d, %d; written anew %d, %d", t, n,
				churned[t].heap>>20, churned[t].indexes>>20, again[t].heap>>20, again[t].indexes>>20, fresh[t].heap>>20, fresh[t].indexes>>20)
		}
		wide := func(s map[string]size) (heap, indexes float64) {
			for _, t := range []string{"tasks", "items", "finished_items", "task_events"} {
				heap, indexes = heap+float64(s[t].heap), indexes+float64(s[t].indexes)
			}
			return heap, indexes
		}
		hot := func(s map[string]size) float64 {
			return float64(s["ready"].heap + s["ready"].indexes + s["leases"].heap + s["leases"].indexes)
		}
		heap, indexes := wide(again)
		heapNew, indexesNew := wide(fresh)
		b.add(line{name: "bloat of wide tables after 1 M items", got: series{(heap + indexes) / (heapNew + indexesNew)}, unit: "×", atMost: 1.1,
			absolute: fmt.Sprintf("heap %s×, indexes %s×", figure(heap/heapNew), figure(indexes/indexesNew))})
		b.add(line{name: "hot tables reused: size after a fifth more", got: series{hot(again) / hot(churned)}, unit: "×", atMost: 1.05,
			absolute: fmt.Sprintf("%d MiB", int64(hot(again))>>20)})
		b.say("%s bytes an item on disk", figure((heap+indexes)/float64(n+n/5)))
		return nil
	})
}

// size is the size of a table in bytes.
type size struct{ heap, indexes int64 }

// sizes reads the sizes of Pawl's tables, after an optional statement.
func sizes(ctx context.Context, url, before string) (map[string]size, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	if before != "" {
		if _, err := conn.Exec(ctx, text(before)); err != nil {
			return nil, err
		}
	}
	rows, err := conn.Query(ctx, text("sizes"), "pawl")
	if err != nil {
		return nil, err
	}
	out := map[string]size{}
	var table string
	var s size
	_, err = pgx.ForEachRow(rows, []any{&table, &s.heap, &s.indexes}, func() error {
		out[table] = s
		return nil
	})
	return out, err
}

// manyCheckpoints appends to a file with few checkpoints and to one with a million.
func (b *bench) manyCheckpoints(ctx context.Context) error {
	full, n := b.sized(1_000_000, 1_000_000), b.sized(40_000, 40_000)
	return b.file(func(url string) (err error) {
		h, err := openEngine(ctx, url)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, h.stop()) }()
		first, err := h.appendCheckpoints(ctx, n)
		if err != nil {
			return err
		}
		between, err := h.appendCheckpoints(ctx, full-n)
		if err != nil {
			return err
		}
		last, err := h.appendCheckpoints(ctx, n)
		b.say("checkpoints: first %s/s, up to a million %s/s, then %s/s", figure(first), figure(between), figure(last))
		b.add(line{name: "checkpoint append at 1 M checkpoints, against few", got: series{last / first}, unit: "×", atLeast: 0.9,
			absolute: figure(last) + "/s"})
		return err
	})
}
