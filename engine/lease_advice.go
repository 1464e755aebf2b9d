package engine

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/shellwords"
	"github.com/pawl-work/pawl/store"
)

// SuggestLeases compares the leases of types with their attempts; see pawl.LeaseAdviser.
func (e *Engine) SuggestLeases(ctx context.Context, types ...string) ([]pawl.LeaseAdvice, error) {
	if err := checkTypesAsked("suggest_leases", types); err != nil {
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
			f := leaseFacts{Namespace: ns, Type: m.Type, Lease: m.Lease, N: len(m.Runs), Short: m.Short(),
				P50: m.Quantile(50), P95: m.Quantile(95), P99: m.Quantile(99)}
			for _, l := range m.Lost {
				f.Lost = append(f.Lost, lostLease(l))
			}
			out[i] = suggestLease(f)
		}
		slices.SortStableFunc(out, func(a, b pawl.LeaseAdvice) int { return cmp.Compare(b.Evidence.Expiries, a.Evidence.Expiries) })
		return out[:min(len(out), pawl.MaxSeriesTypes)], nil
	})
}

// leaseFacts are the measured attempts of a type.
type leaseFacts struct {
	Namespace, Type      string
	Lease, P50, P95, P99 time.Duration // the quantiles are those of attempts that ended with a result
	N                    int           // such attempts
	Short                bool          // nearly all of enough attempts took longer than the lease
	Lost                 []lostLease
}

// lostLease is an attempt whose lease expired.
type lostLease struct {
	Held time.Duration // from claim to expiry
	Took time.Duration // of the longest attempt of the same item that ended with a result; 0 = there is none
}

// spare is how much longer than the work a suggested lease is.
const spare = 1.25

// suggestLease suggests the lease of a type.
func suggestLease(f leaseFacts) pawl.LeaseAdvice {
	need, unknown := time.Duration(0), 0
	for _, l := range f.Lost {
		switch {
		case l.Took > l.Held:
			need = max(need, l.Took)
		case l.Took == 0 && l.Held >= f.Lease: // not under a shorter lease than the present one
			unknown++
		}
	}
	guess := need == 0 && f.N == 0 && unknown > 0
	switch {
	case guess:
		need = 2 * f.Lease
	case need > 0 || f.Short:
		need = time.Duration(float64(max(need, f.P99)) * spare)
	}
	suggested := max(roundLease(need), f.Lease)
	a := pawl.LeaseAdvice{Type: f.Type, Current: leaseSetting(f.Lease), Suggested: leaseSetting(suggested),
		Evidence: pawl.LeaseEvidence{N: f.N, P50: f.P50.Seconds(), P95: f.P95.Seconds(), P99: f.P99.Seconds(),
			Expiries: len(f.Lost)}}
	for _, l := range f.Lost {
		if l.Took > l.Held && l.Took < suggested {
			a.Evidence.Avoided++
		}
	}
	a.Detail = leaseDetail(f, a, guess)
	if suggested > f.Lease {
		a.Command = shellwords.Line(f.Namespace, "type set", f.Type, "--lease", suggested.String())
	}
	return a
}

func leaseDetail(f leaseFacts, a pawl.LeaseAdvice, guess bool) string {
	n, lost := a.Evidence.N, a.Evidence.Expiries
	switch {
	case n == 0 && lost == 0:
		return "No attempt was measured."
	case guess && a.Suggested != a.Current:
		return fmt.Sprintf("Leases expired (%d), and no attempt ended with a result, so it is not known how long the work takes: try a lease "+
			"of twice the time, or find out whether the workers are killed.", lost)
	case a.Evidence.Avoided > 0:
		return fmt.Sprintf("%d of %d expiries would not have happened: a later attempt of the same item took longer than the lease that "+
			"expired, and less than the suggested one. A longer lease also delays the next attempt after a crash.", a.Evidence.Avoided, lost)
	case f.Short && a.Suggested != a.Current:
		return fmt.Sprintf("95 %% of %d attempts took up to %s, longer than the lease: a worker that misses its heartbeats loses its item. "+
			"A longer lease also delays the next attempt after a crash.", n, f.P95.Round(time.Millisecond))
	case lost > 0:
		return fmt.Sprintf("Leases expired (%d), but not because the lease is short: look for killed or frozen workers.", lost)
	}
	return fmt.Sprintf("No lease expired in %d attempts.", n)
}

func leaseSetting(lease time.Duration) pawl.LeaseSetting {
	return pawl.LeaseSetting{LeaseSeconds: int(lease / time.Second), HeartbeatSeconds: (lease / pawl.HeartbeatsPerLease).Seconds()}
}

// roundLease rounds up to a lease that a type may have: whole seconds, above a minute whole
// multiples of ten, above an hour of a minute.
func roundLease(d time.Duration) time.Duration {
	unit := time.Second
	switch {
	case d > time.Hour:
		unit = time.Minute
	case d > time.Minute:
		unit = 10 * time.Second
	}
	return min(time.Duration(math.Ceil(float64(d)/float64(unit)))*unit, pawl.MaxLeaseSeconds*time.Second)
}
