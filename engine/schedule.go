package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/engine/internal/ticks"
	"github.com/pawl-work/pawl/store"
)

// tooManySchedules refuses another schedule of a namespace. It is no limit: to try again would not help.
var tooManySchedules = &pawl.Error{Code: pawl.CodeConflict, Op: "create schedule", Allowed: []string{}, Message: fmt.Sprintf(
	"the namespace has %d schedules, as many as it may; delete some", pawl.MaxSchedules)}

// CreateSchedule creates a schedule; see pawl.ScheduleKeeper.
func (e *Engine) CreateSchedule(ctx context.Context, s pawl.NewSchedule) (pawl.Schedule, error) {
	row, err := e.newSchedule(ctx, "create schedule", &s)
	if err != nil {
		return pawl.Schedule{}, err
	}
	if out, err := e.sameSchedule(ctx, row); err == nil || pawl.CodeOf(err) != pawl.CodeNotFound {
		return out, err
	}
	if err := e.draftFirst(ctx, row, &s); err != nil {
		return pawl.Schedule{}, err
	}
	created := false
	err = e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		created, err = e.addSchedule(ctx, tx, row, &s)
		return err
	})
	switch {
	case err != nil:
		return pawl.Schedule{}, err
	case !created: // another call was first
		return e.sameSchedule(ctx, row)
	}
	return e.showSchedule(row, stamp(row.CreatedAt))
}

// newSchedule checks a definition, and returns the row of a schedule that has it.
func (e *Engine) newSchedule(ctx context.Context, op string, s *pawl.NewSchedule) (*store.ScheduleRow, error) {
	if s.Task.Provenance != nil {
		if err := rules.CheckProvenance(op, s.Task.Provenance); err != nil {
			return nil, rules.Under("/task", err)
		}
	}
	if err := rules.CheckSchedule(s); err != nil {
		return nil, err
	}
	if _, bad := ticks.Of(s, time.Time{}, ""); bad != nil {
		return nil, rules.Fields(bad).Err(op)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, pawl.Invalid("/task", "cannot be written as JSON: %v", err)
	}
	return &store.ScheduleRow{ID: e.k.IDs.Next("sch"), Namespace: pawl.CallerOf(ctx).Namespace, Name: s.Name, Definition: string(text)}, nil
}

// draftFirst refuses a schedule whose task would be refused now.
func (e *Engine) draftFirst(ctx context.Context, row *store.ScheduleRow, s *pawl.NewSchedule) error {
	d, err := e.draft(ctx, &s.Task, "", new(drafting))
	if err != nil {
		return rules.Under("/task", err)
	}
	row.Typed = d.task.TypeVersion > 0
	return nil
}

// addSchedule inserts a schedule; created is false if the namespace has one of the name. In a copy for tests it is paused.
func (e *Engine) addSchedule(ctx context.Context, tx store.Tx, row *store.ScheduleRow, s *pawl.NewSchedule) (created bool, err error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return false, err
	}
	row.CreatedAt, row.UpdatedAt = now, now
	rule, _ := ticks.Of(s, stamp(now), row.ID)
	next, ok := rule.Next(stamp(now))
	if err := rules.CheckFirst(s, next, ok, stamp(now)); err != nil {
		return false, err
	}
	row.NextTick, row.NextAt = micros(&next), dueOf(rule, next)
	if e.k.Guard.Test() {
		row.PausedAt, row.NextAt = &now, nil
	}
	if err := useIn(ctx, tx, now, "create schedule", blobsInText(row.Definition)); err != nil {
		return false, err
	}
	if n, err := store.CountSchedules(ctx, tx, row.Namespace, pawl.MaxSchedules); err != nil || n >= pawl.MaxSchedules {
		return false, cmp.Or(err, error(tooManySchedules))
	}
	return store.CreateSchedule(ctx, tx, *row)
}

// sameSchedule returns the existing schedule of a name. If it is defined otherwise, that is a
// conflict.
func (e *Engine) sameSchedule(ctx context.Context, row *store.ScheduleRow) (pawl.Schedule, error) {
	older, now, err := e.readSchedule(ctx, row.Name)
	if err != nil {
		return pawl.Schedule{}, err
	}
	if same, err := sameDefinition(&older, row); err != nil || !same {
		return pawl.Schedule{}, &pawl.Error{Code: pawl.CodeConflict, Op: "create schedule", Err: err,
			Message: "the schedule " + row.Name + " exists and is defined otherwise: replace it (put), delete it first, or choose another name"}
	}
	out, err := e.showSchedule(&older, now)
	out.Unchanged = true
	return out, err
}

// sameDefinition reports whether two schedules are defined alike.
func sameDefinition(a, b *store.ScheduleRow) (bool, error) {
	has, err := pawl.HashOf(json.RawMessage(a.Definition))
	if err != nil {
		return false, err
	}
	wants, err := pawl.HashOf(json.RawMessage(b.Definition))
	return has == wants, err
}

func (e *Engine) readSchedule(ctx context.Context, name string) (row store.ScheduleRow, at time.Time, err error) {
	row, err = view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (store.ScheduleRow, error) {
		now, err := tx.Now(ctx)
		if err != nil {
			return row, err
		}
		at = stamp(now)
		return store.GetSchedule(ctx, tx, ns, name)
	})
	return row, at, err
}

// showSchedule returns the schedule of a row, with its next ticks. One whose rule cannot be
// read any more has none.
func (e *Engine) showSchedule(row *store.ScheduleRow, now time.Time) (pawl.Schedule, error) {
	out, err := row.Schedule()
	if err != nil {
		return out, err
	}
	out.Next = []time.Time{}
	rule, bad := ticks.Of(&out.NewSchedule, out.CreatedAt, row.ID)
	if bad != nil || row.NextTick == nil || row.PausedAt != nil {
		return out, nil
	}
	if first := stamp(*row.NextTick); first.After(now) { // else servers have not fired it yet
		now = first.Add(-1)
	}
	out.Next = rule.List(now, pawl.TicksShown)
	return out, nil
}

// dueOf is when a tick fires; nil if there is no tick.
func dueOf(rule *ticks.Rule, tick time.Time) *int64 {
	due := rule.Due(tick)
	return micros(&due)
}

// GetSchedule reads a schedule; see pawl.ScheduleReader.
func (e *Engine) GetSchedule(ctx context.Context, name string) (pawl.Schedule, error) {
	row, now, err := e.readSchedule(ctx, name)
	if err != nil {
		return pawl.Schedule{}, err
	}
	return e.showSchedule(&row, now)
}

// ListSchedules lists schedules; see pawl.ScheduleReader.
func (e *Engine) ListSchedules(ctx context.Context, page pawl.Page) (pawl.List[pawl.Schedule], error) {
	if err := rules.CheckPage(&page); err != nil {
		return pawl.List[pawl.Schedule]{}, err
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (out pawl.List[pawl.Schedule], err error) {
		now, err := tx.Now(ctx)
		if err != nil {
			return out, err
		}
		rows, err := store.ListSchedules(ctx, tx, ns, page)
		if err != nil {
			return out, err
		}
		out.Items, out.Next = make([]pawl.Schedule, len(rows.Items)), rows.Next
		for i := range rows.Items {
			if out.Items[i], err = e.showSchedule(&rows.Items[i], stamp(now)); err != nil {
				return out, err
			}
		}
		return out, nil
	})
}

// ListFirings lists firings; see pawl.ScheduleReader.
func (e *Engine) ListFirings(ctx context.Context, f pawl.FiringFilter) (pawl.List[pawl.Firing], error) {
	if err := rules.CheckPage(&f.Page); err != nil {
		return pawl.List[pawl.Firing]{}, err
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.List[pawl.Firing], error) {
		return store.ListFirings(ctx, tx, ns, f)
	})
}

// PauseSchedule stops a schedule; see pawl.ScheduleKeeper.
func (e *Engine) PauseSchedule(ctx context.Context, name string) (pawl.Schedule, error) {
	return e.changeSchedule(ctx, name, func(row *store.ScheduleRow, _ *ticks.Rule, now int64) bool {
		if row.PausedAt != nil {
			return false
		}
		row.PausedAt, row.NextAt = &now, nil
		return true
	})
}

// ResumeSchedule lets a schedule go on; see pawl.ScheduleKeeper.
func (e *Engine) ResumeSchedule(ctx context.Context, name string) (pawl.Schedule, error) {
	if e.k.Guard.Test() {
		return pawl.Schedule{}, kernel.OffForGood("resume", "schedules")
	}
	return e.changeSchedule(ctx, name, func(row *store.ScheduleRow, rule *ticks.Rule, now int64) bool {
		if row.PausedAt == nil {
			return false
		}
		after := now
		if row.LastTick != nil { // it is in the future if the clock went back
			after = max(after, *row.LastTick)
		}
		row.PausedAt, row.NextTick = nil, nextTick(rule, after)
		row.NextAt = nextLook(rule, row, now)
		return true
	})
}

// nextTick returns the first tick of a rule after a time; nil if there is none.
func nextTick(rule *ticks.Rule, after int64) *int64 {
	next, ok := rule.Next(stamp(after))
	if !ok {
		return nil
	}
	return micros(&next)
}

// nextLook returns when a server looks at a schedule: when its next tick is due, or soon if
// ticks are queued.
func nextLook(rule *ticks.Rule, row *store.ScheduleRow, now int64) *int64 {
	var at *int64
	if row.NextTick != nil {
		at = dueOf(rule, stamp(*row.NextTick))
	}
	if soon := now + pawl.ScheduleRecheck.Microseconds(); row.Queued > 0 && (at == nil || *at > soon) {
		at = &soon
	}
	return at
}

// changeSchedule changes the row of a schedule, unless fn says that nothing changes.
func (e *Engine) changeSchedule(ctx context.Context, name string,
	fn func(row *store.ScheduleRow, rule *ticks.Rule, now int64) bool) (pawl.Schedule, error) {
	var row store.ScheduleRow
	var at int64
	err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		if row, err = store.LockSchedule(ctx, tx, pawl.CallerOf(ctx).Namespace, name); err != nil {
			return err
		}
		if at, err = store.NowAgain(ctx, tx); err != nil {
			return err
		}
		rule, err := ruleOf(&row)
		if err != nil || !fn(&row, rule, at) {
			return err
		}
		row.UpdatedAt = at
		return store.WriteSchedules(ctx, tx, []store.ScheduleRow{row}, at)
	})
	if err != nil {
		return pawl.Schedule{}, err
	}
	return e.showSchedule(&row, stamp(at))
}

// ruleOf returns the rule of a stored schedule.
func ruleOf(row *store.ScheduleRow) (*ticks.Rule, error) {
	d, err := row.Defined()
	if err != nil {
		return nil, err
	}
	rule, bad := ticks.Of(&d, stamp(row.CreatedAt), row.ID)
	return rule, rules.Fields(bad).Err("schedule")
}

// DeleteSchedule removes a schedule; see pawl.ScheduleKeeper.
func (e *Engine) DeleteSchedule(ctx context.Context, name string) error {
	return e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		return store.DeleteSchedule(ctx, tx, pawl.CallerOf(ctx).Namespace, name)
	})
}

// RunSchedule makes the task of a schedule now; see pawl.ScheduleKeeper.
func (e *Engine) RunSchedule(ctx context.Context, name string) (pawl.Schedule, error) {
	if err := e.acts(ctx, "run"); err != nil {
		return pawl.Schedule{}, err
	}
	var row store.ScheduleRow
	s, err := e.together(ctx, nil, func(ctx context.Context, e *Engine) error {
		var tick, now int64
		err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			if row, err = store.LockSchedule(ctx, tx, pawl.CallerOf(ctx).Namespace, name); err != nil {
				return err
			}
			if now, err = store.NowAgain(ctx, tx); err != nil {
				return err
			}
			if _, err = store.OpenTasks(ctx, tx, []string{row.ID}); err != nil { // it closes the firings of tasks that have ended
				return err
			}
			tick = now
			if row.NextTick != nil && *row.NextTick == now { // that is the tick's own
				tick++
			}
			tick, err = store.FreeTick(ctx, tx, row.ID, tick)
			return err
		})
		if err != nil {
			return err
		}
		d, err := row.Defined()
		if err != nil {
			return err
		}
		f := store.FiringRow{ScheduleID: row.ID, Tick: tick, Namespace: row.Namespace, Manual: true, FiredAt: now}
		if err := e.createOf(ctx, &row, &d, &f); err != nil {
			return rules.Under("/task", err)
		}
		f.Open = d.Overlap != pawl.OverlapAllow
		row.LastTaskID, row.Error, row.ErrorAt, row.UpdatedAt = f.TaskID, "", nil, now
		return e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
			if err := store.AddFirings(ctx, tx, []store.FiringRow{f}); err != nil {
				return err
			}
			if f.Outcome == pawl.FiringCreated {
				event := firedEvent(&f, row.Name, actor(pawl.CallerOf(ctx), pawl.ActorUser, ""))
				if err := store.Record(ctx, tx, now, []store.Event{event}); err != nil {
					return err
				}
			}
			return store.WriteSchedules(ctx, tx, []store.ScheduleRow{row}, now)
		})
	})
	if err = e.k.Finish(ctx, s, err); err != nil {
		return pawl.Schedule{}, err
	}
	return e.showSchedule(&row, e.k.IDs.Now())
}

// createOf creates the task of a firing with the verbs of e, and notes it in the firing.
func (e *Engine) createOf(ctx context.Context, row *store.ScheduleRow, d *pawl.NewSchedule, f *store.FiringRow) error {
	of := e.madeBy(row, f.Tick)
	if _, err := of.draftTick(ctx, row, d); err != nil {
		return err
	}
	rs, err := of.CreateTasks(ctx, []pawl.NewTask{d.Task})
	if err == nil {
		err = rs[0].Err
	}
	if err != nil {
		return err
	}
	f.TaskID, f.Outcome = rs[0].Value.ID, pawl.FiringCreated
	if rs[0].Value.Deduplicated {
		f.Outcome = pawl.FiringDeduplicated
	}
	return nil
}

// origin is the tick of a schedule that makes a task.
type origin struct {
	schedule string
	tick     time.Time
}

// madeBy returns an Engine whose tasks a tick makes.
func (e *Engine) madeBy(row *store.ScheduleRow, tick int64) *Engine {
	of := *e
	of.origin = origin{row.Name, stamp(tick)}
	return &of
}

// draftTick drafts the task of a tick. A type that was registered when the schedule was
// created has to be there.
func (e *Engine) draftTick(ctx context.Context, row *store.ScheduleRow, d *pawl.NewSchedule) (draft, error) {
	out, err := e.draft(ctx, &d.Task, "", &drafting{stored: true})
	if err == nil && row.Typed && out.task.TypeVersion == 0 {
		err = pawl.Invalid("/type", "the type %s is not registered any more", d.Task.Type)
	}
	return out, err
}
