package engine

import (
	"context"
	"fmt"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/budgets"
	"github.com/pawl-work/pawl/engine/internal/queue"
	"github.com/pawl-work/pawl/schema"
	"github.com/pawl-work/pawl/store"
)

// typeRules are the rules of a version of a type, and its hooks, which are code of the application.
type typeRules struct {
	*pawl.Type
	schemas *schema.Cache // the schemas of types, each compiled once
	hooks   pawl.Hooks
}

// rulesOf returns the rules of a version of a type.
func (e *Engine) rulesOf(ctx context.Context, tx store.Tx, namespace, name string, version int) (*typeRules, error) {
	if name == pawl.TypeBudget {
		return e.ruled(&budgets.Type), nil
	}
	if version == 0 {
		return e.ruled(&pawl.Type{Name: name}), nil // unregistered
	}
	if t := e.types.get(namespace, name, version); t != nil {
		return e.ruled(t), nil
	}
	row, err := store.GetType(ctx, tx, namespace, name, version)
	if err != nil {
		return nil, err
	}
	if row.Version == 0 {
		return nil, pawl.NotFound("type", fmt.Sprintf("%s version %d", name, version))
	}
	t, err := row.Type(name)
	if err != nil {
		return nil, err
	}
	if !e.k.InTx() { // inside a transaction the type may be uncommitted
		e.types.keep(namespace, &t)
	}
	return e.ruled(&t), nil
}

func (e *Engine) ruled(t *pawl.Type) *typeRules {
	return &typeRules{t, &e.schemas, e.opts.Hooks[t.Name]}
}

// rulesOfTask returns the rules of a task's version of its type. q is the queue of items
// that do not name their own type or priority.
func (e *Engine) rulesOfTask(ctx context.Context, taskID string) (r *typeRules, q queue.Pair, err error) {
	r, err = view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (*typeRules, error) {
		var version int
		if q.Type, version, q.Priority, err = store.TypeOfTask(ctx, tx, ns, taskID); err != nil {
			return nil, err
		}
		return e.rulesOf(ctx, tx, ns, q.Type, version)
	})
	return r, q, err
}
