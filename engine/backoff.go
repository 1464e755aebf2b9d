package engine

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
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

// leasesOf returns the lease seconds of items of types, for claims that name none. If all
// claims of the group name one, it reads nothing.
func (e *Engine) leasesOf(ctx context.Context, group []claimCall, types iter.Seq[string]) (map[string]int, error) {
	if !slices.ContainsFunc(group, func(c claimCall) bool { return c.who.LeaseSeconds == 0 }) {
		return nil, nil
	}
	newest, err := e.registry(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for name := range types {
		if out[name] > 0 {
			continue
		}
		if out[name], err = e.leaseOf(ctx, newest, group[0].namespace, name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// leaseOf returns the lease seconds of the newest version. The tasks of a removed type keep that of its last one.
func (e *Engine) leaseOf(ctx context.Context, newest store.Registered, namespace, name string) (int, error) {
	of, planning := strings.CutSuffix(name, pawl.PlanSuffix)
	of, applying := strings.CutSuffix(of, pawl.ApplySuffix)
	typ := store.TypeName{Namespace: namespace, Name: of}
	version := cmp.Or(newest.Live[typ], newest.Removed[typ])
	if version == 0 {
		return pawl.DefaultLeaseSeconds, nil
	}
	r, err := e.rulesAt(ctx, namespace, of, version)
	if err != nil {
		return 0, err
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
