package store

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/shellwords"
)

var unfinishedSQL = Texts(sqlFiles, "unfinished.sql")

// pendingLate is how long a consequence may be still to come before a warning.
const pendingLate = time.Hour

// pendingConsequences warns of what is still to come and has been for long.
func pendingConsequences(ctx context.Context, tx Tx, now int64) (out []Warning, err error) {
	err = EachRow(ctx, tx, func(rows Rows) error {
		var namespace, task, what string
		err := rows.Scan(&namespace, (*TaskID)(&task), &what)
		out = append(out, warning("consequence_pending", "task "+task+" of namespace "+namespace+": "+what+
			", for more than an hour; run a server, or read in its log why it fails", shellwords.Line(namespace, "task get", task)))
		return err
	}, unfinishedSQL["pending for long"], now-pendingLate.Microseconds(), WarnedTypes)
	return out, err
}

var (
	// ErrChanged means that a task cannot be archived yet: something was written to it meanwhile, or it has consequences that
	// are still to come.
	ErrChanged = errors.New("the task changed while it was archived, or has consequences that are still to come")
	// ErrDirectory means that the directory of archives cannot be written. Unlike a task that cannot be archived, it ends
	// the step.
	ErrDirectory = errors.New("the archive directory cannot be written")
)

var endedTasks = TaskStates(func(s pawl.StateInfo) bool { return s.Terminal })

// StillPending returns those of the tasks that have consequences which are still to come, such as a
// cancel that not all children have got. Retention leaves them until these are done.
func StillPending(ctx context.Context, tx Tx, taskIDs []string) ([]string, error) {
	others, err := NotPlain(ctx, tx, taskIDs) // plain tasks have none
	if err != nil || len(others) == 0 {
		return nil, err
	}
	return TaskIDs(ctx, tx, unfinishedSQL["unfinished"], TaskList(others), List(endedTasks))
}
