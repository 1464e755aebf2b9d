package engine

import (
	"context"
	"math/rand/v2"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// backoffs are the delays in microseconds, by item, of failing attempts whose
// type has a back-off of its own. For an unregistered type nothing is read.
func (e *Engine) backoffs(ctx context.Context, calls []pawl.FailCall) (map[string]int64, error) {
	newest, err := e.newestTypes(ctx)
	if err != nil {
		return nil, err
	}
	var ids []string
	for i := range calls {
		if calls[i].RetryAfterMS == nil {
			ids = append(ids, calls[i].ItemID)
		}
	}
	if len(newest) == 0 || len(ids) == 0 || len(ids) > pawl.MaxItemsPerCall {
		return nil, nil
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (map[string]int64, error) {
		failing, err := store.AboutToFail(ctx, tx, ns, ids)
		if err != nil {
			return nil, err
		}
		out := map[string]int64{}
		for _, f := range failing {
			r, err := e.rulesOf(ctx, tx, ns, f.Type, f.TypeVersion)
			if err != nil {
				return nil, err
			}
			if r.Backoff != (pawl.Backoff{}) {
				out[f.ItemID] = backoff(r.Backoff, f.Failures+1)
			}
		}
		return out, nil
	})
}

// backoff is the delay in microseconds after so many failures.
func backoff(b pawl.Backoff, failures int) int64 {
	base, most := int64(b.BaseSeconds), int64(b.MaxSeconds)
	if base == 0 {
		base = int64(pawl.BackoffBase.Seconds())
	}
	if most == 0 {
		most = max(base, int64(pawl.BackoffMax.Seconds()))
	}
	delay := base
	for ; failures > 1 && delay < most; failures-- {
		delay *= 2
	}
	return int64(float64(min(delay, most)) * 1e6 * (1 + pawl.BackoffJitter*(2*rand.Float64()-1)))
}

// leaseFor is the lease of a claim that names none: what the types it asks for
// say, if they agree.
func (e *Engine) leaseFor(ctx context.Context, namespace string, types []string) (int, error) {
	agreed := 0
	for _, name := range types {
		seconds, err := e.leaseOf(ctx, namespace, name)
		if err != nil {
			return 0, err
		}
		if agreed != 0 && seconds != agreed {
			return pawl.DefaultLeaseSeconds, nil
		}
		agreed = seconds
	}
	if agreed == 0 {
		agreed = pawl.DefaultLeaseSeconds
	}
	return agreed, nil
}

func (e *Engine) leaseOf(ctx context.Context, namespace, name string) (int, error) {
	of, planning := strings.CutSuffix(name, pawl.PlanSuffix)
	of, applying := strings.CutSuffix(of, pawl.ApplySuffix)
	r, err := e.rulesFor(ctx, namespace, of)
	if err != nil || r == nil {
		return pawl.DefaultLeaseSeconds, err
	}
	for _, own := range []struct {
		is      bool
		seconds int
	}{{planning, r.Plan.LeaseSeconds}, {applying, r.Apply.LeaseSeconds}, {true, r.LeaseSeconds}} {
		if own.is && own.seconds > 0 {
			return own.seconds, nil
		}
	}
	return pawl.DefaultLeaseSeconds, nil
}
