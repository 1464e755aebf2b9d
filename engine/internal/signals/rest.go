package signals

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

// batch is how many items that wait for a signal are queued in one transaction.
const batch = 1000

// leave notes that the items which still wait for the signal are to be queued, and returns how many they are.
func (s signal) leave(ctx context.Context, tx store.Tx, w store.Waking) (n int, err error) {
	if _, err = store.Row(ctx, tx, []any{&n, &w.Until}, texts["count waiting"], s.namespace, s.name, s.key); err != nil || n == 0 {
		return 0, err
	}
	_, err = tx.Exec(ctx, texts["note waking"], s.namespace, s.name, s.key, w.Text())
	return n, err
}

// WakeRest implements kernel.Signals.
func (asked) WakeRest(ctx context.Context, k *kernel.Kernel) error {
	for s := (signal{}); ; {
		after, found := s, false
		err := k.Look(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			found, err = store.Row(ctx, tx, []any{&s.namespace, &s.name, &s.key}, texts["next to wake"], after.namespace, after.name, after.key)
			return err
		})
		if err != nil || !found || k.Acts(ctx, "signal") != nil {
			return err
		}
		err = s.wakeAll(pawl.As(ctx, pawl.Caller{Namespace: s.namespace}), k)
		if err != nil && kernel.StopsAll(ctx, err) {
			return err
		}
		if err != nil {
			level := slog.LevelWarn
			if errors.Is(err, store.ErrLocked) {
				level = slog.LevelDebug
			}
			k.Log.Log(ctx, level, "items that wait for a signal are queued by the next pass", "signal", s.name, "error", err)
		}
	}
}

func (s signal) wakeAll(ctx context.Context, k *kernel.Kernel) error {
	for more := true; more; {
		var woken []store.DueItem
		err := k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			woken, more, err = s.wakeRest(ctx, tx)
			return err
		})
		if err != nil {
			return err
		}
		k.Tasks(kernel.Origin{}).Follow(ctx, kernel.After{Queued: woken})
	}
	return nil
}

// wakeRest queues the next items that the signal has left to queue, without those that other transactions lock. more reports
// whether the next call has others to queue.
func (s signal) wakeRest(ctx context.Context, tx store.Tx) (woken []store.DueItem, more bool, err error) {
	sent, err := s.lock(ctx, tx)
	if err != nil {
		return nil, false, err
	}
	var text store.Text
	found, err := store.Row(ctx, tx, []any{&text}, texts["waking"], s.namespace, s.name, s.key)
	if err == nil && !found {
		err = s.forget(ctx, tx)
	}
	if err != nil || !found {
		return nil, false, err
	}
	var w store.Waking
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return nil, false, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, false, err
	}
	ids, err := store.ItemIDs(ctx, tx, texts["left to wake"], s.namespace, s.name, s.key, w.Until, batch)
	if err != nil {
		return nil, false, err
	}
	before, err := s.told(ctx, tx, ids, w.After)
	if err == nil {
		woken, err = wake(ctx, tx, max(now, sent), ids, before, &w.By)
	}
	if err == nil {
		_, err = tx.Exec(ctx, texts["nothing to wake"], s.namespace, s.name, s.key, w.Until)
	}
	return woken, len(ids) == batch, err
}

// told returns the tasks of items that have their event of this sending already.
func (s signal) told(ctx context.Context, tx store.Tx, ids []string, after int64) (map[told]bool, error) {
	out := map[told]bool{}
	if len(ids) == 0 {
		return out, nil
	}
	tasks, err := store.TaskIDs(ctx, tx, texts["told tasks"], store.ItemList(ids), s.data(), after)
	for _, id := range tasks {
		out[told{id, store.Text(s.name), store.Text(s.key)}] = true
	}
	return out, err
}
