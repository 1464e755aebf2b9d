package sweep

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/pawl-work/pawl/store"
)

// preview gathers what retention would remove, and how far it has looked.
type preview struct {
	at    map[string]store.Cursor
	tasks map[string]bool
}

func (v *preview) note(cursor string, tasks []string, page []store.Entry) {
	for _, id := range tasks {
		v.tasks[id] = true
	}
	if len(page) > 0 {
		v.at[cursor] = store.Cursor{Position: page[len(page)-1].ID}
	}
}

// cursor is how far the record was read for something.
func (p *pass) cursor(ctx context.Context, tx store.Tx, name string) (store.Cursor, error) {
	if p.preview != nil {
		if at, looked := p.preview.at[name]; looked {
			return at, nil
		}
	}
	return store.ReadCursor(ctx, tx, name)
}

// Preview says which tasks, of all namespaces, a pass would archive and remove
// now, and how many idempotency keys. It changes nothing.
func (s *Sweeper) Preview(ctx context.Context) (tasks []string, keys int64, err error) {
	p := &pass{Sweeper: s, preview: &preview{map[string]store.Cursor{}, map[string]bool{}}}
	if err := p.retain(ctx); err != nil {
		return nil, 0, err
	}
	if p.stats.Errors > 0 {
		return nil, 0, errors.New("the tasks that are past their age could not be read; the log says why")
	}
	err = s.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		old := int64(0) // for ever
		if s.Options.RetainKeys > 0 {
			old = ago(now, s.Options.RetainKeys)
		}
		keys, err = store.CountOldKeys(ctx, tx, now, old)
		return err
	})
	return slices.Sorted(maps.Keys(p.preview.tasks)), keys, err
}
