package tasktypes

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/shellwords"
	"github.com/pawl-work/pawl/store"
)

// SuggestLeases compares the leases of types with their attempts; see pawl.LeaseAdviser.
func (t *TaskTypes) SuggestLeases(ctx context.Context, types ...string) ([]pawl.LeaseAdvice, error) {
	var f rules.Fields
	f.Types(types)
	if err := f.Err("suggest_leases"); err != nil {
		return nil, err
	}
	return kernel.Read(ctx, t.r.k, func(ctx context.Context, tx store.Tx, ns string) ([]pawl.LeaseAdvice, error) {
		found, err := measure(ctx, tx, func(q store.QueueName) bool {
			return q.Namespace == ns && (len(types) == 0 || slices.Contains(types, q.Type))
		})
		if err != nil {
			return nil, err
		}
		for _, typ := range types {
			if slices.ContainsFunc(found, func(m *measured) bool { return m.Type == typ }) {
				continue
			}
			m := newMeasured(store.QueueName{Namespace: ns, Type: typ})
			if err := m.readLease(ctx, tx); err != nil {
				return nil, err
			}
			found = append(found, m)
		}
		out := make([]pawl.LeaseAdvice, len(found))
		for i, m := range found {
			out[i] = m.suggestLease()
		}
		slices.SortStableFunc(out, func(a, b pawl.LeaseAdvice) int { return cmp.Compare(b.Evidence.Expiries, a.Evidence.Expiries) })
		return out[:min(len(out), pawl.MaxSeriesTypes)], nil
	})
}

// shortLeases warns of types whose leases are shorter than nearly all of their attempts take.
func shortLeases(ctx context.Context, tx store.Tx, _ int64) ([]store.Warning, error) {
	found, err := measure(ctx, tx, func(store.QueueName) bool { return true })
	if err != nil {
		return nil, err
	}
	var out []store.Warning
	for _, m := range found {
		if !m.short() || len(out) == store.WarnedTypes {
			continue
		}
		out = append(out, store.Warning{Code: "short_lease", Command: shellwords.Line(m.Namespace, "type suggest", m.Type),
			Detail: fmt.Sprintf("type %s of namespace %s has a lease of %s, and 95 %% of its newest %d attempts took up to %s: a worker that "+
				"misses its heartbeats loses its item", m.Type, m.Namespace, m.Lease, len(m.Runs), m.quantile(95).Round(time.Millisecond))})
	}
	return out, nil
}

// spare is how much longer than the work a suggested lease is.
const spare = 1.25

// suggestLease suggests the lease of the type.
func (m *measured) suggestLease() pawl.LeaseAdvice {
	need, unknown := time.Duration(0), 0
	for _, l := range m.Lost {
		switch {
		case l.Took > l.Held:
			need = max(need, l.Took)
		case l.Took == 0 && l.Held >= m.Lease: // not under a shorter lease than the present one
			unknown++
		}
	}
	guess := need == 0 && len(m.Runs) == 0 && unknown > 0
	switch {
	case guess:
		need = 2 * m.Lease
	case need > 0 || m.short():
		need = time.Duration(float64(max(need, m.quantile(99))) * spare)
	}
	suggested := max(roundLease(need), m.Lease)
	a := pawl.LeaseAdvice{Type: m.Type, Current: leaseSetting(m.Lease), Suggested: leaseSetting(suggested),
		Evidence: pawl.LeaseEvidence{N: len(m.Runs), P50: m.quantile(50).Seconds(), P95: m.quantile(95).Seconds(), P99: m.quantile(99).Seconds(),
			Expiries: len(m.Lost)}}
	for _, l := range m.Lost {
		if l.Took > l.Held && l.Took < suggested {
			a.Evidence.Avoided++
		}
	}
	a.Detail = m.leaseDetail(a, guess)
	if suggested > m.Lease {
		a.Command = shellwords.Line(m.Namespace, "type set", m.Type, "--lease", suggested.String())
	}
	return a
}

func (m *measured) leaseDetail(a pawl.LeaseAdvice, guess bool) string {
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
	case m.short() && a.Suggested != a.Current:
		return fmt.Sprintf("95 %% of %d attempts took up to %s, longer than the lease: a worker that misses its heartbeats loses its item. "+
			"A longer lease also delays the next attempt after a crash.", n, m.quantile(95).Round(time.Millisecond))
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
