package schedules

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/commit"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// scheduleRetry is how long a schedule rests in a process that could not fire its ticks for a
// reason that is not its task. Other processes fire it meanwhile. It is shorter than the time
// after which a tick counts as missed.
const scheduleRetry = pawl.ScheduleGrace / 2

// scheduleLook is how often Loop looks without being told: Run tells it nothing while it
// sweeps. It is much shorter than the time after which a tick counts as missed.
const scheduleLook = pawl.ScheduleGrace / 6

// Loop fires schedules when Tell says that one is due, until ctx ends.
func Loop(ctx context.Context, r *Schedules) {
	look := time.NewTicker(scheduleLook)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.due:
		case <-look.C:
		}
		if _, err := Fire(ctx, r); err != nil {
			r.k.LogError(ctx, "firing schedules failed; retrying", err)
		}
	}
}

// Fire fires what is due now, in rounds. While a round is written, the next one is read
// and drafted. Any number of processes may do so at the same time: a tick is fired by the
// transaction that first stores it. It returns how many schedules it has dealt with.
func Fire(ctx context.Context, r *Schedules) (fired int64, err error) {
	if r.k.Guard.Test() {
		return 0, nil
	}
	round, err := r.dueSchedules(ctx, nil)
	for err == nil && len(round) > 0 && ctx.Err() == nil {
		var next []*candidate
		var readErr error
		var reading sync.WaitGroup
		reading.Go(func() { next, readErr = r.dueSchedules(ctx, round) })
		done, err := r.fireRound(ctx, round)
		reading.Wait()
		fired += int64(done)
		if err = cmp.Or(err, readErr); err != nil || done == 0 { // done == 0: another server is firing them
			return fired, err
		}
		if len(next) == 0 { // what the round has left is due still
			if next, err = r.dueSchedules(ctx, nil); err != nil {
				return fired, err
			}
		}
		round = next
	}
	return fired, err
}

// dueSchedules reads schedules that are due, except those that are being fired, decides about
// their ticks and drafts their tasks. Nothing is written.
func (r *Schedules) dueSchedules(ctx context.Context, firing []*candidate) ([]*candidate, error) {
	var rows []Row
	var queued map[string]int64
	var now int64
	err := r.k.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		rows, queued = nil, nil
		if now, err = tx.Now(ctx); err != nil {
			return err
		}
		except := r.resting.ids(now)
		for _, c := range firing {
			except = append(except, c.row.ID)
		}
		ids, err := dueIDs(ctx, tx, now, except, pawl.FiringsPerRound, pawl.MaxGroupBytes)
		if err != nil || len(ids) == 0 {
			return err
		}
		if rows, err = readDue(ctx, tx, ids, now); err != nil {
			return err
		}
		if slices.ContainsFunc(rows, func(r Row) bool { return r.Queued > 0 }) {
			queued, err = queuedTicks(ctx, tx, ids)
		}
		return err
	})
	var out []*candidate
	tasks, bytes := 0, 0
	for i := range rows {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		c, err := r.candidate(ctx, &rows[i], queued, now)
		if err != nil {
			return nil, err
		}
		n := len(c.attempts)
		if tasks += n; (tasks > pawl.MaxItemsPerCall || bytes+c.bytes() > pawl.MaxGroupBytes) && len(out) > 0 {
			break // the next round has them
		}
		bytes += c.bytes()
		out = append(out, c)
	}
	return out, err
}

// fireRound fires candidates in one transaction, except for those that need verbs of their own.
// It returns how many schedules it has dealt with. If the transaction fails, each is fired alone,
// so that one schedule stops no other.
func (r *Schedules) fireRound(ctx context.Context, round []*candidate) (done int, err error) {
	round, rested, err := r.restSome(ctx, round)
	if err != nil || len(round) == 0 {
		return rested, err
	}
	defer func() { done += rested }()
	var alone []*candidate
	err = r.k.Write(ctx, func(ctx context.Context, w *kernel.Write) error {
		alone, done = nil, 0
		at, err := w.Now(ctx)
		if err != nil {
			return err
		}
		held, open, err := lockCandidates(ctx, w.Tx, round, at)
		if err != nil {
			return err
		}
		var all fired
		for _, c := range held {
			if c.needsVerbs(len(open[c.row.ID]) > 0) {
				alone = append(alone, c)
				continue
			}
			f := c.fire(len(open[c.row.ID]) > 0, at)
			all.add(f)
			done++
		}
		if len(all.drafts) > 0 {
			if _, err := r.k.Tasks(kernel.Origin{}).Insert(ctx, w, all.drafts); err != nil {
				return err
			}
		}
		return all.store(ctx, w.Tx, at)
	})
	switch {
	case givesUp(ctx, err):
		return 0, err
	case err != nil:
		alone, done = round, 0
	}
	for _, c := range alone {
		if ok, err := r.fireAlone(ctx, c); err != nil {
			return done, err
		} else if ok {
			done++
		}
	}
	return done, nil
}

// restSome lets the candidates of a round rest that this process cannot fire now. It returns the
// others, and how many rest.
func (r *Schedules) restSome(ctx context.Context, round []*candidate) (others []*candidate, rested int, err error) {
	for _, c := range round {
		if c.rest == nil {
			others = append(others, c)
		} else if err := r.rest(ctx, c, c.rest); err != nil {
			return nil, rested, err
		} else {
			rested++
		}
	}
	return others, rested, nil
}

// lockCandidates locks the schedules of candidates. It returns those that no other call has
// changed or locked, and the unfinished tasks of schedules.
func lockCandidates(ctx context.Context, tx store.Tx, round []*candidate, now int64) (held []*candidate, open map[string][]openTask,
	err error) {
	ids, of := make([]string, len(round)), map[string]*candidate{}
	for i, c := range round {
		ids[i], of[c.row.ID] = c.row.ID, c
	}
	rows, err := lockDue(ctx, tx, ids, now)
	if err != nil {
		return nil, nil, err
	}
	ids = ids[:0]
	for i := range rows {
		c := of[rows[i].ID]
		if rows[i].Version != c.row.Version {
			continue
		}
		held = append(held, c)
		if c.def.Overlap != pawl.OverlapAllow {
			ids = append(ids, c.row.ID)
		}
	}
	if len(ids) > 0 {
		open, err = openTasks(ctx, tx, ids)
	}
	return held, open, err
}

// fireAlone fires a candidate in a transaction of its own, in which verbs create and cancel
// tasks. ok says that it has changed the schedule, or that the schedule rests because it failed
// for another reason than its task.
func (r *Schedules) fireAlone(ctx context.Context, c *candidate) (ok bool, err error) {
	ctx = pawl.As(ctx, pawl.Caller{Namespace: c.row.Namespace, ActorType: pawl.ActorSystem, ActorID: scheduleActor})
	fire := func(ctx context.Context, k *kernel.Kernel) error {
		s, err := k.Together(ctx, nil, func(ctx context.Context, k *kernel.Kernel) (err error) {
			ok, err = fireIn(ctx, k, c)
			return err
		})
		return k.Finish(ctx, s, err)
	}
	if err = commit.Shield(ctx, r.k, fire); errors.Is(err, errReplacesNothing) {
		err = commit.Shield(ctx, r.k, fire)
	}
	switch {
	case err == nil || givesUp(ctx, err):
		return ok, err
	case store.OfDatabase(err) && errors.Is(err, pawl.ErrUnavailable): // a lock, or a transaction that lost to others
		r.k.Log.DebugContext(ctx, "a schedule is fired a moment later", "schedule", c.row.Name, "namespace", c.row.Namespace, "error", err)
		r.resting.add(c.row.ID, c.now, scheduleLook/2)
		return true, nil
	}
	return true, r.rest(ctx, c, err)
}

// errReplacesNothing undoes the cancel of tasks whose replacement was refused. The candidate has the refusal.
var errReplacesNothing = errors.New("the task that was to replace another was refused")

// fireIn is fireAlone inside its transaction.
func fireIn(ctx context.Context, k *kernel.Kernel, c *candidate) (ok bool, err error) {
	var at int64
	var open []string
	err = k.Write(ctx, func(ctx context.Context, w *kernel.Write) (err error) {
		if at, err = w.Now(ctx); err != nil {
			return err
		}
		held, tasks, err := lockCandidates(ctx, w.Tx, []*candidate{c}, at)
		ok = len(held) == 1
		for _, t := range tasks[c.row.ID] {
			if !t.found || !c.replaces() { // what the schedule did not make is not replaced
				open = append(open, t.id)
			}
		}
		return err
	})
	if err != nil || !ok {
		return false, err
	}
	replaced := len(open) > 0 && c.replaces()
	if replaced {
		if err := cancelOpen(ctx, k, c, open); err != nil {
			return false, err
		}
		open = nil
	}
	f := c.fire(len(open) > 0, at)
	f.rows[0].LastTaskID = c.row.LastTaskID
	for _, list := range [][]firingRow{f.firings, f.queued} {
		for i := range list {
			if list[i].TaskID == "" {
				continue
			}
			if err := createOf(ctx, k, &c.row, &c.def, &list[i]); givesUp(ctx, err) || errors.Is(err, pawl.ErrUnavailable) {
				return false, err
			} else if err != nil {
				failure := failureText(rules.Under("/task", err))
				if replaced && list[i].Tick == c.attempts[0].tick {
					c.attempts[0].refuse = failure
					return false, errReplacesNothing
				}
				list[i].Fail(failure)
			}
		}
	}
	f.note(at)
	return true, k.Write(ctx, func(ctx context.Context, w *kernel.Write) error { return f.store(ctx, w.Tx, at) })
}

// cancelOpen cancels the tasks that a new one replaces. A task that has ended meanwhile needs
// no cancel.
func cancelOpen(ctx context.Context, k *kernel.Kernel, c *candidate, open []string) error {
	var failed error
	tasks := k.Tasks(kernel.Origin{})
	for _, id := range open {
		rs, err := tasks.CancelTasks(ctx, []pawl.TaskCall{{TaskID: id, Reason: "replaced by the next tick of the schedule " + c.row.Name}})
		if err == nil {
			err = rs[0].Err
		}
		if code := pawl.CodeOf(err); failed == nil && code != pawl.CodeConflict && code != pawl.CodeNotFound {
			failed = err
		}
	}
	return failed
}

// rest lets a schedule rest in this process, and notes at it why it could not be fired.
func (r *Schedules) rest(ctx context.Context, c *candidate, cause error) error {
	r.k.Log.ErrorContext(ctx, "a schedule could not be fired; retrying", "schedule", c.row.Name, "namespace", c.row.Namespace, "error", cause)
	r.resting.add(c.row.ID, c.now, scheduleRetry)
	failure := failureText(cause)
	if c.row.Error == failure {
		return nil
	}
	return r.k.Write(ctx, func(ctx context.Context, w *kernel.Write) error {
		now, err := w.Now(ctx)
		if err != nil {
			return err
		}
		rows, err := lockDue(ctx, w.Tx, []string{c.row.ID}, now)
		if err != nil || len(rows) == 0 || rows[0].Version != c.row.Version {
			return err
		}
		rows[0].Error, rows[0].ErrorAt = failure, &now
		return write(ctx, w.Tx, rows, now)
	})
}

// givesUp reports whether an error is not that of one schedule: the database as a whole cannot
// serve, or ctx has ended.
func givesUp(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || store.IsDown(err))
}
