package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	effectgate "github.com/pawl-work/pawl/internal/gate"
)

// gated measures calls of a service through the gate, of a server in another process, beside two bare commits of one
// row each: a call has two, before it is sent and after its answer.
func (b *bench) gated(ctx context.Context) error {
	const rate, atMost, atLeast = 50, 3, 0.5
	slow, fast := b.sized(1000, 200), b.sized(20_000, 4000)
	for _, db := range b.databases(ctx) {
		var calls, commits latency
		var through, bare series
		err := b.alternate(func() error {
			return errors.Join(
				db.on(func(url string) error {
					return b.bareCommits(ctx, url, func(two func(i int) error) error {
						return paceAndCrowd(rate, slow, fast, two, &commits, &bare)
					})
				}),
				db.on(func(url string) error {
					return b.callsThrough(ctx, url, func(call func(i int) error) error {
						return paceAndCrowd(rate, slow, fast, call, &calls, &through)
					})
				}))
		})
		if err != nil {
			return err
		}
		b.add(line{name: fmt.Sprintf("gate p99 at %d/s, %s", rate, db.name), got: calls.p99.over(commits.p99), unit: "×", atMost: atMost,
			absolute: fmt.Sprintf("%s ms, p50 %s ms", figure(calls.p99.median()), figure(calls.p50.median())),
			peer:     fmt.Sprintf("two commits: %s ms, p50 %s ms", figure(commits.p99.median()), figure(commits.p50.median()))})
		b.add(line{name: fmt.Sprintf("gate, %d connections, %s", crowd, db.name), got: through.over(bare), unit: "×", atLeast: atLeast,
			absolute: figure(through.median()) + "/s", peer: "two commits: " + figure(bare.median()) + "/s"})
	}
	return nil
}

// paceAndCrowd measures the latency of slow calls at a rate, and then the rate of fast calls by the crowd.
func paceAndCrowd(rate, slow, fast int, call func(i int) error, paced *latency, crowded *series) error {
	for i := range 2 * crowd { // connections and plans are there
		if err := call(i); err != nil {
			return err
		}
	}
	took, errs := make(series, slow), make([]error, slow)
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	var wg sync.WaitGroup
	for i := range took {
		<-tick.C
		start := clock.Now()
		wg.Go(func() {
			errs[i] = call(i)
			took[i] = millis(clock.Now().Sub(start))
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	paced.add(took)
	d, err := many(crowd, func(who int) error {
		for i := who; i < fast; i += crowd {
			if err := call(i); err != nil {
				return err
			}
		}
		return nil
	})
	*crowded = append(*crowded, perSecond(fast, d))
	return err
}

// bareCommits gives fn a call that commits one row, twice.
func (b *bench) bareCommits(ctx context.Context, url string, fn func(two func(i int) error) error) error {
	create, insert := text("bare table"), text("bare insert")
	twice := func(commit func(i int) error) func(i int) error {
		return func(i int) error { return errors.Join(commit(i), commit(i)) }
	}
	if strings.HasPrefix(url, "sqlite:") {
		db, err := b.openFile()
		if err != nil {
			return err
		}
		defer db.Close()
		if _, err := db.ExecContext(ctx, create); err != nil {
			return err
		}
		var stmt *sql.Stmt
		if stmt, err = db.PrepareContext(ctx, insert); err != nil {
			return err
		}
		return fn(twice(func(i int) error {
			_, err := stmt.ExecContext(ctx, i, string(payload))
			return err
		}))
	}
	pool, err := poolOf(ctx, url, crowd)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, create); err != nil {
		return err
	}
	return fn(twice(func(i int) error {
		_, err := pool.Exec(ctx, insert, i, string(payload))
		return err
	}))
}

// callsThrough gives fn a call of a service on loopback through the gate of a server in another process. Each caller of
// the crowd has an item of its own, and no two requests are equal.
func (b *bench) callsThrough(ctx context.Context, url string, fn func(call func(i int) error) error) (err error) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(result)
	}))
	defer service.Close()
	tokens, err := b.tokensFor(ctx, url)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(url, "sqlite:") { // as many connections as the bare commits have
		url += fmt.Sprintf("%smax_conns=%d", map[bool]string{true: "&", false: "?"}[strings.Contains(url, "?")], crowd)
	}
	s, err := b.serve(ctx, url, "-upstream", service.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: crowd}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	sent := 0
	before := b.shares(s)
	defer func() {
		used, n := b.shares(s), float64(sent)/1e6
		b.say("processor time of a call: tool %s, server %s, database %s µs", figure((used.tool-before.tool)/n),
			figure((used.server-before.server)/n), figure((used.database-before.database)/n))
	}()
	return fn(func(i int) error {
		mu.Lock()
		sent++
		n := sent
		mu.Unlock()
		body := fmt.Sprintf(`{"n":%d,"payload":%s}`, n, payload)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+effectgate.Prefix+"pay/charge", strings.NewReader(body))
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+tokens[i%crowd])
		res, err := client.Do(r)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
			return fmt.Errorf("the gate answers %s: %w", res.Status, err)
		}
		return nil
	})
}

// tokensFor makes an item for each caller of the crowd and returns the tokens of their leases.
func (b *bench) tokensFor(ctx context.Context, url string) (tokens []string, err error) {
	h, err := openEngine(ctx, url)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	if _, err := h.createTasks(ctx, crowd, crowd); err != nil {
		return nil, err
	}
	leases, err := h.Claim(ctx, pawl.ClaimRequest{WorkerID: workerOf(0), Limit: crowd, LeaseSeconds: pawl.MaxLeaseSeconds})
	if err == nil && len(leases) != crowd {
		err = fmt.Errorf("%d of %d items were claimed", len(leases), crowd)
	}
	for _, l := range leases {
		tokens = append(tokens, l.Token)
	}
	return tokens, err
}
