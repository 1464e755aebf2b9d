package tasktypes

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// PutTypes registers types, each in its own transaction; see pawl.TypeKeeper.
func (t *TaskTypes) PutTypes(ctx context.Context, types []pawl.Type) ([]pawl.Result[pawl.TypeRef], error) {
	if err := rules.CheckBatch("put type", len(types)); err != nil {
		return nil, err
	}
	out := make([]pawl.Result[pawl.TypeRef], len(types))
	for i := range types {
		out[i].Value, out[i].Err = t.r.put(ctx, pawl.CallerOf(ctx).Namespace, types[i])
	}
	return out, nil
}

func (r *Registry) put(ctx context.Context, ns string, t pawl.Type) (pawl.TypeRef, error) {
	if err := check(&t, &r.schemas); err != nil {
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
		seen, err := kernel.Read(ctx, r.k, func(ctx context.Context, tx store.Tx, _ string) (row, error) {
			return get(ctx, tx, ns, t.Name, 0)
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
		err = r.k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
			now, err := tx.Now(ctx)
			if err != nil {
				return err
			}
			before, err := get(ctx, tx, ns, t.Name, 0)
			if err != nil {
				return err
			}
			if before.Version != seen.Version || (before.RemovedAt == nil) != (seen.RemovedAt == nil) {
				return errChanged
			}
			if ref.Version, ref.Unchanged = before.Version, same; same {
				return nil
			}
			ref.Version++
			_, err = tx.Exec(ctx, texts["put type"], ns, t.Name, ref.Version, string(text), now)
			return err
		})
		if pawl.CodeOf(err) == pawl.CodeConflict && try < 100 {
			continue // another call stored this version between the read and the insert
		}
		r.k.After(r.forget)
		return ref, err
	}
}

// errChanged says that another call changed the type since it was compared.
var errChanged = &pawl.Error{
	Code:    pawl.CodeConflict,
	Op:      "put type",
	Allowed: []string{},
	Message: "the type is being changed; try again",
}

// Register registers the types of a program in the default namespace.
func (r *Registry) Register(ctx context.Context, types []pawl.Type) error {
	for i := range types {
		if _, err := r.put(ctx, pawl.DefaultNamespace, types[i]); pawl.CodeOf(err) == pawl.CodeMoved {
			return nil // a server starts, and says so
		} else if err != nil {
			return fmt.Errorf("type %s: %w", types[i].Name, err)
		}
	}
	return nil
}

// RemoveTypes removes types from the registry; see pawl.TypeKeeper.
func (t *TaskTypes) RemoveTypes(ctx context.Context, names []string) ([]pawl.Result[string], error) {
	if err := rules.CheckBatch("remove type", len(names)); err != nil {
		return nil, err
	}
	out := make([]pawl.Result[string], len(names))
	for i, name := range names {
		out[i].Value = name
		out[i].Err = t.r.k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
			now, err := tx.Now(ctx)
			if err != nil {
				return err
			}
			n, err := tx.Exec(ctx, texts["remove type"], pawl.CallerOf(ctx).Namespace, name, now)
			if err == nil && n == 0 {
				return pawl.NotFound("type", name)
			}
			return err
		})
	}
	t.r.k.After(t.r.forget)
	return out, nil
}

// GetType reads a type; see pawl.TypeReader.
func (t *TaskTypes) GetType(ctx context.Context, name string, version int) (pawl.Type, error) {
	if version > math.MaxInt32 { // more than the column holds
		return pawl.Type{}, pawl.NotFound("type", name)
	}
	return kernel.Read(ctx, t.r.k, func(ctx context.Context, tx store.Tx, ns string) (pawl.Type, error) {
		r, err := get(ctx, tx, ns, name, version)
		if err != nil {
			return pawl.Type{}, err
		}
		if r.Version == 0 || version == 0 && r.RemovedAt != nil {
			return pawl.Type{}, pawl.NotFound("type", name)
		}
		return r.parsed(name)
	})
}

// ListTypes lists types; see pawl.TypeReader.
func (t *TaskTypes) ListTypes(ctx context.Context, q pawl.TypeFilter) (pawl.List[pawl.Type], error) {
	if err := rules.CheckPage(&q.Page); err != nil {
		return pawl.List[pawl.Type]{}, err
	}
	return kernel.Read(ctx, t.r.k, func(ctx context.Context, tx store.Tx, ns string) (pawl.List[pawl.Type], error) {
		return list(ctx, tx, ns, q)
	})
}

// row is one version of a type. Version 0 means that there is none.
type row struct {
	Version    int
	Definition string // pawl.Type as JSON, without what the registry adds
	CreatedAt  int64
	RemovedAt  *int64
}

// parsed returns the row as a pawl.Type.
func (r *row) parsed(name string) (pawl.Type, error) {
	var t pawl.Type
	if err := json.Unmarshal([]byte(r.Definition), &t); err != nil {
		return t, &pawl.Error{Code: pawl.CodeInternal, Message: fmt.Sprintf("type %s, version %d, cannot be read", name, r.Version), Err: err}
	}
	at := store.Stamp(r.CreatedAt)
	t.Name, t.Version, t.CreatedAt, t.RemovedAt = name, r.Version, &at, store.StampOf(r.RemovedAt)
	return t, nil
}

// get reads a version of a type. Version 0 reads the newest one, removed or not.
func get(ctx context.Context, tx store.Tx, namespace, name string, version int) (row, error) {
	var r row
	into := []any{&r.Version, &r.Definition, &r.CreatedAt, &r.RemovedAt}
	if version == 0 {
		_, err := store.Row(ctx, tx, into, texts["newest version"], namespace, name)
		return r, err
	}
	_, err := store.Row(ctx, tx, into, texts["one version"], namespace, name, version)
	return r, err
}

// list lists a namespace's types by name, newest version first.
func list(ctx context.Context, tx store.Tx, namespace string, q pawl.TypeFilter) (pawl.List[pawl.Type], error) {
	return store.Pages(q.Page, size, cursor, func(p pawl.Page) (pawl.List[pawl.Type], error) {
		q.Page = p
		return page(ctx, tx, namespace, q)
	})
}

func cursor(t pawl.Type) string { return fmt.Sprintf("%d.%s", t.Version, t.Name) }

// size returns the approximate size of a definition in bytes.
func size(t *pawl.Type) int {
	n := len(t.PayloadSchema) + len(t.InputSchema) + len(t.ResultSchema) + len(t.Approval.When) + len(t.Description)
	for i := range t.Parts {
		n += len(t.Parts[i].Schema)
	}
	return n
}

func page(ctx context.Context, tx store.Tx, namespace string, q pawl.TypeFilter) (pawl.List[pawl.Type], error) {
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
	rows, err := tx.Query(ctx, w.Text(texts["types"], "t.name, t.version DESC", q.Limit+1), w.Args...)
	if err != nil {
		return pawl.List[pawl.Type]{}, err
	}
	defer rows.Close()
	var out []pawl.Type
	for rows.Next() {
		var name string
		var r row
		if err := rows.Scan(&name, &r.Version, &r.Definition, &r.CreatedAt, &r.RemovedAt); err != nil {
			return pawl.List[pawl.Type]{}, err
		}
		t, err := r.parsed(name)
		if err != nil {
			return pawl.List[pawl.Type]{}, err
		}
		out = append(out, t)
	}
	return store.Paged(out, q.Limit, cursor), rows.Err()
}
