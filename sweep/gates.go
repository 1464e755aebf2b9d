package sweep

import (
	"context"
	"time"

	"github.com/pawl-work/pawl/store"
)

const (
	// gateIdle is how long a key of a queue with limits is kept while nothing uses it. Processes know
	// its number for minutes at most.
	gateIdle = time.Hour
	// gateBatches bounds how many batches of keys one pass looks at. The next pass goes on where it ended.
	gateBatches = 20
)

// hints removes what claims in callers' transactions leave: that a key was to be looked at.
func (p *pass) hints(ctx context.Context) error {
	var queues []int64
	err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		queues, err = queuesWithHints(ctx, tx)
		return err
	})
	for i := 0; err == nil && i < len(queues); i++ {
		for last, more := int64(0), true; more && err == nil; more = last > 0 {
			err = p.do(ctx, func(ctx context.Context, tx store.Tx, _ int64) (err error) {
				last, err = store.ForgetHints(ctx, tx, queues[i], last)
				return err
			})
		}
	}
	return p.logError(ctx, "hints", err)
}

// gates removes the keys of queues with limits that nothing has used for gateIdle.
func (p *pass) gates(ctx context.Context) error {
	var removed int64
	defer func() {
		if removed > 0 && p.OnGates != nil {
			p.OnGates()
		}
	}()
	for range gateBatches {
		var found []store.GateUse
		var last int64
		var read int
		err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			found, last, read, err = usesOfGates(ctx, tx, p.gatesSeen, gateIdle.Microseconds(), batch)
			return err
		})
		if err == nil && len(found) > 0 {
			var n int64
			err = p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
				n, err = store.SettleGates(ctx, tx, found, ago(now, gateIdle))
				return err
			})
			removed += n
		}
		if err != nil {
			return p.logError(ctx, "gates", err)
		}
		if p.gatesSeen = last; read < batch {
			p.gatesSeen = 0 // from the start in the next pass
			return nil
		}
	}
	return nil
}

// usesOfGates reads the gates after a number that belong to a key, at most n. It returns those of
// which SettleGates has something to do; the number of the last one read; and how many were read.
func usesOfGates(ctx context.Context, tx store.Tx, after, idleFor int64, n int) (out []store.GateUse, last int64, read int, err error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, 0, 0, err
	}
	rows, err := tx.Query(ctx, limitsSQL["uses of gates"], after, n, now)
	if err != nil {
		return nil, 0, 0, err
	}
	defer rows.Close()
	for ; rows.Next(); read++ {
		var g store.GateUse
		var used int
		if err := rows.Scan(&g.ID, &g.IdleSince, &used); err != nil {
			return nil, 0, 0, err
		}
		g.Used, last = used == 1, g.ID
		if g.Used == (g.IdleSince != nil) || !g.Used && *g.IdleSince <= now-idleFor {
			out = append(out, g)
		}
	}
	return out, last, read, rows.Err()
}

// queuesWithHints returns the queues some of whose gates have hints.
func queuesWithHints(ctx context.Context, tx store.Tx) ([]int64, error) {
	return store.Ints(ctx, tx, limitsSQL["queues with hints"])
}
