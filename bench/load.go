package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// load creates tasks of one at a steady rate, works on them, and notes how the database fares meanwhile.
type load struct {
	rate     float64 // tasks a second
	length   time.Duration
	interval time.Duration // between two samples

	mu      sync.Mutex
	done    int
	claims  series // ms, since the last sample
	samples []sample
}

// sample is what one interval was like.
type sample struct {
	at            time.Duration // its end, since the load began
	done          float64       // lives a second
	took          series        // ms of each claim
	dead          float64       // rows that are not removed yet
	tables, index float64       // bytes
}

// loadBatch is the largest batch of a load. Smaller ones are what the rate makes.
const loadBatch = 100

// run puts the load on an engine. during is called beside it.
func (l *load) run(ctx context.Context, h *runningEngine, url string, during func(ctx context.Context) error) (err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	ctx, end := context.WithCancel(ctx)
	defer end()
	start := clock.Now()
	jobs := []func() error{
		func() error { return l.produce(ctx, h, start) },
		func() error { return l.watch(ctx, conn, start) },
		func() error { return during(ctx) },
	}
	for who := range callers {
		jobs = append(jobs, func() error { return l.consume(ctx, h, who, start) })
	}
	_, err = many(len(jobs), func(i int) error {
		err := jobs[i]()
		if err != nil {
			end() // the others would go on for the whole time
		}
		return err
	})
	return err
}

// produce creates what the rate asks for.
func (l *load) produce(ctx context.Context, h *runningEngine, start time.Time) error {
	for made := 0; ; {
		past := clock.Now().Sub(start)
		if past >= l.length {
			return nil
		}
		k := min(churnBatch, int(l.rate*past.Seconds())-made)
		if k <= 0 {
			if err := rest(ctx, 20*time.Millisecond); err != nil {
				return err
			}
			continue
		}
		if err := h.createOnce(ctx, k); err != nil {
			return err
		}
		made += k
	}
}

// consume claims and completes until the end.
func (l *load) consume(ctx context.Context, h *runningEngine, who int, start time.Time) error {
	for {
		before := clock.Now()
		if before.Sub(start) >= l.length {
			return nil
		}
		got, err := h.Claim(ctx, pawl.ClaimRequest{WorkerID: fmt.Sprintf("load-%d", who), Types: []string{taskOf}, Limit: loadBatch})
		if err != nil {
			return err
		}
		took := millis(clock.Now().Sub(before))
		if err := h.complete(ctx, got); err != nil {
			return err
		}
		if len(got) == 0 {
			if err := rest(ctx, 10*time.Millisecond); err != nil {
				return err
			}
			continue
		}
		l.mu.Lock()
		l.done += len(got)
		l.claims = append(l.claims, took)
		l.mu.Unlock()
	}
}

// watch takes the samples.
func (l *load) watch(ctx context.Context, conn *pgx.Conn, start time.Time) error {
	last := start
	for next := start.Add(l.interval); !next.After(start.Add(l.length)); next = next.Add(l.interval) {
		if err := rest(ctx, next.Sub(clock.Now())); err != nil {
			return err
		}
		var s sample
		if err := conn.QueryRow(ctx, text("load")).Scan(&s.dead, &s.tables, &s.index); err != nil {
			return err
		}
		now := clock.Now()
		l.mu.Lock()
		s.at, s.done, s.took = now.Sub(start), perSecond(l.done, now.Sub(last)), l.claims
		l.done, l.claims = 0, nil
		l.mu.Unlock()
		last = now
		l.samples = append(l.samples, s)
	}
	return nil
}

// between returns the samples whose intervals end in a part of the load.
func (l *load) between(from, to time.Duration) (part []sample) {
	for _, s := range l.samples {
		if end := s.at - l.interval/2; end > from && end <= to { // a sample is late, never early
			part = append(part, s)
		}
	}
	return part
}

// mean returns the mean of a value of samples.
func mean(of []sample, value func(sample) float64) (m float64) {
	for _, s := range of {
		m += value(s) / float64(len(of))
	}
	return m
}

// claimP99 returns the 99th percentile of all claims of samples, in ms.
func claimP99(of []sample) float64 {
	var all series
	for _, s := range of {
		all = append(all, s.took...)
	}
	return all.quantile(0.99)
}

func (s sample) lives() float64 { return s.done }
func (s sample) rows() float64  { return s.dead }
func (s sample) bytes() float64 { return s.tables + s.index }

// draw writes the samples as charts below each other, to docs/NAME.svg if this run has the whole length. The time from
// shaded[0] to shaded[1] is marked.
func (b *bench) draw(l *load, name, title string, shaded [2]time.Duration) error {
	line := func(name string, value func(sample) float64) plot {
		p := plot{name: name}
		for _, s := range l.samples {
			p.points = append(p.points, point{s.at.Minutes(), value(s)})
		}
		return p
	}
	mega := func(value func(sample) float64) func(sample) float64 {
		return func(s sample) float64 { return value(s) / (1 << 20) }
	}
	charts := []curve{
		{title: title, y: "lives/s", lines: []plot{line("lives a second", sample.lives)}},
		{y: "ms", lines: []plot{line("p99 of a claim", func(s sample) float64 { return claimP99([]sample{s}) })}},
		{y: "rows", lines: []plot{line("dead rows", sample.rows)}},
		{y: "MiB", lines: []plot{line("tables", mega(func(s sample) float64 { return s.tables })),
			line("indexes", mega(func(s sample) float64 { return s.index }))}},
	}
	for i := range charts {
		charts[i].x = "minutes"
		charts[i].shaded = [2]float64{shaded[0].Minutes(), shaded[1].Minutes()}
	}
	file := filepath.Join(b.docs, name+".svg")
	if b.short || b.scale != 1 {
		file = filepath.Join(os.TempDir(), "pawl-bench-"+name+".svg")
	}
	b.say("drawn: %s", file)
	return writeBelow(file, charts)
}
