package schedules

import (
	"context"
	"strconv"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// firingRow is a row of firings: what became of a tick.
type firingRow struct {
	ScheduleID string
	Tick       int64
	Namespace  string
	Outcome    pawl.FiringOutcome
	Manual     bool
	Open       bool // its task may not have ended
	TaskID     string
	Until      *int64
	Error      store.Text // a pawl.Failure
	FiredAt    int64
}

// addFirings inserts firings of schedules that are locked.
func addFirings(ctx context.Context, tx store.Tx, rows []firingRow) error {
	args := make([][]any, len(rows))
	for i := range rows {
		r := &rows[i]
		args[i] = []any{r.ScheduleID, r.Tick, r.Namespace, string(r.Outcome), store.Bit(r.Manual), store.Bit(r.Open), store.TaskID(r.TaskID),
			r.Until, r.Error, r.FiredAt}
	}
	return tx.ExecEach(ctx, texts["add firing"], args)
}

// fireQueued stores what became of queued ticks.
func fireQueued(ctx context.Context, tx store.Tx, rows []firingRow) error {
	args := make([][]any, len(rows))
	for i := range rows {
		r := &rows[i]
		args[i] = []any{r.ScheduleID, r.Tick, string(r.Outcome), store.Bit(r.Open), store.TaskID(r.TaskID), r.Error, r.FiredAt}
	}
	return tx.ExecEach(ctx, texts["fire queued"], args)
}

// freeTick returns the first time from a tick on, in steps of a microsecond, at which a
// schedule has no firing and that is no whole second: only rules make those.
func freeTick(ctx context.Context, tx store.Tx, scheduleID string, tick int64) (int64, error) {
	for ; ; tick++ {
		if tick%1_000_000 == 0 {
			continue
		}
		var n int
		if taken, err := store.Row(ctx, tx, []any{&n}, texts["firing at"], scheduleID, tick); err != nil || !taken {
			return tick, err
		}
	}
}

// queuedTicks returns the oldest queued tick of each of some schedules.
func queuedTicks(ctx context.Context, tx store.Tx, ids []string) (map[string]int64, error) {
	out := map[string]int64{}
	return out, store.EachRow(ctx, tx, func(rows store.Rows) error {
		var id string
		var tick int64
		err := rows.Scan(&id, &tick)
		out[id] = tick
		return err
	}, texts["queued firings"], store.List(ids))
}

// openTask is an unfinished task that ticks wait for. found says that a tick did not make it.
type openTask struct {
	id    string
	found bool
}

// openTasks returns the unfinished tasks of some schedules, which are locked. Firings whose
// task has ended, failed or is removed are closed.
func openTasks(ctx context.Context, tx store.Tx, ids []string) (map[string][]openTask, error) {
	out := map[string][]openTask{}
	var closed [][]any
	err := store.EachRow(ctx, tx, func(rows store.Rows) error {
		var id, task string
		var tick int64
		var state store.Text
		var outcome pawl.FiringOutcome
		if err := rows.Scan(&id, &tick, (*store.TaskID)(&task), &state, &outcome); err != nil {
			return err
		}
		switch s := pawl.TaskState(state); {
		case s == "" || s.Ended() || s == pawl.TaskFailed || s == pawl.TaskDeadLettered:
			closed = append(closed, []any{id, tick})
		default:
			out[id] = append(out[id], openTask{task, outcome == pawl.FiringDeduplicated})
		}
		return nil
	}, texts["open firings"], store.List(ids))
	if err != nil {
		return nil, err
	}
	return out, tx.ExecEach(ctx, texts["close firing"], closed)
}

// listFirings lists the firings of a schedule, newest tick first. Manual ones are among them.
func listFirings(ctx context.Context, tx store.Tx, namespace string, f pawl.FiringFilter) (pawl.List[pawl.Firing], error) {
	s, err := get(ctx, tx, namespace, f.Schedule)
	if err != nil {
		return pawl.List[pawl.Firing]{}, err
	}
	query, args := texts["firings"], []any{s.ID}
	if f.Cursor != "" {
		before, err := strconv.ParseInt(f.Cursor, 10, 64)
		if err != nil {
			return pawl.List[pawl.Firing]{}, store.NotACursor()
		}
		query, args = texts["firings before"], append(args, before)
	}
	out, err := store.All(ctx, tx, query, append(args, f.Limit+1), func(rows store.Rows, v *pawl.Firing) error {
		v.Schedule = s.Name
		var tick, fired int64
		var until *int64
		var manual int
		var failure store.Text
		if err := rows.Scan(&tick, &until, &v.Outcome, &manual, (*store.TaskID)(&v.TaskID), &failure, &fired); err != nil {
			return err
		}
		v.Tick, v.Until, v.FiredAt = store.Stamp(tick), store.StampOf(until), store.Stamp(fired)
		v.Manual, v.Error = manual == 1, store.FailureOf(failure)
		return nil
	})
	return store.Paged(out, f.Limit, func(v pawl.Firing) string { return strconv.FormatInt(v.Tick.UnixMicro(), 10) }), err
}

// removeFirings removes up to limit firings from before a time. Queued ticks stay, and so do
// those whose task may not have ended, if their schedule has a next tick.
func removeFirings(ctx context.Context, tx store.Tx, before int64, limit int) (int64, error) {
	return tx.Exec(ctx, texts["remove old firings"], before, limit)
}

// Fail notes that the task of a firing was refused.
func (r *firingRow) Fail(failure store.Text) {
	r.Outcome, r.TaskID, r.Open, r.Error = pawl.FiringFailed, "", false, failure
}
