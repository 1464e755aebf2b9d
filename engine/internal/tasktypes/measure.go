package tasktypes

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// minMeasured is how many attempts a type needs for a warning about its lease.
const minMeasured = 20

// measured is what the newest attempts of a type took.
type measured struct {
	store.QueueName
	Lease time.Duration   // of the type's current version
	Runs  []time.Duration // from claim to result, ascending
	Lost  []lostAttempt   // those whose lease expired
}

// lostAttempt is an attempt whose lease expired.
type lostAttempt struct {
	Held time.Duration // from claim to expiry
	Took time.Duration // of the longest attempt of the same item that ended with a result; 0 = there is none
}

func newMeasured(q store.QueueName) *measured {
	return &measured{QueueName: q, Lease: pawl.DefaultLeaseSeconds * time.Second}
}

// short reports whether nearly all attempts took longer than the lease.
func (m *measured) short() bool { return len(m.Runs) >= minMeasured && m.quantile(95) > m.Lease }

// quantile returns the run time that a percentage of the attempts did not exceed.
func (m *measured) quantile(percent int) time.Duration {
	if len(m.Runs) == 0 {
		return 0
	}
	return m.Runs[min((len(m.Runs)*percent+99)/100, len(m.Runs))-1]
}

// measurement collects the attempts of types from events, newest first.
type measurement struct {
	ends    map[attemptOf]attemptEnd
	took    map[string]time.Duration // of items
	types   map[store.QueueName]*measured
	expired map[store.QueueName][]expiredAttempt
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

func (s *measurement) add(q store.QueueName, a attemptOf, event string, at int64) {
	m := s.types[q]
	if m == nil {
		m = newMeasured(q)
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

// measure measures the attempts of the wanted types among the newest events, by namespace
// and type.
func measure(ctx context.Context, tx store.Tx, want func(store.QueueName) bool) ([]*measured, error) {
	rows, err := tx.Query(ctx, texts["newest attempts"], pawl.MaxMeasuredEvents)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	s := measurement{map[attemptOf]attemptEnd{}, map[string]time.Duration{}, map[store.QueueName]*measured{},
		map[store.QueueName][]expiredAttempt{}}
	for rows.Next() {
		var a attemptOf
		var q store.QueueName
		var event string
		var at int64
		if err := rows.Scan((*store.ItemID)(&a.item), &a.attempt, &q.Namespace, &q.Type, &event, &at); err != nil {
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
	var out []*measured
	for q, m := range s.types {
		for _, l := range s.expired[q] {
			m.Lost = append(m.Lost, lostAttempt{l.held, s.took[l.item]})
		}
		slices.Sort(m.Runs)
		out = append(out, m)
		if err := m.readLease(ctx, tx); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b *measured) int { return a.Compare(b.QueueName) })
	return out, nil
}

// readLease sets the lease of the type's current version, if it has one.
func (m *measured) readLease(ctx context.Context, tx store.Tx) error {
	row, err := get(ctx, tx, m.Namespace, m.Type, 0)
	if err != nil || row.Version == 0 || row.RemovedAt != nil {
		return err
	}
	t, err := row.parsed(m.Type)
	if t.LeaseSeconds > 0 {
		m.Lease = time.Duration(t.LeaseSeconds) * time.Second
	}
	return err
}
