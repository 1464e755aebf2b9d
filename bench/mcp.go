package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// mcp measures work_checkout over MCP beside the HTTP claim at the same server: how many times
// as long it takes, for one caller and for many.
func (b *bench) mcp(ctx context.Context) error {
	for _, db := range b.databases(ctx) {
		for _, c := range []struct {
			callers string
			n, at   int
		}{{"one caller", b.sized(2000, 500), 1}, {fmt.Sprint(crowd, " callers"), b.sized(10_000, 2000), crowd}} {
			var over, inside series
			err := b.alternate(func() error {
				return db.on(func(url string) error { return b.checkouts(ctx, url, c.n, c.at, &over, &inside) })
			})
			if err != nil {
				return err
			}
			b.add(line{name: "work_checkout over MCP, " + c.callers + ", " + db.name, got: over.over(inside), unit: "×", atMost: 2,
				absolute: figure(over.median()) + " ms", peer: "HTTP claim: " + figure(inside.median()) + " ms"})
		}
	}
	return nil
}

// checkouts claims n items in each way and adds the milliseconds per call.
func (b *bench) checkouts(ctx context.Context, url string, n, callers int, over, inside *series) (err error) {
	s, err := b.serve(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	const batch = 500
	tasks := make([]pawl.NewTask, batch)
	for i := range tasks {
		tasks[i] = pawl.NewTask{Type: taskOf, Payload: payload}
	}
	err = attack(s, (2*n+batch-1)/batch, fullSpeed, func(int) (string, any) {
		return "/v1/tasks:batch", map[string]any{"items": tasks}
	}, ok, vegeta.Workers(1), vegeta.MaxWorkers(1))
	if err != nil {
		return err
	}
	each := func(target func(i int) (string, any)) (float64, error) {
		got, start := 0, clock.Now()
		err := attack(s, n, fullSpeed, target, func(r *vegeta.Result) error {
			// once, but over MCP twice
			got += bytes.Count(r.Body, []byte(`"lease_expires_at"`)) + bytes.Count(r.Body, []byte(`\"lease_expires_at\"`))
			return nil
		}, vegeta.Workers(uint64(callers)), vegeta.MaxWorkers(uint64(callers)), vegeta.Connections(callers), vegeta.MaxConnections(callers))
		took := clock.Now().Sub(start)
		if err == nil && got != n && got != 2*n {
			err = fmt.Errorf("%d calls took %d items", n, got)
		}
		return float64(took) / float64(time.Millisecond) / float64(n), err
	}
	ms, err := each(func(i int) (string, any) {
		return "/v1/claims", pawl.ClaimRequest{WorkerID: workerOf(i), Types: []string{taskOf}}
	})
	if err != nil {
		return err
	}
	*inside = append(*inside, ms)
	ms, err = each(func(i int) (string, any) {
		return "/mcp", map[string]any{"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": map[string]any{
			"name": "work_checkout", "arguments": map[string]any{"worker_id": workerOf(i), "types": []string{taskOf}}}}
	})
	*over = append(*over, ms)
	return err
}
