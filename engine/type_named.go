package engine

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/nearest"
	"github.com/pawl-work/pawl/store"
)

// maxNamed bounds the types that a process remembers to have looked for; further ones are looked for without a warning.
const maxNamed = 10_000

// namedTypes are the types that tasks were created of in this process and that are not registered.
type namedTypes struct {
	mu   sync.Mutex
	seen map[store.TypeName]bool
}

// first reports whether a type has not been asked for before.
func (n *namedTypes) first(t store.TypeName) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen[t] || len(n.seen) >= maxNamed {
		return false
	}
	if n.seen == nil {
		n.seen = map[store.TypeName]bool{}
	}
	n.seen[t] = true
	return true
}

// warnOfNewType logs a warning if a task has a type that no program has named: it is not registered, no task had it before,
// and no worker has said that it takes it. Often the name is misspelt, and the task would wait for ever. Types of Pawl's
// own tasks need no naming.
func (e *Engine) warnOfNewType(ctx context.Context, namespace, name string) {
	if strings.HasPrefix(name, pawl.ReservedPrefix) || !e.named.first(store.TypeName{Namespace: namespace, Name: name}) {
		return
	}
	known, err := view(ctx, e, func(ctx context.Context, tx store.Tx, _ string) ([]string, error) {
		known, err := typesOfQueues(ctx, tx, namespace, name, pawl.MaxPage)
		if err != nil || slices.Contains(known, name) {
			return known, err
		}
		workers, err := workersPage(ctx, tx, namespace, pawl.WorkerFilter{Page: pawl.Page{Limit: pawl.MaxPage}})
		for _, w := range workers.Items {
			known = append(known, w.Types...)
		}
		return known, err
	})
	if err != nil || slices.Contains(known, name) {
		return // a hint, no more
	}
	newest, _ := e.newestTypes(ctx)
	for t := range newest {
		if t.Namespace == namespace {
			known = append(known, t.Name)
		}
	}
	args := []any{"type", name, "namespace", namespace}
	if near := nearest.Of(name, known); near != "" {
		args = append(args, "did_you_mean", near)
	}
	e.log.WarnContext(ctx, "a task has a type that no program has named before", args...)
}
