package schedules

import (
	"context"
	"embed"
	"encoding/json"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

//go:embed schedule.sql
var sqlFile embed.FS

var texts = store.Texts(sqlFile, "schedule.sql")

// Row is a row of schedules. Definition is the JSON of a pawl.NewSchedule.
type Row struct {
	ID, Namespace, Name string
	Definition          string
	Typed               bool // its type was registered when it was created
	Version             int64
	NextTick, NextAt    *int64
	Queued              int
	LastTick            *int64
	LastTaskID          string
	Error               store.Text // a pawl.Failure
	ErrorAt, PausedAt   *int64
	CreatedAt           int64
	UpdatedAt           int64
}

// Defined returns the definition.
func (r *Row) Defined() (d pawl.NewSchedule, err error) {
	err = json.Unmarshal([]byte(r.Definition), &d)
	return d, err
}

// Schedule returns the schedule, without its next ticks.
func (r *Row) Schedule() (pawl.Schedule, error) {
	d, err := r.Defined()
	return pawl.Schedule{NewSchedule: d, Next: nil, LastTick: store.StampOf(r.LastTick), LastTaskID: r.lastTask(), Queued: r.Queued,
		Error: store.FailureOf(r.Error), ErrorAt: store.StampOf(r.ErrorAt), PausedAt: store.StampOf(r.PausedAt),
		CreatedAt: store.Stamp(r.CreatedAt), UpdatedAt: store.Stamp(r.UpdatedAt)}, err
}

func (r *Row) lastTask() *string {
	if r.LastTaskID == "" {
		return nil
	}
	return &r.LastTaskID
}

func read(ctx context.Context, tx store.Tx, where string, args ...any) ([]Row, error) {
	return store.All(ctx, tx, texts["schedules"]+"\n"+where, args, func(rows store.Rows, r *Row) error {
		var typed int
		err := rows.Scan(&r.ID, &r.Namespace, &r.Name, &r.Definition, &typed, &r.Version, &r.NextTick, &r.NextAt, &r.Queued, &r.LastTick,
			(*store.TaskID)(&r.LastTaskID), &r.Error, &r.ErrorAt, &r.PausedAt, &r.CreatedAt, &r.UpdatedAt)
		r.Typed = typed == 1
		return err
	})
}

// get reads a schedule. One that does not exist is not_found.
func get(ctx context.Context, tx store.Tx, namespace, name string) (Row, error) {
	return one(ctx, tx, namespace, name, "")
}

// lock is get, and locks the row.
func lock(ctx context.Context, tx store.Tx, namespace, name string) (Row, error) {
	return one(ctx, tx, namespace, name, "\n@lock")
}

func one(ctx context.Context, tx store.Tx, namespace, name, lock string) (Row, error) {
	rows, err := read(ctx, tx, "WHERE s.namespace = $1 AND s.name = $2"+lock, namespace, name)
	if err == nil && len(rows) == 0 {
		err = pawl.NotFound("schedule", name)
	}
	if err != nil {
		return Row{}, err
	}
	return rows[0], nil
}

// list reads the schedules of a namespace, by name.
func list(ctx context.Context, tx store.Tx, namespace string, page pawl.Page) (pawl.List[Row], error) {
	name := func(r Row) string { return r.Name }
	size := func(r *Row) int { return len(r.Definition) + len(r.Error) }
	return store.Pages(page, size, name, func(p pawl.Page) (pawl.List[Row], error) {
		rows, err := read(ctx, tx, "WHERE s.namespace = $1 AND s.name > $2\nORDER BY s.name\nLIMIT $3", namespace, p.Cursor, p.Limit+1)
		if err != nil {
			return pawl.List[Row]{}, err
		}
		return store.Paged(rows, p.Limit, name), nil
	})
}

// count counts the schedules of a namespace, up to a number.
func count(ctx context.Context, tx store.Tx, namespace string, most int) (n int, err error) {
	_, err = store.Row(ctx, tx, []any{&n}, texts["count schedules"], namespace, most)
	return n, err
}

// insert inserts a schedule. created is false if the namespace has one of the name.
func insert(ctx context.Context, tx store.Tx, r Row) (created bool, err error) {
	n, err := tx.Exec(ctx, texts["create schedule"], r.ID, r.Namespace, r.Name, r.Definition, store.Bit(r.Typed), r.NextTick, r.NextAt,
		r.CreatedAt, r.PausedAt)
	return n == 1, err
}

// write stores what has changed of schedules whose rows are locked, and raises their
// versions.
func write(ctx context.Context, tx store.Tx, rows []Row, now int64) error {
	args := make([][]any, len(rows))
	for i := range rows {
		r := &rows[i]
		args[i] = []any{r.ID, r.NextTick, r.NextAt, r.Queued, r.LastTick, store.TaskID(r.LastTaskID), r.Error, r.ErrorAt, r.PausedAt}
	}
	_, err := tx.Exec(ctx, texts["write schedule"], store.Table(args), now)
	return err
}

// define stores the definition of a schedule whose row is locked.
func define(ctx context.Context, tx store.Tx, r Row) error {
	_, err := tx.Exec(ctx, texts["define schedule"], r.ID, r.Definition, store.Bit(r.Typed))
	return err
}

// remove removes a schedule and its queued ticks. It leaves the record of its firings
// to retention.
func remove(ctx context.Context, tx store.Tx, namespace, name string) error {
	r, err := lock(ctx, tx, namespace, name)
	if err != nil {
		return err
	}
	for _, query := range []string{"drop queued firings", "close firings"} {
		if _, err := tx.Exec(ctx, texts[query], r.ID); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, texts["delete schedule"], namespace, name)
	return err
}

// dueIDs returns the ids of up to limit schedules that are due, earliest first, without
// the resting ones. Their definitions have at most so many bytes together, unless the first has more.
func dueIDs(ctx context.Context, tx store.Tx, now int64, resting []string, limit, bytes int) ([]string, error) {
	rows, err := tx.Query(ctx, texts["due schedules"], now, store.List(resting), limit)
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

// readDue reads those of some schedules that are due, earliest first.
func readDue(ctx context.Context, tx store.Tx, ids []string, now int64) ([]Row, error) {
	return read(ctx, tx, "WHERE s.id @among($1) AND s.next_at <= $2\nORDER BY s.next_at, s.id", store.List(ids), now)
}

// lockDue locks those of some schedules that are due and that no other transaction
// has locked.
func lockDue(ctx context.Context, tx store.Tx, ids []string, now int64) ([]Row, error) {
	return read(ctx, tx, "WHERE s.id @among($1) AND s.next_at <= $2\nORDER BY s.id\n@skip", store.List(ids), now)
}

// lockAll locks up to limit schedules of all namespaces with ids after one.
func lockAll(ctx context.Context, tx store.Tx, after string, limit int) ([]Row, error) {
	return read(ctx, tx, texts["all schedules"], after, limit)
}

// dropQueued removes the queued ticks of a schedule whose row is locked.
func dropQueued(ctx context.Context, tx store.Tx, scheduleID string) error {
	_, err := tx.Exec(ctx, texts["drop queued firings"], scheduleID)
	return err
}
