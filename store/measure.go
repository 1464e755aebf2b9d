package store

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
)

// minMeasured is how many attempts a type needs for a warning about its lease.
const minMeasured = 20

// Measured is what the newest attempts of a type took.
type Measured struct {
	Namespace, Type string
	Lease           time.Duration   // of the type's current version
	Runs            []time.Duration // from claim to result, ascending
	Lost            []LostAttempt   // those whose lease expired
}

// LostAttempt is an attempt whose lease expired.
type LostAttempt struct {
	Held time.Duration // from claim to expiry
	Took time.Duration // of the longest attempt of the same item that ended with a result; 0 = there is none
}

// Short reports whether nearly all attempts took longer than the lease.
func (m *Measured) Short() bool { return len(m.Runs) >= minMeasured && m.Quantile(95) > m.Lease }

// Quantile returns the run time that a percentage of the attempts did not exceed.
func (m *Measured) Quantile(percent int) time.Duration {
	if len(m.Runs) == 0 {
		return 0
	}
	return m.Runs[min((len(m.Runs)*percent+99)/100, len(m.Runs))-1]
}

// measurement collects the attempts of types from events, newest first.
type measurement struct {
	ends    map[attemptOf]attemptEnd
	took    map[string]time.Duration // of items
	types   map[QueueName]*Measured
	expired map[QueueName][]expiredAttempt
}

type (
	attemptOf struct {
		item    string
		attempt int
	}
	attemptEnd struct {
		at      int64
		expired bool
	}
	expiredAttempt struct {
		item string
		held time.Duration
	}
)

func (s *measurement) add(q QueueName, a attemptOf, event string, at int64) {
	m := s.types[q]
	if m == nil {
		m = &Measured{Namespace: q.Namespace, Type: q.Type, Lease: pawl.DefaultLeaseSeconds * time.Second}
		s.types[q] = m
	}
	if event != "leased" { // the end of an attempt comes before its claim
		s.ends[a] = attemptEnd{at, event == "lease_expired"}
		return
	}
	e, ended := s.ends[a]
	switch d := time.Duration(e.at-at) * time.Microsecond; {
	case !ended:
	case e.expired:
		s.expired[q] = append(s.expired[q], expiredAttempt{a.item, d})
	default:
		m.Runs = append(m.Runs, d)
		s.took[a.item] = max(s.took[a.item], d)
	}
}

// MeasureTypes measures the attempts of the wanted types among the newest events, by namespace
// and type.
func MeasureTypes(ctx context.Context, tx Tx, want func(QueueName) bool) ([]*Measured, error) {
	rows, err := tx.Query(ctx, warnSQL["newest attempts"], pawl.MaxMeasuredEvents)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	s := measurement{map[attemptOf]attemptEnd{}, map[string]time.Duration{}, map[QueueName]*Measured{}, map[QueueName][]expiredAttempt{}}
	for rows.Next() {
		var a attemptOf
		var q QueueName
		var event string
		var at int64
		if err := rows.Scan((*ItemID)(&a.item), &a.attempt, &q.Namespace, &q.Type, &event, &at); err != nil {
			return nil, err
		}
		if want(q) {
			s.add(q, a, event, at)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	rows.Close()
	var out []*Measured
	for q, m := range s.types {
		for _, l := range s.expired[q] {
			m.Lost = append(m.Lost, LostAttempt{l.held, s.took[l.item]})
		}
		slices.Sort(m.Runs)
		out = append(out, m)
		if err := m.readLease(ctx, tx, q); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b *Measured) int {
		return slices.Compare([]string{a.Namespace, a.Type}, []string{b.Namespace, b.Type})
	})
	return out, nil
}

// Unmeasured returns the lease of a type without measured attempts.
func Unmeasured(ctx context.Context, tx Tx, namespace, typ string) (*Measured, error) {
	m := &Measured{Namespace: namespace, Type: typ, Lease: pawl.DefaultLeaseSeconds * time.Second}
	return m, m.readLease(ctx, tx, QueueName{Namespace: namespace, Type: typ})
}

// readLease sets the lease of the type's current version, if it has one.
func (m *Measured) readLease(ctx context.Context, tx Tx, q QueueName) error {
	row, err := GetType(ctx, tx, q.Namespace, q.Type, 0)
	if err != nil || row.Version == 0 || row.RemovedAt != nil {
		return err
	}
	t, err := row.Type(q.Type)
	if t.LeaseSeconds > 0 {
		m.Lease = time.Duration(t.LeaseSeconds) * time.Second
	}
	return err
}
