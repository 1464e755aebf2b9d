package engine

import (
	"context"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

const (
	maxGates = 100_000 // that are remembered
	// gateFresh is how long this process uses the number of a gate that it has read. A sweep removes
	// gates that were idle for much longer, and a failover may lose new ones.
	gateFresh = 5 * time.Minute
)

type gateKey struct {
	queue        int64
	pointer, key string
}

// knownGate is the number of a gate.
type knownGate struct {
	id    int64
	until time.Time
}

// gates returns gates of a queue, and remembers those whose rows are committed. A transaction of the
// caller's adds none itself where others write beside it, unless no connection is free: they would wait
// for it.
func (e *Engine) gates(ctx context.Context, tx store.Tx, namespace string, q *store.LimitedQueue,
	keys []string) (out map[string]store.Gate, err error) {
	beside, err := e.k.Beside(ctx, func(ctx context.Context) error {
		out, err = e.root.gates(ctx, nil, namespace, q, keys)
		return err
	})
	if beside {
		return out, err
	}
	if tx != nil {
		return store.Gates(ctx, tx, namespace, q, keys)
	}
	began := clock.Now()
	err = e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		out, err = store.Gates(ctx, tx, namespace, q, keys)
		return err
	})
	if err == nil && e.scope == nil {
		for key, g := range out {
			if !g.Lent {
				e.limits.learn(gateKey{q.ID, q.Pointer(), key}, g.ID, began)
			}
		}
	}
	return out, err
}

func (l *limits) gate(k gateKey) (int64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g, known := l.gates[k]
	if known && clock.Now().After(g.until) {
		delete(l.gates, k)
		return 0, false
	}
	return g.id, known
}

func (l *limits) learn(k gateKey, id int64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gates == nil || len(l.gates) >= maxGates {
		l.gates = map[gateKey]knownGate{}
	}
	l.gates[k] = knownGate{id, now.Add(gateFresh)}
}

// forgetLost forgets what a failover or restore may have lost, and given to others since: the numbers of gates, and who
// has an attempt.
func (e *Engine) forgetLost() {
	e.limits.forgetGates()
	e.leaseKeys.forget()
	e.claimants.forget()
}

// forgetGates forgets all gates: a sweep has removed some, or a failover may have lost some.
func (l *limits) forgetGates() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gates = nil
}
