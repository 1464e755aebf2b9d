package engine

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// PutSchedule makes a schedule, or replaces its definition; see pawl.ScheduleKeeper.
func (e *Engine) PutSchedule(ctx context.Context, s pawl.NewSchedule) (pawl.Schedule, error) {
	row, err := e.newSchedule(ctx, "put schedule", &s)
	if err != nil {
		return pawl.Schedule{}, err
	}
	// One that is defined so already is left alone, also if its task would be refused now.
	if out, err := e.sameSchedule(ctx, row); err == nil {
		return out, nil
	} else if code := pawl.CodeOf(err); code != pawl.CodeNotFound && code != pawl.CodeConflict {
		return out, err
	}
	if err := e.draftFirst(ctx, row, &s); err != nil {
		return pawl.Schedule{}, err
	}
	var older store.ScheduleRow
	var now int64
	created, unchanged := false, false
	err = e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		created, unchanged = false, false
		older, err = store.LockSchedule(ctx, tx, row.Namespace, row.Name)
		if pawl.CodeOf(err) == pawl.CodeNotFound {
			if created, err = e.addSchedule(ctx, tx, row, &s); created || err != nil {
				return err
			}
			older, err = store.LockSchedule(ctx, tx, row.Namespace, row.Name) // another call was first
		}
		if err != nil {
			return err
		}
		if now, err = store.NowAgain(ctx, tx); err != nil {
			return err
		}
		if unchanged, err = sameDefinition(&older, row); unchanged || err != nil {
			return err
		}
		return redefine(ctx, tx, &older, row, &s, now)
	})
	if err != nil {
		return pawl.Schedule{}, err
	}
	if created {
		older, now = *row, row.CreatedAt
	}
	out, err := e.showSchedule(&older, stamp(now))
	out.Created, out.Unchanged = created, unchanged
	return out, err
}

// redefine replaces the definition of a schedule whose row is locked. Its pause, its ticks so
// far and those that are queued stay. A new rule begins after its newest tick, and not before
// now; the same rule goes on, with a tick that is due too.
func redefine(ctx context.Context, tx store.Tx, row, with *store.ScheduleRow, s *pawl.NewSchedule, now int64) error {
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
		next, ok := rule.Next(stamp(after))
		if err := rules.CheckFirst(s, next, ok, stamp(now)); err != nil {
			return err
		}
		row.NextTick = micros(&next)
	}
	row.NextAt = nil
	if row.PausedAt == nil {
		row.NextAt = nextLook(rule, row, now)
	}
	if err := useIn(ctx, tx, now, "put schedule", blobsInText(row.Definition)); err != nil {
		return err
	}
	if err := store.DefineSchedule(ctx, tx, *row); err != nil {
		return err
	}
	return store.WriteSchedules(ctx, tx, []store.ScheduleRow{*row}, now)
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
