package schedules

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/shellwords"
	"github.com/pawl-work/pawl/store"
)

// failing lists the schedules that made no task at their last time.
func failing(ctx context.Context, tx store.Tx, _ int64) ([]store.Warning, error) {
	args := []any{store.WarnedTypes}
	return store.All(ctx, tx, texts["failing schedules"], args, func(rows store.Rows, w *store.Warning) error {
		var namespace, name string
		var failure store.Text
		err := rows.Scan(&namespace, &name, &failure)
		*w = store.Warning{Code: "schedule_error", Command: shellwords.Line(namespace, "schedule get", name),
			Detail: fmt.Sprintf("schedule %s of namespace %s made no task at its last time: %s", name, namespace, failure)}
		return err
	})
}

// late lists the schedules that have been due for long.
func late(ctx context.Context, tx store.Tx, now int64) ([]store.Warning, error) {
	args := []any{now - 10*pawl.ScheduleGrace.Microseconds(), store.WarnedTypes}
	return store.All(ctx, tx, texts["late schedules"], args, func(rows store.Rows, w *store.Warning) error {
		var namespace, name string
		var at int64
		err := rows.Scan(&namespace, &name, &at)
		*w = store.Warning{Code: "schedule_late", Command: "pawl serve",
			Detail: fmt.Sprintf("schedule %s of %s has been due since %s: run a server, or read in its log why it does not fire",
				name, namespace, store.Stamp(at).Format(time.RFC3339))}
		return err
	})
}
