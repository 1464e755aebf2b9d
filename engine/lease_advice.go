package engine

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// SuggestLeases compares the leases of types with their attempts; see pawl.LeaseAdviser.
func (e *Engine) SuggestLeases(ctx context.Context, types ...string) ([]pawl.LeaseAdvice, error) {
	if err := rules.CheckTypesAsked("suggest_leases", types); err != nil {
		return nil, err
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) ([]pawl.LeaseAdvice, error) {
		measured, err := store.MeasureTypes(ctx, tx, func(q store.QueueName) bool {
			return q.Namespace == ns && (len(types) == 0 || slices.Contains(types, q.Type))
		})
		if err != nil {
			return nil, err
		}
		for _, typ := range types {
			if slices.ContainsFunc(measured, func(m *store.Measured) bool { return m.Type == typ }) {
				continue
			}
			m, err := store.Unmeasured(ctx, tx, ns, typ)
			if err != nil {
				return nil, err
			}
			measured = append(measured, m)
		}
		out := make([]pawl.LeaseAdvice, len(measured))
		for i, m := range measured {
			f := rules.LeaseFacts{Namespace: ns, Type: m.Type, Lease: m.Lease, N: len(m.Runs), Short: m.Short(),
				P50: m.Quantile(50), P95: m.Quantile(95), P99: m.Quantile(99)}
			for _, l := range m.Lost {
				f.Lost = append(f.Lost, rules.LostLease(l))
			}
			out[i] = rules.SuggestLease(f)
		}
		slices.SortStableFunc(out, func(a, b pawl.LeaseAdvice) int { return cmp.Compare(b.Evidence.Expiries, a.Evidence.Expiries) })
		return out[:min(len(out), pawl.MaxSeriesTypes)], nil
	})
}
