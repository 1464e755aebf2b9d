package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// http measures a server in a process of its own with vegeta, which runs in this process. It
// measures whole lives beside the same calls in process, heartbeats at a steady rate, and
// waiting callers.
func (b *bench) http(ctx context.Context) error {
	for _, db := range b.databases(ctx) {
		if err := b.livesOverHTTP(ctx, db.name, db.on); err != nil {
			return err
		}
		var late, reached series
		err := b.alternate(func() error {
			return db.on(func(url string) error { return b.beatOverHTTP(ctx, url, &late, &reached) })
		})
		if err != nil {
			return err
		}
		b.add(line{name: "HTTP heartbeat p99, " + db.name, got: late, unit: " ms", atMost: 20,
			absolute: "at " + figure(reached.median()) + " calls/s"})
	}
	return b.waiters(ctx)
}

// database is a kind of database that a server is measured on; each measurement gets a fresh
// one.
type database struct {
	name string
	on   func(fn func(url string) error) error
}

func (b *bench) databases(ctx context.Context) []database {
	return []database{{"SQLite", b.file}, {"PostgreSQL", func(fn func(url string) error) error { return b.fresh(ctx, forPawl, fn) }}}
}

// life holds the rates of the three calls of an item's life, each measured alone.
type life struct{ create, claim, complete float64 }

// rate returns the rate of whole lives, with one call after the other.
func (l life) rate() float64 { return 1 / (1/l.create + 1/l.claim + 1/l.complete) }

func (l life) String() string {
	return "create " + figure(l.create) + "/s, claim " + figure(l.claim) + "/s, complete " + figure(l.complete) + "/s"
}

func (b *bench) livesOverHTTP(ctx context.Context, name string, on func(func(url string) error) error) error {
	n := b.sized(30_000, 5000)
	var over, inside, tool, server series
	err := b.alternate(func() error {
		err := on(func(url string) error {
			l, err := livesInside(ctx, url, n)
			b.say("%s in process: %s", name, l)
			inside = append(inside, l.rate())
			return err
		})
		if err != nil {
			return err
		}
		return on(func(url string) (err error) {
			s, err := b.serve(ctx, url)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.stop()) }()
			before := b.shares(s)
			l, err := livesThrough(s, n)
			if err != nil {
				return err
			}
			used := b.shares(s).less(before)
			b.say("%s over HTTP: %s; processor time: load tool %.0f %%, server %.0f %%, database %.0f %%", name, l, used.tool, used.server,
				used.database)
			over, tool, server = append(over, l.rate()), append(tool, used.tool), append(server, used.server)
			return nil
		})
	})
	if err != nil {
		return err
	}
	b.add(line{name: "HTTP whole life, 64 connections, " + name, got: over.over(inside), unit: "×", atLeast: 0.25,
		absolute: fmt.Sprintf("%s/s; of the processor time the load tool has %.0f %%, the server %.0f %%", figure(over.median()), tool.median(),
			server.median()),
		peer: "in process: " + figure(inside.median()) + "/s"})
	return nil
}

// livesInside makes the calls in this process.
func livesInside(ctx context.Context, url string, n int) (l life, err error) {
	h, err := openEngine(ctx, url)
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	leases := make([]pawl.Lease, n)
	phase := func(into *float64, call func(i int) error) {
		if err != nil {
			return
		}
		var took time.Duration
		var at atomic.Int64
		took, err = many(crowd, func(int) error {
			for i := int(at.Add(1)) - 1; i < n; i = int(at.Add(1)) - 1 {
				if err := call(i); err != nil {
					return err
				}
			}
			return nil
		})
		*into = perSecond(n, took)
	}
	phase(&l.create, func(int) error {
		_, err := pawl.Create(ctx, h, pawl.NewTask{Type: taskOf, Payload: payload})
		return err
	})
	phase(&l.claim, func(i int) error {
		got, err := h.Claim(ctx, pawl.ClaimRequest{WorkerID: workerOf(i), Types: []string{taskOf}})
		if err == nil && len(got) != 1 {
			err = fmt.Errorf("a claim got %d items", len(got))
		}
		if err == nil {
			leases[i] = got[0]
		}
		return err
	})
	phase(&l.complete, func(i int) error {
		_, err := pawl.Complete(ctx, h, leases[i].Fence(), result)
		return err
	})
	return l, err
}

func workerOf(i int) string { return fmt.Sprintf("bench-%d", i%crowd) }

// livesThrough makes the calls by vegeta.
func livesThrough(s *served, n int) (l life, err error) {
	leases := make([]pawl.Lease, 0, n)
	phase := func(into *float64, target func(i int) (path string, body any), each func(*vegeta.Result) error) {
		if err != nil {
			return
		}
		start := clock.Now()
		err = attack(s, n, fullSpeed, target, each, vegeta.Workers(crowd), vegeta.MaxWorkers(crowd), vegeta.Connections(crowd),
			vegeta.MaxConnections(crowd))
		*into = perSecond(n, clock.Now().Sub(start))
	}
	phase(&l.create, func(int) (string, any) { return "/v1/tasks", pawl.NewTask{Type: taskOf, Payload: payload} }, ok)
	phase(&l.claim, func(i int) (string, any) {
		return "/v1/claims", pawl.ClaimRequest{WorkerID: workerOf(i), Types: []string{taskOf}}
	}, func(r *vegeta.Result) error {
		got, err := leasesIn(r)
		leases = append(leases, got...)
		return err
	})
	if err == nil && len(leases) != n {
		err = fmt.Errorf("%d of %d items were claimed", len(leases), n)
	}
	phase(&l.complete, func(i int) (string, any) {
		return "/v1/items/" + leases[i].ID + ":complete", completion{leases[i].WorkerID, leases[i].Attempt, result}
	}, ok)
	return l, err
}

type completion struct {
	WorkerID string          `json:"worker_id"`
	Attempt  int             `json:"attempt"`
	Result   json.RawMessage `json:"result,omitempty"`
}

func ok(*vegeta.Result) error { return nil }

func leasesIn(r *vegeta.Result) ([]pawl.Lease, error) {
	var got struct{ Items []pawl.Lease }
	err := json.Unmarshal(r.Body, &got)
	return got.Items, err
}

// fullSpeed is the pace without a limit. Other paces are a number of calls a second.
const fullSpeed = 0

// attack sends n calls and passes every answer to each. A refusal is an error.
func attack(s *served, n, pace int, target func(i int) (path string, body any), each func(*vegeta.Result) error,
	o ...func(*vegeta.Attacker)) (err error) {
	bodies, urls := make([][]byte, n), make([]string, n)
	for i := range n {
		path, body := target(i)
		urls[i] = s.url + path
		if body != nil {
			bodies[i], _ = json.Marshal(body) // it always marshals
		}
	}
	var next atomic.Int64
	jsons, stream := http.Header{"Content-Type": {"application/json"}}, http.Header{"Accept": {"text/event-stream"}}
	agent := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2025-11-25"}}
	targeter := func(t *vegeta.Target) error {
		i := next.Add(1) - 1
		t.Method, t.URL, t.Body, t.Header = http.MethodPost, urls[i], bodies[i], jsons
		switch {
		case t.Body == nil:
			t.Method, t.Header = http.MethodGet, stream
		case strings.HasSuffix(t.URL, "/mcp"):
			t.Header = agent
		}
		return nil
	}
	tool := vegeta.NewAttacker(o...)
	for r := range tool.Attack(targeter, upTo{uint64(n), vegeta.Rate{Freq: pace, Per: time.Second}}, 0, "") {
		if r.Error != "" && err == nil {
			err = fmt.Errorf("%s %s: %s %s", r.Method, r.URL, r.Error, r.Body)
		}
		if err == nil {
			err = each(r)
		}
	}
	return err
}

// upTo is a pace that ends after n calls.
type upTo struct {
	n    uint64
	pace vegeta.Rate
}

func (u upTo) Pace(elapsed time.Duration, hits uint64) (time.Duration, bool) {
	if hits >= u.n {
		return 0, true
	}
	return u.pace.Pace(elapsed, hits)
}

func (u upTo) Rate(elapsed time.Duration) float64 { return u.pace.Rate(elapsed) }
