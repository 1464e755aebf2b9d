package taskwait

import (
	"context"
	"embed"

	"github.com/pawl-work/pawl/store"
)

//go:embed marks.sql
var sqlFiles embed.FS

var texts = store.Texts(sqlFiles, "marks.sql")

// taskMark differs after a change of its task: its state, its version, or the sum of the
// numbers of its newest events. The number of the newest one is not enough, because on
// PostgreSQL an event may be committed after one with a higher number.
type taskMark struct {
	State   string
	Version int
	Events  int64
}

const markEvents = 20

// taskMarks returns the marks of the tasks that exist.
func taskMarks(ctx context.Context, tx store.Tx, taskIDs []string) (map[string]taskMark, error) {
	out := make(map[string]taskMark, len(taskIDs))
	err := store.EachRow(ctx, tx, func(rows store.Rows) error {
		var id string
		var m taskMark
		if err := rows.Scan((*store.TaskID)(&id), &m.State, &m.Version, &m.Events); err != nil {
			return err
		}
		out[id] = m
		return nil
	}, texts["task marks"], store.TaskList(taskIDs), markEvents)
	return out, err
}
