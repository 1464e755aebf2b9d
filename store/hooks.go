package store

import "context"

var hookSQL = Texts(sqlFiles, "hooks.sql")

// NoteHooks notes that a process has these hooks of a type, Check and AutoApprove in this order; none = no process has
// one any more.
func NoteHooks(ctx context.Context, tx Tx, name string, hooks []string) (err error) {
	if len(hooks) == 0 {
		_, err = tx.Exec(ctx, hookSQL["forget hooks"], name)
	}
	for i := 0; i < len(hooks) && err == nil; i++ {
		_, err = tx.Exec(ctx, hookSQL["note hook"], name, hooks[i])
	}
	return err
}
