package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/dashboard"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/server"
)

// sight measures what the dashboard and the metrics read of a large store, and what they take from
// a drain.
func (b *bench) sight(ctx context.Context) error {
	total := b.sized(5_000_000, 100_000)
	err := b.fresh(ctx, forPawl, func(url string) (err error) {
		start := clock.Now()
		if err := fillSight(ctx, url, total); err != nil {
			return err
		}
		b.say("%s tasks were written in %.0f s", figure(float64(total)), clock.Now().Sub(start).Seconds())
		h, err := openEngine(ctx, url)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, h.stop()) }()
		start = clock.Now()
		if err := h.Sight(ctx); err != nil {
			return err
		}
		b.say("their events were counted in %.1f s", clock.Now().Sub(start).Seconds())
		return b.look(ctx, h, total)
	})
	if err != nil {
		return err
	}
	return b.watched(ctx)
}

// fillSight writes tasks in all states, most of them completed.
func fillSight(ctx context.Context, database string, total int) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	now := clock.Now().UnixMicro()
	errors := []string{"connection refused by host ", "timeout after ms ", "no such customer: ", "quota exceeded on shard "}
	keyOf := func(message string) int64 { return pawl.Failure{Code: "failed", Message: message}.Key() }
	var keys []int64
	for _, text := range errors {
		keys = append(keys, keyOf(text+"1"))
	}
	args := map[string][]any{"rows": {total, now}, "scheduled": {now}, "leases": {now},
		"parked": {errors, keys, keyOf("the disk is full")}}
	for _, step := range []string{"id", "state", "queues", "worker", "rows", "tasks", "ready", "scheduled", "waiting", "leases", "parked",
		"finished", "counters", "proposed", "leased", "ended", "buried", "feed", "drop"} {
		if _, err := conn.Exec(ctx, text("sight "+step), args[step]...); err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
	}
	_, err = conn.Exec(ctx, text("vacuum"))
	return err
}

// Sight waits until the old events are in the totals.
func (h *runningEngine) Sight(ctx context.Context) error { return h.Feed().CountOld(ctx, 1<<30) }

// newPages returns the handler of a server with the dashboard, whose caches are empty.
func newPages(ctx context.Context, h *runningEngine) http.Handler {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	return server.New(h.Engine, server.Options{Stopping: ctx, Log: log,
		Front: dashboard.New(h.Engine, dashboard.Options{Stopping: ctx, Log: log, Secret: make([]byte, 32)})})
}

// read asks a handler for a path, and returns how long the answer took, in ms, and its bytes.
func read(ctx context.Context, pages http.Handler, path string) (took, bytes float64, err error) {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:8080"+path, nil)
	w := httptest.NewRecorder()
	start := clock.Now()
	pages.ServeHTTP(w, r)
	took = millis(clock.Now().Sub(start))
	if w.Code != http.StatusOK {
		return 0, 0, fmt.Errorf("%s: %d %s", path, w.Code, strings.TrimSpace(w.Body.String()))
	}
	return took, float64(w.Body.Len()), nil
}

// reads is how often each page is read. The median counts.
const reads = 9

// times reads a path from handlers, and returns the times and the largest answer.
func times(ctx context.Context, pages func() http.Handler, path string) (all series, bytes float64, err error) {
	for n := range reads + 1 {
		took, size, err := read(ctx, pages(), path)
		if err != nil {
			return nil, 0, err
		}
		bytes = max(bytes, size)
		if n > 0 { // the first one prepares statements and fills PostgreSQL's cache
			all = append(all, took)
		}
	}
	return all, bytes, nil
}

// sightLists are the lists that the dashboard offers, and their queries.
var sightLists = []struct{ name, path string }{
	{"tasks", "/ui/tasks"},
	{"tasks by state", "/ui/tasks?state=queued /ui/tasks?state=checked_out /ui/tasks?state=in_progress /ui/tasks?state=submitted " +
		"/ui/tasks?state=completed /ui/tasks?state=failed /ui/tasks?state=dead_lettered /ui/tasks?state=cancelled"},
	{"tasks by type", "/ui/tasks?type=type-03 /ui/tasks?type=type-03&state=failed /ui/tasks?type=type-03&state=completed"},
	{"tasks by id, type or title", "/ui/tasks?q=tsk_01 /ui/tasks?q=type-1 /ui/tasks?q=report+12345 " +
		"/ui/tasks?q=nothing /ui/tasks?title=report"},
	{"tasks by metadata", "/ui/tasks?metadata=region%3Deu /ui/tasks?metadata=customer%3Dc-77 /ui/tasks?metadata=region%3Dmars"},
	{"tasks by error", "/ui/tasks?error=timeout /ui/tasks?error=disk+is+full /ui/tasks?error=nothing"},
	{"items", "/ui/items"},
	{"items by state", "/ui/items?state=queued /ui/items?state=scheduled /ui/items?state=waiting /ui/items?state=leased " +
		"/ui/items?state=completed /ui/items?state=failed /ui/items?state=submitted /ui/items?status=expired"},
	{"items by type or worker", "/ui/items?type=type-03 /ui/items?type=type-03&state=failed /ui/items?worker=w-1&state=leased"},
	{"items by error", "/ui/items?error=timeout /ui/items?error=disk+is+full"},
	{"failures", "/ui/failures"},
	{"dead letters", "/ui/dead-letters"},
	{"approvals", "/ui/approvals"},
	{"queues", "/ui/queues"},
	{"a queue", "/ui/queues/type-03"},
	{"workers", "/ui/workers"},
}

// look reads pages of a store.
func (b *bench) look(ctx context.Context, h *runningEngine, total int) error {
	fresh := func() http.Handler { return newPages(ctx, h) }
	kept := fresh()
	of := "of " + figure(float64(total)) + " tasks"
	for _, page := range []struct {
		name, path string
		atMost     float64
	}{{"overview", "/ui/", 50}, {"GET /v1/stats", "/v1/stats", 50}, {"scrape", "/metrics", 20}} {
		all, bytes, err := times(ctx, fresh, page.path)
		if err != nil {
			return err
		}
		b.add(line{name: "sight: " + page.name, got: all, unit: " ms", atMost: page.atMost, absolute: of})
		if page.name == "overview" {
			b.add(line{name: "sight: first page", got: series{bytes / 1000}, unit: " KB", atMost: 80})
		}
	}
	for _, list := range sightLists {
		var worst series
		var which string
		for _, path := range strings.Fields(list.path) {
			all, _, err := times(ctx, func() http.Handler { return kept }, path)
			if err != nil {
				return err
			}
			b.say("%s: %s ms", unescaped(path), all)
			if len(worst) == 0 || all.median() > worst.median() {
				worst, which = all, unescaped(path)
			}
		}
		b.add(line{name: "sight: " + list.name, got: worst, unit: " ms", atMost: 100, absolute: which})
	}
	return nil
}

func unescaped(path string) string {
	if out, err := url.QueryUnescape(path); err == nil {
		return out
	}
	return path
}

// tabs is how many pages are open.
const tabs = 50

// watched drains with and without open pages, and measures what the counters cost.
func (b *bench) watched(ctx context.Context) error {
	n := b.sized(100_000, 20_000)
	var alone, open, share series
	err := b.alternate(func() error {
		for _, with := range []int{0, tabs} {
			err := b.fresh(ctx, forPawl, func(url string) (err error) {
				rate, counters, err := b.drainWith(ctx, url, n, with)
				if err != nil {
					return err
				}
				if with == 0 {
					alone, share = append(alone, rate), append(share, counters)
				} else {
					open = append(open, rate)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.add(line{name: "drain with 50 open pages, of without", got: open.over(alone), unit: "×", atLeast: 0.97,
		absolute: figure(open.median()) + "/s", peer: "without: " + figure(alone.median()) + "/s"})
	b.add(line{name: "counters, of the time of a drain", got: share, unit: " %", atMost: 2})
	return nil
}

// drainWith drains n tasks while so many pages are open. It returns the rate, and the share of the
// time that the writes of the counters take.
func (b *bench) drainWith(ctx context.Context, url string, n, pages int) (rate, counters float64, err error) {
	h, err := openEngine(ctx, url)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	if _, err := h.createTasks(ctx, n, 1000); err != nil {
		return 0, 0, err
	}
	leave, err := openPages(ctx, newPages(ctx, h), pages)
	if err != nil {
		return 0, 0, err
	}
	defer leave()
	before, err := counterWrites(ctx, url)
	if err != nil {
		return 0, 0, err
	}
	took, err := h.drain(ctx, n, 1000)
	if err != nil {
		return 0, 0, err
	}
	if err := h.Log(ctx); err != nil { // the rest
		return 0, 0, err
	}
	after, err := counterWrites(ctx, url)
	if err != nil {
		return 0, 0, err
	}
	each, err := writeCost(ctx, url)
	return perSecond(n, took), float64(after-before) * each / millis(took) * 100, err
}

// openPages opens pages of the overview, which are read again whenever the server hints that
// something has changed. leave closes them.
func openPages(ctx context.Context, pages http.Handler, n int) (leave func(), err error) {
	on := httptest.NewServer(pages)
	ctx, stop := context.WithCancel(ctx)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * n}}
	get := func(path string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, on.URL+path, nil)
		if err != nil {
			return nil, err
		}
		return client.Do(r)
	}
	var all sync.WaitGroup
	leave = func() {
		stop()
		all.Wait()
		client.CloseIdleConnections()
		on.Close()
	}
	for range n {
		hints, err := get("/ui/live")
		if err != nil {
			leave()
			return nil, err
		}
		all.Go(func() { follow(hints.Body, func() (*http.Response, error) { return get("/ui/") }) })
	}
	return leave, nil
}

// follow reads a page at every hint, until the stream ends.
func follow(hints io.ReadCloser, page func() (*http.Response, error)) {
	defer hints.Close()
	buf := make([]byte, 4096)
	for {
		n, err := hints.Read(buf)
		if strings.Contains(string(buf[:n]), "data:") {
			if answer, err := page(); err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
			}
		}
		if err != nil { // the end
			return
		}
	}
}

// counterWrites is how many rows of counters and totals were written. PostgreSQL's processes report
// what they have written at their first commit a second later.
func counterWrites(ctx context.Context, database string) (n int64, err error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(2500 * time.Millisecond):
	}
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, text("sight writes")).Scan(&n)
	return n, err
}

// writeCost is the time that one write of a row of counters takes in a transaction, in ms.
func writeCost(ctx context.Context, database string) (float64, error) {
	const times = 500
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	start := clock.Now()
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for range times {
			if _, err := tx.Exec(ctx, text("sight write")); err != nil {
				return err
			}
		}
		return nil
	})
	return millis(clock.Now().Sub(start)) / times, err
}
