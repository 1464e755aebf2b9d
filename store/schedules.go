package store

import (
	"context"
	"encoding/json"

	"github.com/pawl-work/pawl"
)

var scheduleSQL = Texts(sqlFiles, "schedule.sql")

// ScheduleRow is a row of schedules. Definition is the JSON of a pawl.NewSchedule.
type ScheduleRow struct {
	ID, Namespace, Name string
	Definition          string
	Typed               bool // its type was registered when it was created
	Version             int64
	NextTick, NextAt    *int64
	Queued              int
	LastTick            *int64
	LastTaskID          string
	Error               Text // a pawl.Failure
	ErrorAt, PausedAt   *int64
	CreatedAt           int64
	UpdatedAt           int64
}

// Defined returns the definition.
func (r *ScheduleRow) Defined() (d pawl.NewSchedule, err error) {
	err = json.Unmarshal([]byte(r.Definition), &d)
	return d, err
}

// Schedule returns the schedule, without its next ticks.
func (r *ScheduleRow) Schedule() (pawl.Schedule, error) {
	d, err := r.Defined()
	return pawl.Schedule{NewSchedule: d, Next: nil, LastTick: stampOf(r.LastTick), LastTaskID: r.lastTask(), Queued: r.Queued,
		Error: failureOf(r.Error), ErrorAt: stampOf(r.ErrorAt), PausedAt: stampOf(r.PausedAt), CreatedAt: Stamp(r.CreatedAt),
		UpdatedAt: Stamp(r.UpdatedAt)}, err
}

func (r *ScheduleRow) lastTask() *string {
	if r.LastTaskID == "" {
		return nil
	}
	return &r.LastTaskID
}

func readSchedules(ctx context.Context, tx Tx, where string, args ...any) ([]ScheduleRow, error) {
	rows, err := tx.Query(ctx, scheduleSQL["schedules"]+"\n"+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []ScheduleRow
	for rows.Next() {
		var r ScheduleRow
		var typed int
		if err := rows.Scan(&r.ID, &r.Namespace, &r.Name, &r.Definition, &typed, &r.Version, &r.NextTick, &r.NextAt, &r.Queued, &r.LastTick,
			(*TaskID)(&r.LastTaskID), &r.Error, &r.ErrorAt, &r.PausedAt, &r.CreatedAt, &r.UpdatedAt); err != nil {
			return nil, err
		}
		r.Typed = typed == 1
		out = append(out, r)
	}
	return out, rows.Err()
}

// GetSchedule reads a schedule. One that does not exist is not_found.
func GetSchedule(ctx context.Context, tx Tx, namespace, name string) (ScheduleRow, error) {
	return oneSchedule(ctx, tx, namespace, name, "")
}

// LockSchedule is GetSchedule, and locks the row.
func LockSchedule(ctx context.Context, tx Tx, namespace, name string) (ScheduleRow, error) {
	return oneSchedule(ctx, tx, namespace, name, "\n@lock")
}

func oneSchedule(ctx context.Context, tx Tx, namespace, name, lock string) (ScheduleRow, error) {
	rows, err := readSchedules(ctx, tx, "WHERE s.namespace = $1 AND s.name = $2"+lock, namespace, name)
	if err == nil && len(rows) == 0 {
		err = pawl.NotFound("schedule", name)
	}
	if err != nil {
		return ScheduleRow{}, err
	}
	return rows[0], nil
}

// ListSchedules reads the schedules of a namespace, by name.
func ListSchedules(ctx context.Context, tx Tx, namespace string, page pawl.Page) (pawl.List[ScheduleRow], error) {
	name := func(r ScheduleRow) string { return r.Name }
	size := func(r *ScheduleRow) int { return len(r.Definition) + len(r.Error) }
	return Pages(page, size, name, func(p pawl.Page) (pawl.List[ScheduleRow], error) {
		rows, err := readSchedules(ctx, tx, "WHERE s.namespace = $1 AND s.name > $2\nORDER BY s.name\nLIMIT $3", namespace, p.Cursor, p.Limit+1)
		if err != nil {
			return pawl.List[ScheduleRow]{}, err
		}
		return paged(rows, p.Limit, name), nil
	})
}

// CountSchedules counts the schedules of a namespace, up to a number.
func CountSchedules(ctx context.Context, tx Tx, namespace string, most int) (n int, err error) {
	_, err = Row(ctx, tx, []any{&n}, scheduleSQL["count schedules"], namespace, most)
	return n, err
}

// CreateSchedule inserts a schedule. created is false if the namespace has one of the name.
func CreateSchedule(ctx context.Context, tx Tx, r ScheduleRow) (created bool, err error) {
	n, err := tx.Exec(ctx, scheduleSQL["create schedule"], r.ID, r.Namespace, r.Name, r.Definition, bit(r.Typed), r.NextTick, r.NextAt,
		r.CreatedAt, r.PausedAt)
	return n == 1, err
}

// WriteSchedules stores what has changed of schedules whose rows are locked, and raises their
// versions.
func WriteSchedules(ctx context.Context, tx Tx, rows []ScheduleRow, now int64) error {
	args := make([][]any, len(rows))
	for i := range rows {
		r := &rows[i]
		args[i] = []any{r.ID, r.NextTick, r.NextAt, r.Queued, r.LastTick, TaskID(r.LastTaskID), r.Error, r.ErrorAt, r.PausedAt}
	}
	_, err := tx.Exec(ctx, scheduleSQL["write schedule"], Table(args), now)
	return err
}

// DefineSchedule stores the definition of a schedule whose row is locked.
func DefineSchedule(ctx context.Context, tx Tx, r ScheduleRow) error {
	_, err := tx.Exec(ctx, scheduleSQL["define schedule"], r.ID, r.Definition, bit(r.Typed))
	return err
}

// DeleteSchedule removes a schedule and its queued ticks. It leaves the record of its firings
// to retention.
func DeleteSchedule(ctx context.Context, tx Tx, namespace, name string) error {
	r, err := LockSchedule(ctx, tx, namespace, name)
	if err != nil {
		return err
	}
	for _, query := range []string{"drop queued firings", "close firings"} {
		if _, err := tx.Exec(ctx, scheduleSQL[query], r.ID); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, scheduleSQL["delete schedule"], namespace, name)
	return err
}

// DueSchedules returns the ids of up to limit schedules that are due, earliest first, without
// the resting ones. Their definitions have at most so many bytes together, unless the first has more.
func DueSchedules(ctx context.Context, tx Tx, now int64, resting []string, limit, bytes int) ([]string, error) {
	rows, err := tx.Query(ctx, scheduleSQL["due schedules"], now, List(resting), limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var id string
		var size int
		if err := rows.Scan(&id, &size); err != nil {
			return nil, err
		}
		if bytes -= size; bytes < 0 && len(out) > 0 {
			break
		}
		out = append(out, id)
	}
	return out, rows.Err()
}

// ReadDueSchedules reads those of some schedules that are due, earliest first.
func ReadDueSchedules(ctx context.Context, tx Tx, ids []string, now int64) ([]ScheduleRow, error) {
	return readSchedules(ctx, tx, "WHERE s.id @among($1) AND s.next_at <= $2\nORDER BY s.next_at, s.id", List(ids), now)
}

// LockDueSchedules locks those of some schedules that are due and that no other transaction
// has locked.
func LockDueSchedules(ctx context.Context, tx Tx, ids []string, now int64) ([]ScheduleRow, error) {
	return readSchedules(ctx, tx, "WHERE s.id @among($1) AND s.next_at <= $2\nORDER BY s.id\n@skip", List(ids), now)
}
