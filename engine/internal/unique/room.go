// Package unique is the room of unique keys: which task of a type has a key, from its creation until it has ended and its
// window is over. Debounced tasks have keys too.
package unique

import (
	"context"
	"embed"

	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

//go:embed unique.sql
var sqlFile embed.FS

var texts = store.Texts(sqlFile, "unique.sql")

// Declared is the declaration of the room. A key is of a type; it stays when its task is archived, until its window is over,
// and is taken anew by a fork or a clone that asks for one.
func Declared() kernel.Room {
	return kernel.Room{Name: "unique", Tables: []kernel.Table{{Name: "uniques", Key: "type", Plain: []string{"namespace", "type", "key"},
		Changes: "when another task takes the key; no event tells of it"}},
		Steps: []store.Step{{Name: "uniques", Run: new(walk).release}}}
}

// batches bounds how many batches of keys one pass looks at. The next pass goes on where it ended.
const batches = 20

// walk is where the passes of a process are.
type walk struct{ last key }

// release removes the keys of tasks that have ended or are gone, if their windows are over.
func (w *walk) release(ctx context.Context, p store.Sweeping) error {
	for range batches {
		var over [][]any
		last, n := w.last, 0
		err := p.View(ctx, func(ctx context.Context, tx store.Tx) error {
			now, err := tx.Now(ctx)
			if err != nil {
				return err
			}
			over, last, n = nil, w.last, 0
			return store.EachRow(ctx, tx, func(rows store.Rows) error {
				var h holding
				var ended int
				err := rows.Scan(&h.namespace, &h.typ, &h.text, (*store.TaskID)(&h.taskID), &h.until, &ended)
				if last, n = h.key, n+1; ended == 1 {
					over = append(over, h.args())
				}
				return err
			}, texts["keys after"], last.namespace, last.typ, last.text, now, p.Limit)
		})
		if err == nil && len(over) > 0 { // except for those that other tasks have taken since
			err = p.Do(ctx, func(ctx context.Context, tx store.Tx) error { return tx.ExecEach(ctx, texts["release key"], over) })
		}
		if err != nil {
			return err
		}
		if w.last = last; n < p.Limit {
			w.last = key{} // from the start in the next pass
			return nil
		}
	}
	return nil
}
