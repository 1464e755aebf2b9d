package pawl

import (
	"context"
	"encoding/json"
	"time"
)

// wakeUp is the snapshot of a Sleep's checkpoint.
type wakeUp struct {
	WakeAt time.Time `json:"wake_at"`
}

// Sleep puts the item to rest for d (≤ 10 years) without holding a lease or a
// worker, and survives restarts. The first call of a name fixes the time of
// waking by the database's clock, suspends the item and returns ErrSuspended,
// which the handler returns as it is. The attempt after that time runs the
// handler from its beginning, its steps are replayed, and this Sleep returns
// nil. An attempt that comes too early (an operator's, say) is put to rest for
// what is left. A d of 0 or less returns nil at once.
//
// A later call of the same name with another d keeps the first time.
func Sleep(ctx context.Context, name string, d time.Duration) error {
	h, err := handlingOf(ctx)
	if err != nil {
		return err
	}
	if d > MaxDelay {
		return Invalid("/d", "is more than %s", MaxDelay)
	}
	_, leave, err := h.enter(ctx, name)
	if err != nil {
		return err
	}
	defer leave()
	wake, err := h.wakeTime(ctx, name, d)
	if err != nil || !h.Now().Before(wake) {
		return err
	}
	if err := h.Suspend(ctx, SuspendCall{Until: &wake}); err != nil {
		return err
	}
	return ErrSuspended
}

// wakeTime is when the sleep of a name ends: as saved, or from now on, saved.
func (h *handling) wakeTime(ctx context.Context, name string, d time.Duration) (time.Time, error) {
	c, found, err := h.lookup(ctx, name)
	switch {
	case err != nil:
		return time.Time{}, err
	case !found && d <= 0:
		return time.Time{}, nil
	case !found:
		w := wakeUp{h.Now().Add(d).UTC().Truncate(time.Microsecond)}
		raw, err := json.Marshal(w)
		if err != nil {
			return time.Time{}, err
		}
		_, err = h.save(ctx, NewCheckpoint{Type: StateTransition, Name: name, Snapshot: raw})
		return w.WakeAt, err
	case c.Type != StateTransition:
		return time.Time{}, stepError(name, "its name is taken by a checkpoint of type %s; give the sleep another name", c.Type)
	}
	var w wakeUp
	if err := json.Unmarshal(c.Snapshot, &w); err != nil || w.WakeAt.IsZero() {
		return time.Time{}, stepError(name, "its name is taken by a checkpoint that is no sleep; give the sleep another name")
	}
	return w.WakeAt, nil
}
