package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/terminal"
)

// prove checks the recorded items and events.
func (d *demo) prove(ctx context.Context) error {
	r := &d.report
	items, err := all(ctx, func(ctx context.Context, page pawl.Page) (pawl.List[pawl.Item], error) {
		return d.Service.ListItems(ctx, pawl.ItemFilter{TaskID: d.task.ID, Page: page})
	})
	if err != nil {
		return err
	}
	r.Items = len(items)
	for _, it := range items {
		r.Attempts += it.Attempt
		if it.State != pawl.ItemCompleted {
			d.addFailure("item %s is %s (%s)", it.ID, it.State, terminal.Failure(it.Error))
		}
	}
	times, err := d.recoveries(ctx)
	if err != nil {
		return err
	}
	r.RecoveryMSP99 = percentile(times, 99).Milliseconds()
	d.check(r.Items == len(d.items), "%d of %d items are there", r.Items, len(d.items))
	d.check(r.Kills >= 1, "no worker was killed")
	d.check(r.StaleWritesRefused >= 1, "no stale write was refused")
	d.check(r.StepsReplayed >= 1, "no step was replayed")
	d.check(len(times) >= 2, "%d leases ran out; the killed and the frozen worker's had to", len(times))
	r.Warnings = []string{}
	if slow := time.Duration(r.RecoveryMSP99) * time.Millisecond; slow > d.MostRecovery {
		r.Warnings = append(r.Warnings, fmt.Sprintf("it took %s to take work up again, more than %s: this machine is busy", slow, d.MostRecovery))
	}
	return d.compare(ctx)
}

func (d *demo) check(ok bool, format string, args ...any) {
	if !ok {
		d.addFailure(format, args...)
	}
}

// compare computes the result directly and compares.
func (d *demo) compare(ctx context.Context) error {
	result, err := d.Service.TaskResult(ctx, d.task.ID)
	if err != nil {
		return err
	}
	var got map[string]setFacts
	if err := json.Unmarshal(result.Payload, &got); err != nil {
		return fmt.Errorf("the task's result: %w", err)
	}
	want, err := expectedResults(d.Input, d.items)
	if err != nil {
		return err
	}
	d.report.Exact = maps.Equal(got, want) && merge(got) == merge(want)
	d.check(d.report.Exact, "the result is not exact: %+v, directly %+v", merge(got), merge(want))
	m := merge(got)
	d.log("%d files, %d lines, %d bytes, digest %s", m.Files, m.Lines, m.Bytes, m.SHA256)
	return nil
}

// recoveries lists, for every expired lease of the task, the time from its expiry to
// the next claim, by the database's clock.
func (d *demo) recoveries(ctx context.Context) ([]time.Duration, error) {
	expired, err := d.events(ctx, pawl.EventFilter{TaskID: d.task.ID, Event: "lease_expired"})
	if err != nil {
		return nil, err
	}
	var out []time.Duration
	for _, e := range expired {
		var data struct {
			LeaseExpiresAt time.Time `json:"lease_expires_at"`
		}
		if err := json.Unmarshal(e.Data, &data); err != nil {
			return nil, fmt.Errorf("event %s: %w", e.ID, err)
		}
		claims, err := d.events(ctx, pawl.EventFilter{ItemID: e.ItemID, Event: "leased"})
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(claims, func(c pawl.Event) bool { return c.Attempt == e.Attempt+1 })
		if i < 0 {
			d.addFailure("item %s was never taken up again", e.ItemID)
			continue
		}
		out = append(out, claims[i].CreatedAt.Sub(data.LeaseExpiresAt))
	}
	return out, nil
}

func (d *demo) events(ctx context.Context, f pawl.EventFilter) ([]pawl.Event, error) {
	f.Asc = true
	return all(ctx, func(ctx context.Context, page pawl.Page) (pawl.List[pawl.Event], error) {
		f.Page = page
		return d.Service.ListEvents(ctx, f)
	})
}

// all reads every page of a list.
func all[T any](ctx context.Context, fetch func(context.Context, pawl.Page) (pawl.List[T], error)) ([]T, error) {
	page := pawl.Page{Limit: pawl.MaxPage}
	var out []T
	for {
		got, err := fetch(ctx, page)
		if err != nil {
			return nil, err
		}
		out = append(out, got.Items...)
		if got.Next == "" {
			return out, nil
		}
		page.Cursor = got.Next
	}
}

// percentile is the smallest value that p percent of them do not exceed.
func percentile(of []time.Duration, p int) time.Duration {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	return sorted[(len(sorted)*p+99)/100-1]
}
