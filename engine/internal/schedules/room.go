// Package schedules is the room of schedules: rules that say when tasks are made, and what became of each tick.
package schedules

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

// Schedules are the schedules of a database. Its methods are those of pawl.Service.
type Schedules struct {
	k *kernel.Kernel
	*state
}

// state is what all Schedules of a process share.
type state struct {
	resting restingSchedules
	due     chan struct{} // tells Loop that a schedule may be due
}

// New returns the schedules of a database.
func New(k *kernel.Kernel) *Schedules { return &Schedules{k, &state{due: make(chan struct{}, 1)}} }

// Over returns the schedules over another Kernel of the database.
func Over(r *Schedules, k *kernel.Kernel) *Schedules { return &Schedules{k, r.state} }

// Tell tells Loop that a schedule may be due.
func Tell(r *Schedules) {
	select {
	case r.due <- struct{}{}:
	default: // it has been told
	}
}

// Resting returns the schedules that this process could not fire a moment ago.
func Resting(r *Schedules, now int64) []string { return r.resting.ids(now) }

// Rests reports whether there are such schedules.
func Rests(r *Schedules) bool {
	r.resting.mu.Lock()
	defer r.resting.mu.Unlock()
	return len(r.resting.tried) > 0
}

// RestUntil is when the first of them is tried again; nil = none rests.
func RestUntil(r *Schedules, now int64) *int64 { return r.resting.until(now) }

// Declared is the declaration of the room. Its rows are of no task: a task names the schedule that made it, and the
// firing names the task, which may be removed.
func Declared() kernel.Room {
	return kernel.Room{
		Name: "schedules",
		Tables: []kernel.Table{
			{Name: "schedules", Key: "namespace", Values: []string{"definition"}, Plain: []string{"id", "namespace", "name", "error"},
				Changes: "at any time; no event tells of it"},
			{Name: "firings", Key: "schedule", Plain: []string{"schedule_id", "namespace", "outcome", "error"},
				Changes: "when a queued tick is fired, of which the event fired of its task tells, and when its task has ended"},
		},
		Steps: []store.Step{{Name: "firings", Run: store.Repeat(removeOld)}},
		Rules: []store.RuleSearch{
			{Rule: store.Rule{Name: "schedules", Says: "a schedule counts its queued ticks, and has fired no tick that is still to come",
				Repair: "set schedules.queued to the number of queued firings, and next_tick to the first tick after those that were fired"},
				SQL: texts["wrong schedules"]},
			{Rule: store.Rule{Name: "firings", Says: "a tick has one firing, with a task exactly if it made or found one, which names the " +
				"schedule; an open one has its schedule", Repair: "delete the firing, or set open to 0"}, SQL: texts["wrong firings"]},
		},
		Warnings: []store.Look{failing, late},
	}
}

// removeOld removes the records of ticks that are older than pawl.DefaultRetainFirings.
func removeOld(ctx context.Context, tx store.Tx, now int64, limit int) (int64, error) {
	return removeFirings(ctx, tx, now-pawl.DefaultRetainFirings.Microseconds(), limit)
}
