package schedules

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/engine/internal/schedules/ticks"
	"github.com/pawl-work/pawl/store"
)

// tooManySchedules refuses another schedule of a namespace. It is no limit: to try again would not help.
var tooManySchedules = &pawl.Error{Code: pawl.CodeConflict, Op: "create schedule", Allowed: []string{}, Message: fmt.Sprintf(
	"the namespace has %d schedules, as many as it may; delete some", pawl.MaxSchedules)}

// CreateSchedule creates a schedule; see pawl.ScheduleKeeper.
func (r *Schedules) CreateSchedule(ctx context.Context, s pawl.NewSchedule) (pawl.Schedule, error) {
	row, err := r.newSchedule(ctx, "create schedule", &s)
	if err != nil {
		return pawl.Schedule{}, err
	}
	if out, err := r.sameSchedule(ctx, row); err == nil || pawl.CodeOf(err) != pawl.CodeNotFound {
		return out, err
	}
	if err := r.draftFirst(ctx, row, &s); err != nil {
		return pawl.Schedule{}, err
	}
	created := false
	err = r.k.Write(ctx, func(ctx context.Context, w *kernel.Write) error {
		created, err = r.addSchedule(ctx, w, row, &s)
		return err
	})
	switch {
	case err != nil:
		return pawl.Schedule{}, err
	case !created: // another call was first
		return r.sameSchedule(ctx, row)
	}
	return r.showSchedule(row, store.Stamp(row.CreatedAt))
}

// newSchedule checks a definition, and returns the row of a schedule that has it.
func (r *Schedules) newSchedule(ctx context.Context, op string, s *pawl.NewSchedule) (*Row, error) {
	if s.Task.Provenance != nil {
		if err := rules.CheckProvenance(op, s.Task.Provenance); err != nil {
			return nil, rules.Under("/task", err)
		}
	}
	if err := check(s); err != nil {
		return nil, err
	}
	if _, bad := ticks.Of(s, time.Time{}, ""); bad != nil {
		return nil, rules.Fields(bad).Err(op)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, pawl.Invalid("/task", "cannot be written as JSON: %v", err)
	}
	return &Row{ID: r.k.IDs.Next("sch"), Namespace: pawl.CallerOf(ctx).Namespace, Name: s.Name, Definition: string(text)}, nil
}

// draftFirst refuses a schedule whose task would be refused now.
func (r *Schedules) draftFirst(ctx context.Context, row *Row, s *pawl.NewSchedule) error {
	d, err := r.k.Tasks(kernel.Origin{}).Draft(ctx, &s.Task, kernel.Allowed{})
	if err != nil {
		return rules.Under("/task", err)
	}
	row.Typed = d.Typed()
	return nil
}

// addSchedule inserts a schedule; created is false if the namespace has one of the name. In a copy for tests it is paused.
func (r *Schedules) addSchedule(ctx context.Context, w *kernel.Write, row *Row, s *pawl.NewSchedule) (created bool, err error) {
	now, err := w.Now(ctx)
	if err != nil {
		return false, err
	}
	row.CreatedAt, row.UpdatedAt = now, now
	rule, _ := ticks.Of(s, store.Stamp(now), row.ID)
	next, ok := rule.Next(store.Stamp(now))
	if err := checkFirst(s, next, ok, store.Stamp(now)); err != nil {
		return false, err
	}
	row.NextTick, row.NextAt = kernel.Micros(&next), dueOf(rule, next)
	if r.k.Guard.Test() {
		row.PausedAt, row.NextAt = &now, nil
	}
	if err := r.k.Refer(ctx, w, "create schedule", row.Definition); err != nil {
		return false, err
	}
	if n, err := count(ctx, w.Tx, row.Namespace, pawl.MaxSchedules); err != nil || n >= pawl.MaxSchedules {
		return false, cmp.Or(err, error(tooManySchedules))
	}
	return insert(ctx, w.Tx, *row)
}

// sameSchedule returns the existing schedule of a name. If it is defined otherwise, that is a
// conflict.
func (r *Schedules) sameSchedule(ctx context.Context, row *Row) (pawl.Schedule, error) {
	older, now, err := r.readSchedule(ctx, row.Name)
	if err != nil {
		return pawl.Schedule{}, err
	}
	if same, err := sameDefinition(&older, row); err != nil || !same {
		return pawl.Schedule{}, &pawl.Error{Code: pawl.CodeConflict, Op: "create schedule", Err: err,
			Message: "the schedule " + row.Name + " exists and is defined otherwise: replace it (put), delete it first, or choose another name"}
	}
	out, err := r.showSchedule(&older, now)
	out.Unchanged = true
	return out, err
}

// sameDefinition reports whether two schedules are defined alike.
func sameDefinition(a, b *Row) (bool, error) {
	has, err := pawl.HashOf(json.RawMessage(a.Definition))
	if err != nil {
		return false, err
	}
	wants, err := pawl.HashOf(json.RawMessage(b.Definition))
	return has == wants, err
}

func (r *Schedules) readSchedule(ctx context.Context, name string) (row Row, at time.Time, err error) {
	row, err = kernel.Read(ctx, r.k, func(ctx context.Context, tx store.Tx, ns string) (Row, error) {
		now, err := tx.Now(ctx)
		if err != nil {
			return row, err
		}
		at = store.Stamp(now)
		return get(ctx, tx, ns, name)
	})
	return row, at, err
}

// showSchedule returns the schedule of a row, with its next ticks. One whose rule cannot be
// read any more has none.
func (r *Schedules) showSchedule(row *Row, now time.Time) (pawl.Schedule, error) {
	out, err := row.Schedule()
	if err != nil {
		return out, err
	}
	out.Next = []time.Time{}
	rule, bad := ticks.Of(&out.NewSchedule, out.CreatedAt, row.ID)
	if bad != nil || row.NextTick == nil || row.PausedAt != nil {
		return out, nil
	}
	if first := store.Stamp(*row.NextTick); first.After(now) { // else servers have not fired it yet
		now = first.Add(-1)
	}
	out.Next = rule.List(now, pawl.TicksShown)
	return out, nil
}

// dueOf is when a tick fires; nil if there is no tick.
func dueOf(rule *ticks.Rule, tick time.Time) *int64 {
	due := rule.Due(tick)
	return kernel.Micros(&due)
}

// GetSchedule reads a schedule; see pawl.ScheduleReader.
func (r *Schedules) GetSchedule(ctx context.Context, name string) (pawl.Schedule, error) {
	row, now, err := r.readSchedule(ctx, name)
	if err != nil {
		return pawl.Schedule{}, err
	}
	return r.showSchedule(&row, now)
}

// ListSchedules lists schedules; see pawl.ScheduleReader.
func (r *Schedules) ListSchedules(ctx context.Context, page pawl.Page) (pawl.List[pawl.Schedule], error) {
	if err := rules.CheckPage(&page); err != nil {
		return pawl.List[pawl.Schedule]{}, err
	}
	return kernel.Read(ctx, r.k, func(ctx context.Context, tx store.Tx, ns string) (out pawl.List[pawl.Schedule], err error) {
		now, err := tx.Now(ctx)
		if err != nil {
			return out, err
		}
		rows, err := list(ctx, tx, ns, page)
		if err != nil {
			return out, err
		}
		out.Items, out.Next = make([]pawl.Schedule, len(rows.Items)), rows.Next
		for i := range rows.Items {
			if out.Items[i], err = r.showSchedule(&rows.Items[i], store.Stamp(now)); err != nil {
				return out, err
			}
		}
		return out, nil
	})
}

// ListFirings lists firings; see pawl.ScheduleReader.
func (r *Schedules) ListFirings(ctx context.Context, f pawl.FiringFilter) (pawl.List[pawl.Firing], error) {
	if err := rules.CheckPage(&f.Page); err != nil {
		return pawl.List[pawl.Firing]{}, err
	}
	return kernel.Read(ctx, r.k, func(ctx context.Context, tx store.Tx, ns string) (pawl.List[pawl.Firing], error) {
		return listFirings(ctx, tx, ns, f)
	})
}

// PauseSchedule stops a schedule; see pawl.ScheduleKeeper.
func (r *Schedules) PauseSchedule(ctx context.Context, name string) (pawl.Schedule, error) {
	return r.changeSchedule(ctx, name, func(row *Row, _ *ticks.Rule, now int64) bool {
		if row.PausedAt != nil {
			return false
		}
		row.PausedAt, row.NextAt = &now, nil
		return true
	})
}

// ResumeSchedule lets a schedule go on; see pawl.ScheduleKeeper.
func (r *Schedules) ResumeSchedule(ctx context.Context, name string) (pawl.Schedule, error) {
	if r.k.Guard.Test() {
		return pawl.Schedule{}, kernel.OffForGood("resume", "schedules")
	}
	return r.changeSchedule(ctx, name, func(row *Row, rule *ticks.Rule, now int64) bool {
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
	next, ok := rule.Next(store.Stamp(after))
	if !ok {
		return nil
	}
	return kernel.Micros(&next)
}

// nextLook returns when a server looks at a schedule: when its next tick is due, or soon if
// ticks are queued.
func nextLook(rule *ticks.Rule, row *Row, now int64) *int64 {
	var at *int64
	if row.NextTick != nil {
		at = dueOf(rule, store.Stamp(*row.NextTick))
	}
	if soon := now + pawl.ScheduleRecheck.Microseconds(); row.Queued > 0 && (at == nil || *at > soon) {
		at = &soon
	}
	return at
}

// changeSchedule changes the row of a schedule, unless fn says that nothing changes.
func (r *Schedules) changeSchedule(ctx context.Context, name string,
	fn func(row *Row, rule *ticks.Rule, now int64) bool) (pawl.Schedule, error) {
	var row Row
	var at int64
	err := r.k.Write(ctx, func(ctx context.Context, w *kernel.Write) (err error) {
		if row, err = lock(ctx, w.Tx, w.Caller.Namespace, name); err != nil {
			return err
		}
		if at, err = w.NowAgain(ctx); err != nil {
			return err
		}
		rule, err := ruleOf(&row)
		if err != nil || !fn(&row, rule, at) {
			return err
		}
		row.UpdatedAt = at
		return write(ctx, w.Tx, []Row{row}, at)
	})
	if err != nil {
		return pawl.Schedule{}, err
	}
	return r.showSchedule(&row, store.Stamp(at))
}

// ruleOf returns the rule of a stored schedule.
func ruleOf(row *Row) (*ticks.Rule, error) {
	d, err := row.Defined()
	if err != nil {
		return nil, err
	}
	rule, bad := ticks.Of(&d, store.Stamp(row.CreatedAt), row.ID)
	return rule, rules.Fields(bad).Err("schedule")
}

// DeleteSchedule removes a schedule; see pawl.ScheduleKeeper.
func (r *Schedules) DeleteSchedule(ctx context.Context, name string) error {
	return r.k.Write(ctx, func(ctx context.Context, w *kernel.Write) error {
		return remove(ctx, w.Tx, w.Caller.Namespace, name)
	})
}

// RunSchedule makes the task of a schedule now; see pawl.ScheduleKeeper.
func (r *Schedules) RunSchedule(ctx context.Context, name string) (pawl.Schedule, error) {
	if err := r.k.Acts(ctx, "run"); err != nil {
		return pawl.Schedule{}, err
	}
	var row Row
	s, err := r.k.Together(ctx, nil, func(ctx context.Context, k *kernel.Kernel) error {
		var tick, now int64
		err := k.Write(ctx, func(ctx context.Context, w *kernel.Write) (err error) {
			if row, err = lock(ctx, w.Tx, w.Caller.Namespace, name); err != nil {
				return err
			}
			if now, err = w.NowAgain(ctx); err != nil {
				return err
			}
			if _, err = openTasks(ctx, w.Tx, []string{row.ID}); err != nil { // it closes the firings of tasks that have ended
				return err
			}
			tick = now
			if row.NextTick != nil && *row.NextTick == now { // that is the tick's own
				tick++
			}
			tick, err = freeTick(ctx, w.Tx, row.ID, tick)
			return err
		})
		if err != nil {
			return err
		}
		d, err := row.Defined()
		if err != nil {
			return err
		}
		f := firingRow{ScheduleID: row.ID, Tick: tick, Namespace: row.Namespace, Manual: true, FiredAt: now, Open: d.Overlap != pawl.OverlapAllow}
		if err := createOf(ctx, k, &row, &d, &f); err != nil {
			return rules.Under("/task", err)
		}
		row.LastTaskID, row.Error, row.ErrorAt, row.UpdatedAt = f.TaskID, "", nil, now
		return k.Write(ctx, func(ctx context.Context, w *kernel.Write) error {
			if err := addFirings(ctx, w.Tx, []firingRow{f}); err != nil {
				return err
			}
			if f.Outcome == pawl.FiringCreated {
				event := firedEvent(&f, row.Name, w.Actor(pawl.ActorUser, ""))
				if err := store.Record(ctx, w.Tx, now, []store.Event{event}); err != nil {
					return err
				}
			}
			return write(ctx, w.Tx, []Row{row}, now)
		})
	})
	if err = r.k.Finish(ctx, s, err); err != nil {
		return pawl.Schedule{}, err
	}
	return r.showSchedule(&row, r.k.IDs.Now())
}

// createOf creates the task of a firing with the verbs of k, and notes it in the firing.
func createOf(ctx context.Context, k *kernel.Kernel, row *Row, d *pawl.NewSchedule, f *firingRow) error {
	if _, err := draftTick(ctx, k, row, d, f.Tick); err != nil {
		return err
	}
	rs, err := madeBy(k, row, f.Tick).CreateTasks(ctx, []pawl.NewTask{d.Task})
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

// madeBy returns the verbs of tasks that a tick makes.
func madeBy(k *kernel.Kernel, row *Row, tick int64) kernel.Tasks {
	return k.Tasks(kernel.Origin{Schedule: row.Name, Tick: store.Stamp(tick)})
}

// draftTick drafts the task of a tick. A type that was registered when the schedule was
// created has to be there.
func draftTick(ctx context.Context, k *kernel.Kernel, row *Row, d *pawl.NewSchedule, tick int64) (kernel.Draft, error) {
	out, err := madeBy(k, row, tick).Draft(ctx, &d.Task, kernel.Allowed{Stored: true})
	if err == nil && row.Typed && !out.Typed() {
		err = pawl.Invalid("/type", "the type %s is not registered any more", d.Task.Type)
	}
	return out, err
}
