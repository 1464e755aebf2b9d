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

// Sleep suspends the item for d (at most 10 years). It holds no lease and no worker
// meanwhile, and survives restarts. The first call with a name fixes the end of the
// sleep by the database's clock, suspends the item and returns ErrSuspended, which the
// handler returns unchanged. The attempt after that time runs the handler from its
// beginning; its steps are replayed, and this Sleep returns nil. An attempt that begins
// earlier, for example after an operator's retry, sleeps for the rest. If d is 0 or
// less, Sleep returns nil at once.
//
// A later call with the same name and another d keeps the first end.
func Sleep(ctx context.Context, name string, d time.Duration) error {
	h, err := attemptOf(ctx)
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

// wakeTime returns when the sleep of a name ends: the saved time, or now + d, which it
// saves.
func (h *attemptState) wakeTime(ctx context.Context, name string, d time.Duration) (time.Time, error) {
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
		return time.Time{}, stepChanged(name, "its name is taken by a checkpoint of type %s; give the sleep another name", c.Type)
	}
	var w wakeUp
	if err := json.Unmarshal(c.Snapshot, &w); err != nil || w.WakeAt.IsZero() {
		return time.Time{}, stepChanged(name, "its name is taken by a checkpoint that is no sleep; give the sleep another name")
	}
	return w.WakeAt, nil
}
