package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// PutTypes registers types, each in its own transaction; see pawl.TypeKeeper.
func (e *Engine) PutTypes(ctx context.Context, types []pawl.Type) ([]pawl.Result[pawl.TypeRef], error) {
	if err := rules.CheckBatch("put type", len(types)); err != nil {
		return nil, err
	}
	out := make([]pawl.Result[pawl.TypeRef], len(types))
	for i := range types {
		out[i].Value, out[i].Err = e.putType(ctx, pawl.CallerOf(ctx).Namespace, types[i])
	}
	return out, nil
}

func (e *Engine) putType(ctx context.Context, ns string, t pawl.Type) (pawl.TypeRef, error) {
	if err := checkType(&t, &e.schemas); err != nil {
		return pawl.TypeRef{}, err
	}
	t.Version, t.CreatedAt, t.RemovedAt, t.Acceptance = 0, nil, nil, t.NeedsAcceptance()
	text, err := json.Marshal(t)
	if err != nil {
		return pawl.TypeRef{}, pawl.Invalid("", "cannot be written as JSON: %v", err)
	}
	hash, err := pawl.HashOf(json.RawMessage(text))
	if err != nil {
		return pawl.TypeRef{}, err
	}
	for try := 0; ; try++ {
		seen, err := view(ctx, e, func(ctx context.Context, tx store.Tx, _ string) (store.TypeRow, error) {
			return store.GetType(ctx, tx, ns, t.Name, 0)
		})
		if err != nil {
			return pawl.TypeRef{}, err
		}
		same := false
		if seen.Version > 0 && seen.RemovedAt == nil {
			before, err := pawl.HashOf(json.RawMessage(seen.Definition))
			if same = before == hash; err != nil {
				return pawl.TypeRef{}, err
			}
		}
		ref := pawl.TypeRef{Name: t.Name}
		err = e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
			now, err := tx.Now(ctx)
			if err != nil {
				return err
			}
			before, err := store.GetType(ctx, tx, ns, t.Name, 0)
			if err != nil {
				return err
			}
			if before.Version != seen.Version || (before.RemovedAt == nil) != (seen.RemovedAt == nil) {
				return errTypeChanged
			}
			if ref.Version, ref.Unchanged = before.Version, same; same {
				return nil
			}
			ref.Version++
			return putType(ctx, tx, ns, t.Name, ref.Version, string(text), now)
		})
		if pawl.CodeOf(err) == pawl.CodeConflict && try < 100 {
			continue // another call stored this version between the read and the insert
		}
		e.after(e.types.forget)
		return ref, err
	}
}

// errTypeChanged says that another call changed the type since it was compared.
var errTypeChanged = &pawl.Error{
	Code:    pawl.CodeConflict,
	Op:      "put type",
	Allowed: []string{},
	Message: "the type is being changed; try again",
}

// register registers the types of Options.
func (e *Engine) register(ctx context.Context, types []pawl.Type) error {
	for i := range types {
		if _, err := e.putType(ctx, pawl.DefaultNamespace, types[i]); pawl.CodeOf(err) == pawl.CodeMoved {
			return nil // a server starts, and says so
		} else if err != nil {
			return fmt.Errorf("type %s: %w", types[i].Name, err)
		}
	}
	return nil
}

// RemoveTypes removes types from the registry; see pawl.TypeKeeper.
func (e *Engine) RemoveTypes(ctx context.Context, names []string) ([]pawl.Result[string], error) {
	if err := rules.CheckBatch("remove type", len(names)); err != nil {
		return nil, err
	}
	out := make([]pawl.Result[string], len(names))
	for i, name := range names {
		out[i].Value = name
		out[i].Err = e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
			now, err := tx.Now(ctx)
			if err != nil {
				return err
			}
			live, err := removeType(ctx, tx, pawl.CallerOf(ctx).Namespace, name, now)
			if err == nil && !live {
				return pawl.NotFound("type", name)
			}
			return err
		})
	}
	e.after(e.types.forget)
	return out, nil
}

// GetType reads a type; see pawl.TypeReader.
func (e *Engine) GetType(ctx context.Context, name string, version int) (pawl.Type, error) {
	if version > math.MaxInt32 { // more than the column holds
		return pawl.Type{}, pawl.NotFound("type", name)
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.Type, error) {
		r, err := store.GetType(ctx, tx, ns, name, version)
		if err != nil {
			return pawl.Type{}, err
		}
		if r.Version == 0 || version == 0 && r.RemovedAt != nil {
			return pawl.Type{}, pawl.NotFound("type", name)
		}
		return r.Type(name)
	})
}

// ListTypes lists types; see pawl.TypeReader.
func (e *Engine) ListTypes(ctx context.Context, q pawl.TypeFilter) (pawl.List[pawl.Type], error) {
	if err := rules.CheckPage(&q.Page); err != nil {
		return pawl.List[pawl.Type]{}, err
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.List[pawl.Type], error) {
		return listTypes(ctx, tx, ns, q)
	})
}

// putType writes a new version. A version that exists already is a conflict.
func putType(ctx context.Context, tx store.Tx, namespace, name string, version int, definition string, now int64) error {
	_, err := tx.Exec(ctx, typeSQL["put type"], namespace, name, version, definition, now)
	return err
}

// removeType marks all versions of a type as removed. It returns false when no version was
// live.
func removeType(ctx context.Context, tx store.Tx, namespace, name string, now int64) (bool, error) {
	n, err := tx.Exec(ctx, typeSQL["remove type"], namespace, name, now)
	return n > 0, err
}

// registered are the newest versions of types: of those that are live, and of those that are removed.
type registered struct {
	Live, Removed map[store.TypeName]int
	Leases        map[store.TypeName]bool // their versions may have different leases
}

// registry reads the newest version of each type of all namespaces.
func registry(ctx context.Context, tx store.Tx) (registered, error) {
	out := registered{map[store.TypeName]int{}, map[store.TypeName]int{}, map[store.TypeName]bool{}}
	err := store.EachRow(ctx, tx, func(rows store.Rows) error {
		var n store.TypeName
		var version int
		var live, leases int
		if err := rows.Scan(&n.Namespace, &n.Name, &version, &live, &leases); err != nil {
			return err
		}
		if leases == 1 {
			out.Leases[n] = true
		}
		if live == 1 {
			out.Live[n] = version
		} else {
			out.Removed[n] = version
		}
		return nil
	}, typeSQL["registry"])
	return out, err
}

// taskTypeFields is what a type sets on a task in addition to a plain create.
type taskTypeFields struct {
	Parts    store.Text // the parts that its items need, as a list of keys
	Planning bool       // a worker plans its items
	Ignores  bool       // failed items do not count when it settles
}

// setTaskType writes what the type sets on a task of many items. Ignores has no meaning
// for a task of one item.
func setTaskType(ctx context.Context, tx store.Tx, taskID string, d taskTypeFields) (err error) {
	if d.Parts != "" {
		if _, err = tx.Exec(ctx, typeSQL["need parts"], store.TaskID(taskID), d.Parts); err == nil {
			_, err = tx.Exec(ctx, typeSQL["need parts of a task of one"], store.TaskID(taskID), d.Parts)
		}
	}
	if err == nil && d.Planning {
		_, err = tx.Exec(ctx, typeSQL["begin planning"], store.TaskID(taskID))
	}
	if err == nil && d.Ignores {
		_, err = tx.Exec(ctx, typeSQL["ignore failures"], store.TaskID(taskID))
	}
	return err
}

// failing is a leased item of a registered type, before its attempt fails.
type failing struct {
	ItemID, Type          string
	Failures, TypeVersion int
}

// aboutToFail reads those of the items that are leased and of registered types.
func aboutToFail(ctx context.Context, tx store.Tx, namespace string, itemIDs []string) ([]failing, error) {
	return store.All(ctx, tx, typeSQL["about to fail"], []any{store.ItemList(itemIDs), namespace}, func(rows store.Rows, f *failing) error {
		return rows.Scan((*store.ItemID)(&f.ItemID), &f.Failures, &f.Type, &f.TypeVersion)
	})
}

// failingTask is an open task of a registered type with an item in state failed.
type failingTask struct {
	ID, Namespace, Type string
	TypeVersion         int
}

// failingTasks lists up to limit such tasks by id, with ids above after. only is the id of
// one task; "" = any.
func failingTasks(ctx context.Context, tx store.Tx, after, only string, limit int) ([]failingTask, error) {
	return store.All(ctx, tx, typeSQL["failing tasks"], []any{store.FromTask(after), only == "", store.TaskID(only), limit},
		func(rows store.Rows, t *failingTask) error {
			return rows.Scan((*store.TaskID)(&t.ID), &t.Namespace, &t.Type, &t.TypeVersion)
		})
}

// stillToRun returns up to limit items of a task that have work left, if an item has failed since a caller's last retry
// of one: nil if none has.
func stillToRun(ctx context.Context, tx store.Tx, taskID string, limit int) ([]string, error) {
	var since int
	if _, err := store.Row(ctx, tx, []any{&since}, typeSQL["failed since retry"], store.TaskID(taskID)); err != nil || since == 0 {
		return nil, err
	}
	return store.ItemIDs(ctx, tx, typeSQL["still to run"], store.TaskID(taskID), store.List(store.OpenStates), limit)
}

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
