package schedules

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/commit"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/engine/internal/schedules/ticks"
	"github.com/pawl-work/pawl/store"
)

// scheduleActor is the name of the actor, of type system, of tasks that ticks make.
const scheduleActor = "schedule"

// candidate is a schedule that is due, with what its ticks come to if no other call changes it
// first.
type candidate struct {
	row      Row
	def      pawl.NewSchedule
	rule     *ticks.Rule
	plan     ticks.Plan
	now      int64     // when it was read
	rest     error     // this process cannot use its definition, or draft its tasks now
	head     *attempt  // the oldest queued tick; nil = none
	attempts []attempt // of the ticks of the plan that fire
}

// attempt is a tick with the draft of its task, or why that is refused.
type attempt struct {
	tick   int64
	draft  kernel.Draft // nil = it was refused before there was one
	refuse store.Text   // a pawl.Failure
}

func (c *candidate) bytes() int {
	n := 0
	for i := range c.attempts {
		n += c.attempts[i].bytes()
	}
	if c.head != nil {
		n += c.head.bytes()
	}
	return n
}

func (a *attempt) bytes() int {
	if a.draft == nil {
		return 0
	}
	return a.draft.Bytes()
}

// candidate decides about the due ticks of a schedule and drafts their tasks. It returns an
// error only if the database is gone.
func (r *Schedules) candidate(ctx context.Context, row *Row, queued map[string]int64, now int64) (*candidate, error) {
	c := &candidate{row: *row, now: now}
	if c.def, c.rest = row.Defined(); c.rest == nil {
		var bad []pawl.Field
		c.rule, bad = ticks.Of(&c.def, store.Stamp(row.CreatedAt), row.ID)
		c.rest = rules.Fields(bad).Err("schedule")
	}
	if c.rest != nil {
		return c, nil
	}
	if row.NextTick != nil && row.LastTick != nil && *row.NextTick <= *row.LastTick { // that has been fired
		c.row.NextTick = nextTick(c.rule, *row.LastTick)
	}
	if c.row.NextTick != nil {
		c.plan = c.rule.Plan(store.Stamp(*c.row.NextTick), store.Stamp(now), c.def.CatchUp)
	}
	fire := c.plan.Fire
	switch n := len(fire); {
	case c.def.Overlap == pawl.OverlapReplace && n > 1:
		fire = fire[n-1:] // each would be replaced by the next at once
	case n > 1:
		if most := max(1, pawl.MaxGroupBytes/len(row.Definition)); n > most { // the next round has the others
			fire = fire[:most]
			c.plan.Fire = fire
		}
	}
	ctx = pawl.As(ctx, pawl.Caller{Namespace: row.Namespace, ActorType: pawl.ActorSystem, ActorID: scheduleActor})
	if tick, found := queued[row.ID]; found {
		a, err := r.attempt(ctx, c, tick)
		if err != nil {
			return nil, err
		}
		c.head = &a
	}
	for _, tick := range fire {
		a, err := r.attempt(ctx, c, tick.UnixMicro())
		if err != nil {
			return nil, err
		}
		c.attempts = append(c.attempts, a)
	}
	return c, nil
}

// attempt drafts the task of a tick. A panic of a hook that plans it is a refusal. That a
// process lacks the hook, or cannot do it now, is none: then the candidate rests.
func (r *Schedules) attempt(ctx context.Context, c *candidate, tick int64) (attempt, error) {
	a := attempt{tick: tick}
	err := commit.Shield(ctx, r.k, func(ctx context.Context, k *kernel.Kernel) (err error) {
		a.draft, err = draftTick(ctx, k, &c.row, &c.def, tick)
		return err
	})
	if givesUp(ctx, err) {
		return a, err
	}
	if errors.Is(err, pawl.ErrUnavailable) {
		c.rest = err
	} else if err != nil {
		a.refuse = failureText(rules.Under("/task", err))
	}
	return a, nil
}

// failureText returns an error as a pawl.Failure, as JSON.
func failureText(err error) store.Text { return store.Text(rules.Encode(pawl.FailureOf(err))) }

// replaces reports whether a new task is to take the place of earlier ones. A tick whose task is refused replaces nothing.
func (c *candidate) replaces() bool {
	return c.def.Overlap == pawl.OverlapReplace && len(c.attempts) > 0 && c.attempts[0].refuse == ""
}

// needsVerbs reports whether the tasks of a candidate are made or cancelled by verbs, and not
// by the round's own transaction alone. live says that an earlier task has not ended.
func (c *candidate) needsVerbs(live bool) bool {
	if live && c.replaces() {
		return true
	}
	plain := func(a attempt) bool {
		return a.refuse != "" || a.draft.Plain() && c.def.Task.Provenance == nil
	}
	return !(slices.IndexFunc(c.attempts, func(a attempt) bool { return !plain(a) }) < 0 && (c.head == nil || plain(*c.head)))
}

// fired is what a round writes.
type fired struct {
	rows    []Row
	firings []firingRow // new
	queued  []firingRow // of ticks that were queued
	drafts  []kernel.Draft
}

func (f *fired) add(g fired) {
	f.rows, f.firings, f.queued = append(f.rows, g.rows...), append(f.firings, g.firings...), append(f.queued, g.queued...)
	f.drafts = append(f.drafts, g.drafts...)
}

// events are the events of the tasks that were made.
func (f *fired) events() (out []store.Event) {
	name := map[string]string{}
	for i := range f.rows {
		name[f.rows[i].ID] = f.rows[i].Name
	}
	for _, list := range [][]firingRow{f.queued, f.firings} {
		for i := range list {
			if r := &list[i]; r.Outcome == pawl.FiringCreated {
				out = append(out, firedEvent(r, name[r.ScheduleID], store.Actor{Type: pawl.ActorSystem, ID: scheduleActor}))
			}
		}
	}
	return out
}

// firedEvent is the event of a task that a firing has made.
func firedEvent(f *firingRow, schedule string, by store.Actor) store.Event {
	data := rules.Encode(struct {
		Schedule string    `json:"schedule"`
		Tick     time.Time `json:"tick"`
		Manual   bool      `json:"manual,omitempty"`
	}{schedule, store.Stamp(f.Tick), f.Manual})
	return store.Event{Namespace: f.Namespace, TaskID: f.TaskID, Event: "fired", Actor: by, Data: store.Text(data)}
}

func (f *fired) store(ctx context.Context, tx store.Tx, now int64) error {
	if events := f.events(); len(events) > 0 {
		if err := store.Record(ctx, tx, now, events); err != nil {
			return err
		}
	}
	if err := addFirings(ctx, tx, f.firings); err != nil {
		return err
	}
	if err := fireQueued(ctx, tx, f.queued); err != nil {
		return err
	}
	return write(ctx, tx, f.rows, now)
}

// fire decides what becomes of the ticks of a candidate. live says that an earlier task has not
// ended. The schedule is locked.
func (c *candidate) fire(live bool, now int64) fired {
	row := c.row
	out := fired{}
	new := func(tick int64, outcome pawl.FiringOutcome) firingRow {
		return firingRow{ScheduleID: row.ID, Tick: tick, Namespace: row.Namespace, Outcome: outcome, FiredAt: now}
	}
	create := func(a *attempt) firingRow {
		f := new(a.tick, pawl.FiringCreated)
		if a.refuse != "" {
			f.Outcome, f.Error = pawl.FiringFailed, a.refuse
			return f
		}
		f.TaskID, f.Open = a.draft.TaskID(), c.def.Overlap != pawl.OverlapAllow
		live = f.Open
		out.drafts = append(out.drafts, a.draft)
		return f
	}
	if c.head != nil && !live {
		out.queued = append(out.queued, create(c.head))
		row.Queued--
	}
	out.firings = c.missed(new)
	for i := range c.attempts {
		a := &c.attempts[i]
		switch {
		case (live || row.Queued > 0) && c.def.Overlap == pawl.OverlapQueue && row.Queued < pawl.MaxQueuedFirings:
			out.firings = append(out.firings, new(a.tick, pawl.FiringQueued))
			row.Queued++
		case (live || row.Queued > 0) && (c.def.Overlap == pawl.OverlapQueue || c.def.Overlap == pawl.OverlapSkip):
			out.firings = append(out.firings, new(a.tick, pawl.FiringSkipped))
		default:
			out.firings = append(out.firings, create(a))
		}
	}
	if newest := c.plan.Newest(); !newest.IsZero() {
		row.LastTick, row.NextTick = kernel.Micros(&newest), nextTick(c.rule, newest.UnixMicro())
	}
	row.NextAt = nextLook(c.rule, &row, now)
	out.rows = []Row{row}
	out.note(now)
	return out
}

// missed returns the firings of the ticks that make no task.
func (c *candidate) missed(new func(int64, pawl.FiringOutcome) firingRow) (out []firingRow) {
	if c.plan.Earlier {
		f := new(*c.row.NextTick, pawl.FiringMissed)
		oldest := c.plan.Oldest()
		f.Until = kernel.Micros(&oldest)
		out = append(out, f)
	}
	for _, tick := range c.plan.Missed {
		out = append(out, new(tick.UnixMicro(), pawl.FiringMissed))
	}
	for _, tick := range c.plan.Fire[:len(c.plan.Fire)-len(c.attempts)] { // of replace
		out = append(out, new(tick.UnixMicro(), pawl.FiringSkipped))
	}
	return out
}

// note sets the last task and the error of the schedule from its firings.
func (f *fired) note(now int64) {
	row := &f.rows[0]
	for _, list := range [][]firingRow{f.queued, f.firings} {
		for i := range list {
			switch r := &list[i]; r.Outcome {
			case pawl.FiringFailed:
				row.Error, row.ErrorAt = r.Error, &now
			case pawl.FiringCreated, pawl.FiringDeduplicated:
				row.LastTaskID, row.Error, row.ErrorAt = r.TaskID, "", nil
			}
		}
	}
}
