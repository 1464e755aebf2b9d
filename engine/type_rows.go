package engine

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// listTypes lists a namespace's types by name, newest version first.
func listTypes(ctx context.Context, tx store.Tx, namespace string, q pawl.TypeFilter) (pawl.List[pawl.Type], error) {
	return store.Pages(q.Page, sizeOfType, typeCursor, func(p pawl.Page) (pawl.List[pawl.Type], error) {
		q.Page = p
		return pageOfTypes(ctx, tx, namespace, q)
	})
}

func typeCursor(t pawl.Type) string { return fmt.Sprintf("%d.%s", t.Version, t.Name) }

// sizeOfType returns the approximate size of a definition in bytes.
func sizeOfType(t *pawl.Type) int {
	n := len(t.PayloadSchema) + len(t.InputSchema) + len(t.ResultSchema) + len(t.Approval.When) + len(t.Description)
	for i := range t.Parts {
		n += len(t.Parts[i].Schema)
	}
	return n
}

func pageOfTypes(ctx context.Context, tx store.Tx, namespace string, q pawl.TypeFilter) (pawl.List[pawl.Type], error) {
	var w store.Where
	w.And("t.namespace = ?", namespace)
	if len(q.Names) > 0 {
		w.And("t.name @among(?)", store.List(q.Names))
	}
	if !q.Removed {
		w.And("t.removed_at IS NULL")
	}
	if !q.Versions {
		w.And("t.version = (SELECT MAX(x.version) FROM pawl.types x WHERE x.namespace = t.namespace AND x.name = t.name)")
	}
	if q.Cursor != "" {
		at, name, _ := strings.Cut(q.Cursor, ".")
		n, err := strconv.Atoi(at)
		if err != nil {
			return pawl.List[pawl.Type]{}, store.NotACursor()
		}
		w.And("(t.name, -t.version) > (?, ?)", name, -n)
	}
	rows, err := tx.Query(ctx, w.Text(typeSQL["types"], "t.name, t.version DESC", q.Limit+1), w.Args...)
	if err != nil {
		return pawl.List[pawl.Type]{}, err
	}
	defer rows.Close()
	var out []pawl.Type
	for rows.Next() {
		var name string
		var r store.TypeRow
		if err := rows.Scan(&name, &r.Version, &r.Definition, &r.CreatedAt, &r.RemovedAt); err != nil {
			return pawl.List[pawl.Type]{}, err
		}
		t, err := r.Type(name)
		if err != nil {
			return pawl.List[pawl.Type]{}, err
		}
		out = append(out, t)
	}
	return store.Paged(out, q.Limit, typeCursor), rows.Err()
}
