package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
)

// spans of the schedule, which other benches of queues use, too: minutes of a clean database, of a snapshot that is held, and
// of recovery from it.
var scheduled = [3]time.Duration{10 * time.Minute, 30 * time.Minute, 10 * time.Minute}

const scheduledRate = 2000 // tasks a second

// lasts returns the length of a time at this run's scale. The short form takes about a two-hundredth of it.
func (b *bench) lasts(full time.Duration) time.Duration {
	if b.short {
		full /= 200
	}
	return time.Duration(float64(full) * b.scale)
}

// grown adds a line about what grows, if autovacuum could run in a time: by default it begins once a minute.
func (b *bench) grown(during time.Duration, l line) {
	if during < time.Minute {
		b.skip(l.name, "autovacuum begins once a minute, and "+during.String()+" is shorter")
		return
	}
	b.add(l)
}

// openRetaining opens an engine that archives and removes tasks of an age, as it runs.
func openRetaining(ctx context.Context, url string, age time.Duration) (*runningEngine, error) {
	sweeps := pawl.DefaultSweepOptions()
	sweeps.RetainTasks = age
	sweeps.ScanIntervalSeconds = max(1, int(age.Seconds()/2))
	return openEngineWith(ctx, url, engine.Options{Sweep: &sweeps})
}

// schedule runs the load of other benches: 2,000 tasks a second, for 50 minutes.
func (b *bench) schedule(ctx context.Context) error {
	clean, held, recovery := b.lasts(scheduled[0]), b.lasts(scheduled[1]), b.lasts(scheduled[2])
	l := &load{rate: scheduledRate, length: clean + held + recovery}
	l.interval = max(l.length/100, time.Second/4)
	if err := b.fresh(ctx, forPawl, func(url string) (err error) {
		h, err := openRetaining(ctx, url, b.lasts(time.Minute))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, h.stop()) }()
		return l.run(ctx, h, url, func(ctx context.Context) error {
			if err := rest(ctx, clean); err != nil {
				return err
			}
			release, err := hold(ctx, url)
			if err != nil {
				return err
			}
			defer release()
			return rest(ctx, held)
		})
	}); err != nil {
		return err
	}
	before, during, after := l.between(0, clean), l.between(clean, clean+held), l.between(clean+held, l.length)
	rates := func(value func([]sample) float64) string {
		return fmt.Sprintf("clean %s, held %s, recovery %s", figure(value(before)), figure(value(during)), figure(value(after)))
	}
	peer := fmt.Sprintf("of %s: %s clean, %s with a snapshot held, %s of recovery", l.length, clean, held, recovery)
	lives := func(s []sample) float64 { return mean(s, sample.lives) }
	slowest := min(lives(before), lives(during), lives(after))
	b.add(line{name: "schedule, lives kept of 2,000 a second", got: series{slowest / scheduledRate}, unit: "×", atLeast: 0.98,
		absolute: rates(lives), peer: peer})
	b.add(line{name: "schedule, claim p99 with a snapshot held, of clean", got: series{claimP99(during) / claimP99(before)}, unit: "×",
		atMost: 2, absolute: rates(claimP99) + " ms", peer: peer})
	b.add(line{name: "schedule, claim p99 of recovery, of clean", got: series{claimP99(after) / claimP99(before)}, unit: "×", atMost: 2,
		absolute: rates(claimP99) + " ms", peer: peer})
	dead := func(s []sample) float64 { return mean(s[max(0, len(s)-1):], sample.rows) }
	b.grown(recovery, line{name: "schedule, dead rows after recovery, of clean", got: series{dead(after) / dead(before)}, unit: "×",
		atMost: 2, absolute: rates(dead), peer: peer})
	return b.draw(l, "schedule", "2,000 tasks a second, a snapshot held in between", [2]time.Duration{clean, clean + held})
}

// steady works for 30 minutes at half of the rate at which whole lives and their removal were measured.
func (b *bench) steady(ctx context.Context) error {
	var whole wholeLife
	n := b.sized(50_000, 4_000)
	if err := b.fresh(ctx, forPawl, func(url string) error { return b.liveAndRetire(ctx, url, n, loadBatch, &whole) }); err != nil {
		return err
	}
	age := b.lasts(time.Minute)
	l := &load{rate: whole.kept.median() / 2, length: b.lasts(30 * time.Minute)}
	l.interval = max(l.length/100, time.Second/4)
	if err := b.fresh(ctx, forPawl, func(url string) (err error) {
		h, err := openRetaining(ctx, url, age)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, h.stop()) }()
		return l.run(ctx, h, url, func(context.Context) error { return nil })
	}); err != nil {
		return err
	}
	// Before is the time in which nothing is old enough to be removed. From a third on, as much is removed as ends.
	before, third, last := l.between(0, max(age, 2*l.interval)), l.between(l.length/4, l.length*5/12), l.between(l.length*5/6, l.length)
	peer := fmt.Sprintf("%s tasks a second for %s, removed at an age of %s", figure(l.rate), l.length, age)
	b.add(line{name: "steady state, lives kept of half the sustained rate", got: series{mean(last, sample.lives) / l.rate}, unit: "×",
		atLeast: 0.98, absolute: figure(mean(last, sample.lives)) + "/s", peer: peer})
	b.add(line{name: "steady state, claim p99, of before", got: series{claimP99(last) / claimP99(before)}, unit: "×", atMost: 2,
		absolute: figure(claimP99(last)) + " ms", peer: peer})
	for _, of := range []struct {
		name  string
		value func(sample) float64
	}{{"bytes", sample.bytes}, {"dead rows", sample.rows}} {
		b.grown(age, line{name: "steady state, " + of.name + " at the end, of a third", got: series{mean(last, of.value) / mean(third, of.value)},
			unit: "×", atMost: 1.5, absolute: figure(mean(last, of.value)), peer: peer})
	}
	return b.draw(l, "steady", "half of the sustained rate, tasks removed at an age of a minute", [2]time.Duration{})
}
