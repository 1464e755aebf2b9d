package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
	"golang.org/x/sync/errgroup"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// beatOverHTTP measures how long heartbeats take at a rate of 2,000 a second.
func (b *bench) beatOverHTTP(ctx context.Context, url string, late, reached *series) (err error) {
	const pace = 2000
	leases, err := leased(ctx, url, pace)
	if err != nil {
		return err
	}
	s, err := b.serve(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	n := b.sized(10*pace, 2*pace)
	took := make(series, 0, n)
	start := clock.Now()
	err = attack(s, n, pace, func(i int) (string, any) {
		l := leases[i%len(leases)]
		return "/v1/items/" + l.ID + ":heartbeat", completion{WorkerID: l.WorkerID, Attempt: l.Attempt}
	}, func(r *vegeta.Result) error {
		took = append(took, millis(r.Latency))
		return nil
	}, vegeta.Workers(crowd))
	*late, *reached = append(*late, took.quantile(0.99)), append(*reached, perSecond(n, clock.Now().Sub(start)))
	return err
}

// leased creates n items and claims them.
func leased(ctx context.Context, url string, n int) (leases []pawl.Lease, err error) {
	h, err := openEngine(ctx, url)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	if _, err := h.createTasks(ctx, n, 1000); err != nil {
		return nil, err
	}
	return h.claimAll(ctx, n, 3600)
}

// waiters measures what 5,000 long polls without work and 1,000 readers of the feed cost a
// server while nothing happens. These numbers are not scaled.
func (b *bench) waiters(ctx context.Context) error {
	var memory, each, connections series
	const pollers, readers = 5000, 1000
	err := b.alternate(func() error {
		return b.fresh(ctx, forPawl, func(url string) error {
			return b.wait(ctx, url, pollers, readers, &memory, &each, &connections)
		})
	})
	if err != nil {
		return err
	}
	b.add(line{name: "memory of a server with 6,000 who wait", got: memory, unit: " MB", atMost: 200,
		absolute: "5,000 long-pollers, 1,000 readers of the feed"})
	b.add(line{name: "memory of a waiting caller", got: each, unit: " KB", atMost: 20,
		absolute: "what 6,000 add to the server, of each"})
	b.add(line{name: "database connections with 6,000 who wait", got: connections, atMost: 16, absolute: "10 for calls, 6 reserved"})
	return nil
}

func (b *bench) wait(ctx context.Context, url string, pollers, readers int, memory, each, connections *series) (err error) {
	const pace, still = 1000, 10 * time.Second
	s, err := b.serve(ctx, url)
	if err != nil {
		return err
	}
	alone, err := s.resident()
	if err != nil {
		return errors.Join(err, s.stop())
	}
	var all errgroup.Group
	wait := func(n int, target func(int) (string, any)) {
		all.Go(func() error {
			return attack(s, n, pace, target, func(r *vegeta.Result) error {
				if r.Latency < still {
					return fmt.Errorf("%s %s was answered after %s: %s", r.Method, r.URL, r.Latency, r.Body)
				}
				return nil
			}, vegeta.Workers(uint64(n)), vegeta.Timeout(2*time.Minute))
		})
	}
	wait(pollers, func(i int) (string, any) {
		return "/v1/claims", pawl.ClaimRequest{WorkerID: fmt.Sprintf("idle-%d", i), Types: []string{"rare"}, WaitSeconds: pawl.MaxWaitSeconds}
	})
	wait(readers, func(int) (string, any) { return "/v1/events", nil })
	select { // until all have come, and a while longer
	case <-ctx.Done():
	case <-time.After(time.Duration(pollers)*time.Second/pace + still + still/2):
	}
	mb, err1 := s.resident()
	held, err2 := one(ctx, url, "connections")
	*each = append(*each, (mb-alone)*1024/float64(pollers+readers))
	*memory, *connections = append(*memory, mb), append(*connections, float64(held))
	return errors.Join(err1, err2, s.stop(), all.Wait())
}
