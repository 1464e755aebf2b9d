package engine

import (
	"context"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// backoffs returns the back-off, without jitter, of each failing item whose type sets its
// own. If no type is registered, it reads nothing more.
func (e *Engine) backoffs(ctx context.Context, calls []pawl.FailCall) (map[string]time.Duration, error) {
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
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (map[string]time.Duration, error) {
		failing, err := store.AboutToFail(ctx, tx, ns, ids)
		if err != nil {
			return nil, err
		}
		out := map[string]time.Duration{}
		for _, f := range failing {
			r, err := e.rulesOf(ctx, tx, ns, f.Type, f.TypeVersion)
			if err != nil {
				return nil, err
			}
			if r.Backoff != (pawl.Backoff{}) {
				out[f.ItemID] = r.Backoff.After(f.Failures + 1)
			}
		}
		return out, nil
	})
}

// leaseFor returns the lease seconds of a claim that names none. They are those of the
// claimed types if all types agree, otherwise the default.
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
