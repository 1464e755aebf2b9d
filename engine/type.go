package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// PutTypes registers types, each in its own transaction; see pawl.TypeKeeper.
func (e *Engine) PutTypes(ctx context.Context, types []pawl.Type) ([]pawl.Result[pawl.TypeRef], error) {
	if err := checkBatch("put type", len(types)); err != nil {
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
			return store.PutType(ctx, tx, ns, t.Name, ref.Version, string(text), now)
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
	if err := checkBatch("remove type", len(names)); err != nil {
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
			live, err := store.RemoveType(ctx, tx, pawl.CallerOf(ctx).Namespace, name, now)
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
		return store.ListTypes(ctx, tx, ns, q)
	})
}
