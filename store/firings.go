package store

import (
	"context"
	"strconv"

	"github.com/pawl-work/pawl"
)

// FiringRow is a row of firings: what became of a tick.
type FiringRow struct {
	ScheduleID string
	Tick       int64
	Namespace  string
	Outcome    pawl.FiringOutcome
	Manual     bool
	Open       bool // its task may not have ended
	TaskID     string
	Until      *int64
	Error      Text // a pawl.Failure
	FiredAt    int64
}

// AddFirings inserts firings of schedules that are locked.
func AddFirings(ctx context.Context, tx Tx, rows []FiringRow) error {
	args := make([][]any, len(rows))
	for i := range rows {
		r := &rows[i]
		args[i] = []any{r.ScheduleID, r.Tick, r.Namespace, string(r.Outcome), bit(r.Manual), bit(r.Open), TaskID(r.TaskID), r.Until, r.Error,
			r.FiredAt}
	}
	return tx.ExecEach(ctx, scheduleSQL["add firing"], args)
}

// FireQueued stores what became of queued ticks.
func FireQueued(ctx context.Context, tx Tx, rows []FiringRow) error {
	args := make([][]any, len(rows))
	for i := range rows {
		r := &rows[i]
		args[i] = []any{r.ScheduleID, r.Tick, string(r.Outcome), bit(r.Open), TaskID(r.TaskID), r.Error, r.FiredAt}
	}
	return tx.ExecEach(ctx, scheduleSQL["fire queued"], args)
}

// FreeTick returns the first time from a tick on, in steps of a microsecond, at which a
// schedule has no firing and that is no whole second: only rules make those.
func FreeTick(ctx context.Context, tx Tx, scheduleID string, tick int64) (int64, error) {
	for ; ; tick++ {
		if tick%1_000_000 == 0 {
			continue
		}
		var n int
		if taken, err := Row(ctx, tx, []any{&n}, scheduleSQL["firing at"], scheduleID, tick); err != nil || !taken {
			return tick, err
		}
	}
}

// QueuedTicks returns the oldest queued tick of each of some schedules.
func QueuedTicks(ctx context.Context, tx Tx, ids []string) (map[string]int64, error) {
	rows, err := tx.Query(ctx, scheduleSQL["queued firings"], List(ids))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]int64{}
	for rows.Next() {
		var id string
		var tick int64
		if err := rows.Scan(&id, &tick); err != nil {
			return nil, err
		}
		out[id] = tick
	}
	return out, rows.Err()
}

// OpenTasks returns the unfinished tasks of some schedules, which are locked. Firings whose
// task has ended, failed or is removed are closed.
func OpenTasks(ctx context.Context, tx Tx, ids []string) (map[string][]string, error) {
	rows, err := tx.Query(ctx, scheduleSQL["open firings"], List(ids))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string][]string{}
	var closed [][]any
	for rows.Next() {
		var id, task string
		var tick int64
		var state Text
		if err := rows.Scan(&id, &tick, (*TaskID)(&task), &state); err != nil {
			return nil, err
		}
		switch s := pawl.TaskState(state); {
		case s == "" || s.Ended() || s == pawl.TaskFailed || s == pawl.TaskDeadLettered:
			closed = append(closed, []any{id, tick})
		default:
			out[id] = append(out[id], task)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	rows.Close()
	return out, tx.ExecEach(ctx, scheduleSQL["close firing"], closed)
}

// ListFirings lists the firings of a schedule, newest tick first. Manual ones are among them.
func ListFirings(ctx context.Context, tx Tx, namespace string, f pawl.FiringFilter) (pawl.List[pawl.Firing], error) {
	s, err := GetSchedule(ctx, tx, namespace, f.Schedule)
	if err != nil {
		return pawl.List[pawl.Firing]{}, err
	}
	var w where
	w.and("f.schedule_id = ?", s.ID)
	if f.Cursor != "" {
		before, err := strconv.ParseInt(f.Cursor, 10, 64)
		if err != nil {
			return pawl.List[pawl.Firing]{}, notACursor()
		}
		w.and("f.tick < ?", before)
	}
	query := w.text(scheduleSQL["firings"], "f.tick DESC", f.Limit+1)
	rows, err := tx.Query(ctx, query, w.args...)
	if err != nil {
		return pawl.List[pawl.Firing]{}, err
	}
	defer rows.Close()
	var out []pawl.Firing
	for rows.Next() {
		v := pawl.Firing{Schedule: s.Name}
		var tick, fired int64
		var until *int64
		var manual int
		var failure Text
		if err := rows.Scan(&tick, &until, &v.Outcome, &manual, (*TaskID)(&v.TaskID), &failure, &fired); err != nil {
			return pawl.List[pawl.Firing]{}, err
		}
		v.Tick, v.Until, v.Manual, v.Error, v.FiredAt = Stamp(tick), stampOf(until), manual == 1, failureOf(failure), Stamp(fired)
		out = append(out, v)
	}
	return paged(out, f.Limit, func(v pawl.Firing) string { return strconv.FormatInt(v.Tick.UnixMicro(), 10) }), rows.Err()
}

// RemoveFirings removes up to limit firings from before a time. Queued ticks stay, and so do
// those whose task may not have ended, if their schedule has a next tick.
func RemoveFirings(ctx context.Context, tx Tx, before int64, limit int) (int64, error) {
	return tx.Exec(ctx, scheduleSQL["remove old firings"], before, limit)
}

// Fail notes that the task of a firing was refused.
func (r *FiringRow) Fail(failure Text) {
	r.Outcome, r.TaskID, r.Open, r.Error = pawl.FiringFailed, "", false, failure
}
