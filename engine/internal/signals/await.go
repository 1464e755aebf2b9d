package signals

import (
	"context"
	"slices"

	"github.com/pawl-work/pawl/store"
)

// Await implements kernel.Signals.
func (asked) Await(ctx context.Context, tx store.Tx, calls []store.Leave, leave func() ([]store.Moved, error)) ([]store.Moved, error) {
	var signals []signal
	for i := range calls {
		if calls[i].Signal != "" {
			signals = append(signals, awaited(&calls[i]))
		}
	}
	slices.SortFunc(signals, signal.compare) // all transactions lock signals in the same order
	for _, s := range slices.Compact(signals) {
		if _, err := s.lock(ctx, tx); err != nil {
			return nil, err
		}
	}
	out, err := leave()
	if err != nil {
		return nil, err
	}
	items := make(map[int]*store.Leave, len(calls))
	for i := range calls {
		items[calls[i].Ord] = &calls[i]
	}
	var ids []string
	moved := map[string]*store.Moved{}
	for i := range out {
		c := items[out[i].Ord]
		moved[c.ItemID] = &out[i]
		delete(items, out[i].Ord)
		ids = append(ids, c.ItemID)
	}
	for _, refused := range items { // a refused call must leave no row of a signal
		if s := awaited(refused); s.name != "" {
			if err := s.forget(ctx, tx); err != nil {
				return nil, err
			}
		}
	}
	if len(ids) == 0 {
		return out, nil
	}
	if ids, err = store.ItemIDs(ctx, tx, texts["signalled before"], store.ItemList(ids)); err != nil || len(ids) == 0 {
		return out, err
	}
	if ids, err = notTaken(ctx, tx, calls, moved, ids); err != nil || len(ids) == 0 {
		return out, err
	}
	woken, err := wake(ctx, tx, out[0].Now, ids, map[told]bool{}, nil)
	for _, d := range woken {
		m := moved[d.ItemID]
		m.State, m.RunAt = "queued", 0
		if m.Returned != nil {
			m.Returned.State = "queued"
		}
	}
	return out, err
}

func awaited(l *store.Leave) signal { return signal{l.Namespace, string(l.Signal), string(l.Key)} }
