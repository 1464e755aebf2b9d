package schedules

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

// PutSchedule makes a schedule, or replaces its definition; see pawl.ScheduleKeeper.
func (r *Schedules) PutSchedule(ctx context.Context, s pawl.NewSchedule) (pawl.Schedule, error) {
	row, err := r.newSchedule(ctx, "put schedule", &s)
	if err != nil {
		return pawl.Schedule{}, err
	}
	// One that is defined so already is left alone, also if its task would be refused now.
	if out, err := r.sameSchedule(ctx, row); err == nil {
		return out, nil
	} else if code := pawl.CodeOf(err); code != pawl.CodeNotFound && code != pawl.CodeConflict {
		return out, err
	}
	if err := r.draftFirst(ctx, row, &s); err != nil {
		return pawl.Schedule{}, err
	}
	var older Row
	var now int64
	created, unchanged := false, false
	err = r.k.Write(ctx, func(ctx context.Context, w *kernel.Write) error {
		created, unchanged = false, false
		older, err = lock(ctx, w.Tx, row.Namespace, row.Name)
		if pawl.CodeOf(err) == pawl.CodeNotFound {
			if created, err = r.addSchedule(ctx, w, row, &s); created || err != nil {
				return err
			}
			older, err = lock(ctx, w.Tx, row.Namespace, row.Name) // another call was first
		}
		if err != nil {
			return err
		}
		if now, err = w.NowAgain(ctx); err != nil {
			return err
		}
		if unchanged, err = sameDefinition(&older, row); unchanged || err != nil {
			return err
		}
		return r.redefine(ctx, w, &older, row, &s, now)
	})
	if err != nil {
		return pawl.Schedule{}, err
	}
	if created {
		older, now = *row, row.CreatedAt
	}
	out, err := r.showSchedule(&older, store.Stamp(now))
	out.Created, out.Unchanged = created, unchanged
	return out, err
}

// redefine replaces the definition of a schedule whose row is locked. Its pause, its ticks so
// far and those that are queued stay. A new rule begins after its newest tick, and not before
// now; the same rule goes on, with a tick that is due too.
func (r *Schedules) redefine(ctx context.Context, w *kernel.Write, row, with *Row, s *pawl.NewSchedule, now int64) error {
	old, err := row.Defined()
	if err != nil {
		return err
	}
	row.Definition, row.Typed, row.UpdatedAt = with.Definition, with.Typed, now
	rule, err := ruleOf(row)
	if err != nil {
		return err
	}
	if !sameRule(&old, s) {
		after := now
		if row.LastTick != nil { // it is in the future if the clock went back
			after = max(after, *row.LastTick)
		}
		next, ok := rule.Next(store.Stamp(after))
		if err := checkFirst(s, next, ok, store.Stamp(now)); err != nil {
			return err
		}
		row.NextTick = kernel.Micros(&next)
	}
	row.NextAt = nil
	if row.PausedAt == nil {
		row.NextAt = nextLook(rule, row, now)
	}
	if err := r.k.Refer(ctx, w, "put schedule", row.Definition); err != nil {
		return err
	}
	if old.Overlap == pawl.OverlapAllow && s.Overlap != pawl.OverlapAllow {
		if _, err := w.Tx.Exec(ctx, texts["open firings again"], row.ID, pawl.MaxQueuedFirings); err != nil {
			return err
		}
	}
	if err := define(ctx, w.Tx, *row); err != nil {
		return err
	}
	return write(ctx, w.Tx, []Row{*row}, now)
}

// sameRule reports whether two definitions have their ticks at the same times.
func sameRule(a, b *pawl.NewSchedule) bool {
	at := func(s *pawl.NewSchedule) int64 {
		if s.At == nil {
			return 0
		}
		return s.At.UnixMicro()
	}
	return a.Cron == b.Cron && a.EverySeconds == b.EverySeconds && at(a) == at(b) && a.Zone == b.Zone
}
