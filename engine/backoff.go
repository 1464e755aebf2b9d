package engine

import (
	"context"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// backoffs returns the back-off, without jitter, of each failing item whose type sets its
// own. If no type was ever registered, it reads nothing more: a task keeps the version of a type that was removed.
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
	if len(newest) == 0 && !e.types.used() || len(ids) == 0 || len(ids) > pawl.MaxItemsPerCall {
		return nil, nil
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (map[string]time.Duration, error) {
		failing, err := aboutToFail(ctx, tx, ns, ids)
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
