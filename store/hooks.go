package store

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-work/pawl/internal/shellwords"
)

var hookSQL = Texts(sqlFiles, "hooks.sql")

// NoteHooks notes the hooks, Check and AutoApprove, that a process has of a type, and those that no process has any more. It
// returns all that are noted then, each as the type, a space and the hook.
func NoteHooks(ctx context.Context, tx Tx, name string, has, gone []string) ([]string, error) {
	for query, hooks := range map[string][]string{"note hook": has, "forget hook": gone} {
		for _, hook := range hooks {
			if _, err := tx.Exec(ctx, hookSQL[query], name, hook); err != nil {
				return nil, err
			}
		}
	}
	return All(ctx, tx, hookSQL["noted hooks"], nil, func(rows Rows, hook *string) error { return rows.Scan(hook) })
}

// hookLate is longer than a process with a hook leaves a task alone.
const hookLate = 10 * time.Minute

// noHook warns of types whose tasks wait for their checks, which a process with the hook would have tried.
func noHook(ctx context.Context, tx Tx, now int64) ([]Warning, error) {
	return All(ctx, tx, hookSQL["unchecked"], []any{now - hookLate.Microseconds(), WarnedTypes}, func(rows Rows, w *Warning) error {
		var ns, name string
		var n, at int64
		err := rows.Scan(&ns, &name, &n, &at)
		*w = warning("no_hook", fmt.Sprintf("%d tasks of type %s of namespace %s wait for their checks, one for %s: no live process with the "+
			"hook Check or AutoApprove of the type runs sweeps; start the application, or take the hook back (docs/types.md)",
			n, name, ns, ago(now, at)),
			shellwords.Line(ns, "task list", "--type", name, "--state", "submitted"))
		return err
	})
}
