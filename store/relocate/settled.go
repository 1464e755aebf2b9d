package relocate

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/pawl-work/pawl/store"
)

// Settled returns a database whose views have no rows of a namespace that moves in, or out: not all of them are there.
func Settled(db store.DB) store.DB { return settled{db} }

type settled struct{ store.DB }

// partly is the condition by which a database may have some rows of the namespace of a move, and others not.
const partly = "r.namespace <> '' AND (r.side = 'target' AND r.step <> 'done' OR r.side = 'source' AND r.step = 'flipped')"

func (r Relocation) partly() bool {
	return r.Namespace != "" && (r.Side == Target && r.Step != done || r.Side == Source && r.Step == Flipped)
}

// View implements store.DB.
func (s settled) View(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return s.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		list, err := List(ctx, tx)
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(r Relocation) bool { return !r.partly() })
		if len(list) > 0 {
			tx = settledTx{tx, list}
		}
		return fn(ctx, tx)
	})
}

// settledTx is a transaction without the rows of the namespaces of some moves.
type settledTx struct {
	store.Tx
	moves []Relocation
}

// Hides reports whether it has no rows of a namespace.
func (t settledTx) Hides(namespace string) bool {
	return slices.ContainsFunc(t.moves, func(r Relocation) bool { return r.Namespace == namespace })
}

// Unwrap returns the transaction in which it reads.
func (t settledTx) Unwrap() store.Tx { return t.Tx }

// Query implements store.Tx.
func (t settledTx) Query(ctx context.Context, query string, args ...any) (store.Rows, error) {
	return t.Tx.Query(ctx, withoutPartly(query), args...)
}

// read is a table or view that a statement reads, and its name there.
var read = regexp.MustCompile(`\b(FROM|JOIN) pawl\.(\w+)( (?:AS )?([a-z]\w*))?`)

// views are the views whose rows have a namespace.
var views = []string{"all_items", "item_rows", "task_rows", "event_rows"}

// withoutPartly makes a statement read tables without the rows of such namespaces.
func withoutPartly(query string) string {
	return read.ReplaceAllStringFunc(query, func(found string) string {
		m := read.FindStringSubmatch(found)
		of, as := "namespace", m[4]
		if !slices.Contains(views, m[2]) {
			i := slices.IndexFunc(tables, func(t table) bool { return t.name == m[2] })
			if i < 0 || tables[i].of == "" {
				return found
			}
			of = tables[i].of
		}
		if as == "" {
			as = m[2]
		}
		return fmt.Sprintf("%s (SELECT x.* FROM pawl.%s x WHERE NOT EXISTS (SELECT 1 FROM pawl.relocations r WHERE %s AND %s)) AS %s",
			m[1], m[2], partly, belongs(of, "x", "r.namespace"), as)
	})
}
