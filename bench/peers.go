package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
)

// peer is a queue on PostgreSQL that runs whole lives, in the best set-up that its documents name.
type peer struct {
	name, setup string
	keeps       string // of an ended life, and what a crash costs
	done        string // the statement that counts what is completed
	template    string
	program     bool // runs in a program that is installed; the others are in this one
	open        func(ctx context.Context, p peer, url string) (*openPeer, error)
}

// openPeer is a peer on one database.
type openPeer struct {
	create, drain func(n int) (time.Duration, error) // batches are the peer's own
	cpu           func() float64                     // seconds of its own process; nil if it runs in this one
	close         func() error
}

var peers = []peer{
	{"River", riverBest.String() + ", InsertManyFast",
		"keeps the row for a day; what a crash interrupts waits for an hour", "river done", forRiver, false, openRiverPeer},
	{"DBOS", dbosSetup,
		"keeps the row and its output for ever; what a crash interrupts waits for that process", "dbos done", forOthers, false, openDBOS},
	{"graphile-worker", "0.18 on Node, addJobs, 24 at once, local queue of 500, completions in batches",
		"keeps nothing; what a crash interrupts waits for four hours", "graphile-worker done", forOthers, true, startPeer},
	{"pg-boss", "12.38 on Node, insert, 4 workers of batches of 1000, burst, a table of its own",
		"keeps the row for 7 days; what a crash interrupts waits for 15 minutes", "pg-boss done", forOthers, true, startPeer},
	{"awa", "0.6 on Python, enqueue_many_copy, 4 claimers of batches of 512, 256 workers",
		"keeps the row for seconds, then a number; what a crash interrupts is found by heartbeats", "awa done", forOthers, true, startPeer},
}

// pawlPeer is Pawl as a peer. It has drained when all events are in the log.
func pawlPeer(batch int) peer {
	return peer{name: "Pawl", template: forPawl, done: "pawl done", open: func(ctx context.Context, _ peer, url string) (*openPeer, error) {
		h, err := openEngine(ctx, url)
		if err != nil {
			return nil, err
		}
		return &openPeer{
			create: func(n int) (time.Duration, error) { return h.createTasks(ctx, n, batch) },
			drain:  func(n int) (time.Duration, error) { return h.drainAndLog(ctx, n, batch) },
			close:  h.stop,
		}, nil
	}}
}

func openRiverPeer(ctx context.Context, _ peer, url string) (*openPeer, error) {
	r, err := openRiver(ctx, url, riverBest, nil)
	if err != nil {
		return nil, err
	}
	return &openPeer{
		create: func(n int) (time.Duration, error) { return r.create(ctx, n, 1000) },
		drain:  func(n int) (time.Duration, error) { return r.drain(ctx, url, n) },
		close:  func() error { r.pool.Close(); return nil },
	}, nil
}

// patience is how long the lives of one peer may take. One that stops must not stop the bench.
const patience = 10 * time.Minute

// peersProgram installs and starts the peers that are not written in Go.
const peersProgram = "./peers/run"

// startPeer starts the program of a peer. What it speaks is in peers/serve.cjs.
func startPeer(ctx context.Context, p peer, url string) (*openPeer, error) {
	c, err := startChild(exec.CommandContext(ctx, peersProgram, "start", p.name, url, string(payload)))
	if err != nil {
		return nil, err
	}
	do := func(what string) func(n int) (time.Duration, error) {
		return func(n int) (time.Duration, error) {
			start := clock.Now()
			if _, err := fmt.Fprintf(c.in, "%s %d\n", what, n); err != nil {
				return 0, err
			}
			_, err := c.out.ReadString('\n')
			return clock.Now().Sub(start), err
		}
	}
	cpu := func() float64 { return float64(ticksOf(strconv.Itoa(c.cmd.Process.Pid))) / 100 } // USER_HZ
	return &openPeer{do("create"), do("drain"), cpu, func() error { c.end(); return nil }}, nil
}

// missing returns why a peer cannot be measured here. It installs the peer first, if it may.
func (b *bench) missing(ctx context.Context, p peer) (reason string) {
	if !p.program {
		return ""
	}
	what := "installed"
	if b.install {
		what = "install"
	}
	out, err := exec.CommandContext(ctx, peersProgram, what, p.name).CombinedOutput()
	if err == nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return fmt.Sprintf("%s (%v)", lines[len(lines)-1], err)
}

// othersLives measures whole lives of Pawl and of each peer that can be had here, in turn.
func (b *bench) othersLives(ctx context.Context) error {
	n := b.sized(50_000, 3_000)
	var own, small wholeLife
	others := make([]wholeLife, len(peers))
	missing := make([]string, len(peers))
	for i, p := range peers {
		missing[i] = b.missing(ctx, p)
	}
	if err := b.alternate(func() error {
		if err := b.lives(ctx, pawlPeer(1000), n, &own); err != nil {
			return err
		}
		if err := b.lives(ctx, pawlPeer(100), n, &small); err != nil {
			return err
		}
		for i, p := range peers {
			if missing[i] != "" {
				continue
			}
			if err := b.lives(ctx, p, n, &others[i]); ctx.Err() != nil {
				return err
			} else if err != nil {
				missing[i] = err.Error() // the others go on
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for i, p := range peers {
		rate, cpu := "whole life with the log, of "+p.name, "CPU of a whole life with the log, of "+p.name
		if missing[i] != "" {
			b.skip(rate, missing[i])
			b.skip(cpu, missing[i])
			continue
		}
		b.add(line{name: rate, got: own.rate.over(others[i].rate), unit: "×", atLeast: 1,
			absolute: figure(own.rate.median()) + "/s; batch 100: " + figure(small.rate.median()) + "/s",
			peer:     figure(others[i].rate.median()) + "/s: " + p.setup + "; " + p.keeps})
		b.add(line{name: cpu, got: own.cpu.over(others[i].cpu), unit: "×", atMost: 1,
			absolute: figure(own.cpu.median()) + " µs; batch 100: " + figure(small.cpu.median()) + " µs",
			peer:     figure(others[i].cpu.median()) + " µs"})
	}
	return nil
}

// lives measures n whole lives of a peer in a fresh database: their rate, and the processor time of client and server.
func (b *bench) lives(ctx context.Context, p peer, n int, into *wholeLife) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return b.fresh(ctx, p.template, func(url string) (err error) {
		o, err := p.open(ctx, p, url)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		defer func() {
			if closed := o.close(); err == nil {
				err = closed
			}
		}()
		if err := b.admin.checkpoint(ctx); err != nil { // what it made at its start is not measured
			return err
		}
		cpu := func() float64 {
			if o.cpu == nil {
				return b.admin.cpu()
			}
			return b.admin.cpu() + o.cpu()
		}
		before := cpu()
		create, err := o.create(n)
		if err != nil {
			return fmt.Errorf("%s: create: %w", p.name, err)
		}
		drain, err := o.drain(n)
		if err != nil {
			return fmt.Errorf("%s: drain: %w", p.name, err)
		}
		used := cpu() - before
		if done, err := one(ctx, url, p.done); err != nil || done != int64(n) {
			return fmt.Errorf("%s: %d of %d are completed (%v)", p.name, done, n, err)
		}
		into.rate = append(into.rate, perSecond(n, create+drain))
		into.cpu = append(into.cpu, used/float64(n)*1e6)
		b.say("%s: create %s/s, drain %s/s, whole %s/s, %s µs of processor time", p.name, figure(perSecond(n, create)),
			figure(perSecond(n, drain)), figure(perSecond(n, create+drain)), figure(used/float64(n)*1e6))
		return nil
	})
}
