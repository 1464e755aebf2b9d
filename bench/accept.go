package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/schema"
)

// acceptance measures the cost of a decision about a task of a thousand items, whose effect is
// in the same transaction, and the cost of checking one result.
func (b *bench) acceptance(ctx context.Context) error {
	n := b.sized(1000, 1000)
	var decision, check series
	if err := b.alternate(func() error {
		if err := b.file(func(url string) error { return decide(ctx, url, n, &decision) }); err != nil {
			return err
		}
		return validate(b.sized(20_000, 5000), &check)
	}); err != nil {
		return err
	}
	b.add(line{name: fmt.Sprintf("approve and apply %d items at once, SQLite", n), got: decision, unit: " ms", atMost: 1000})
	b.add(line{name: "check of a 2 KB result, schema of 30 properties", got: check, unit: " µs", atMost: 50})
	return nil
}

// decide approves a task of n submitted items and waits until the task has ended.
func decide(ctx context.Context, url string, n int, into *series) (err error) {
	applied := 0
	e, err := engine.OpenWith(ctx, url, engine.Options{
		Types: []pawl.Type{{Name: taskOf, Approval: pawl.Approval{Mode: pawl.ApprovalManual}, Apply: pawl.Apply{Mode: pawl.ApplyGo}}},
		Hooks: map[string]pawl.Hooks{taskOf: {Apply: func(_ context.Context, a pawl.Application) (pawl.Applied, error) {
			applied += len(a.Items)
			return pawl.Applied{Result: []byte("true")}, nil
		}}},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	items := make([]pawl.NewItem, n)
	for i := range items {
		items[i].Input = payload
	}
	task, err := pawl.Create(ctx, e, pawl.NewTask{Type: taskOf, Items: items})
	if err != nil {
		return err
	}
	leases, err := e.Claim(ctx, pawl.ClaimRequest{WorkerID: "bench", Limit: n})
	if err != nil {
		return err
	}
	calls := make([]pawl.SubmitCall, len(leases))
	for i, l := range leases {
		calls[i] = pawl.SubmitCall{Fence: l.Fence(), Result: payload}
	}
	if err := firstOf(e.Submit(ctx, calls)); err != nil {
		return err
	}
	start := clock.Now()
	if err := firstOf(e.ApproveTasks(ctx, []pawl.ApproveCall{{TaskID: task.ID}})); err != nil {
		return err
	}
	*into = append(*into, millis(clock.Now().Sub(start)))
	if task, err = e.GetTask(ctx, task.ID); err == nil && (task.State != pawl.TaskCompleted || applied != n) {
		err = fmt.Errorf("the task is %s, %d items were applied", task.State, applied)
	}
	return err
}

// validate checks a result n times.
func validate(n int, into *series) error {
	props, result := map[string]any{}, map[string]any{}
	for i := range 30 {
		name := fmt.Sprintf("property_%02d", i)
		switch i % 5 {
		case 0:
			props[name], result[name] = map[string]any{"type": "string", "maxLength": 500}, strings.Repeat("text ", 34)
		case 1:
			props[name], result[name] = map[string]any{"type": "integer", "minimum": 0}, 12345+i
		case 2:
			props[name], result[name] = map[string]any{"type": "array", "items": map[string]any{"type": "string"}}, []string{"one", "two", "three"}
		case 3:
			props[name], result[name] = map[string]any{"enum": []string{"draft", "open", "closed"}}, "closed"
		case 4:
			props[name], result[name] = map[string]any{"type": []string{"boolean", "null"}}, nil
		}
	}
	raw, err := json.Marshal(map[string]any{"type": "object", "properties": props, "additionalProperties": false})
	if err != nil {
		return err
	}
	value, err := json.Marshal(result)
	if err != nil {
		return err
	}
	s, bad := schema.Compile(raw)
	start := clock.Now()
	for range n {
		bad = append(bad, s.Check(value)...)
	}
	if len(bad) > 0 {
		return fmt.Errorf("the result does not fit: %v", bad)
	}
	*into = append(*into, float64(clock.Now().Sub(start)/time.Nanosecond)/1000/float64(n))
	return nil
}
