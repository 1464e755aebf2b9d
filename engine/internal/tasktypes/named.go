package tasktypes

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/internal/nearest"
	"github.com/pawl-work/pawl/store"
)

// maxNamed bounds the types that a process remembers to have looked for; further ones are looked for without a warning.
const maxNamed = 10_000

// namedTypes are the types that tasks were created of in this process and that are not registered.
type namedTypes struct {
	mu   sync.Mutex
	seen map[typeName]bool
}

// first reports whether a type has not been asked for before.
func (n *namedTypes) first(t typeName) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen[t] || len(n.seen) >= maxNamed {
		return false
	}
	if n.seen == nil {
		n.seen = map[typeName]bool{}
	}
	n.seen[t] = true
	return true
}

// warnOfNew logs a warning if a task has a type that no program has named: it is not registered, no task had it before,
// and no worker has said that it takes it. Often the name is misspelt, and the task would wait for ever. Types of Pawl's
// own tasks need no naming.
func (r *Registry) warnOfNew(ctx context.Context, namespace, name string) {
	if strings.HasPrefix(name, pawl.ReservedPrefix) || !r.named.first(typeName{namespace, name}) {
		return
	}
	known, err := kernel.Read(ctx, r.k, func(ctx context.Context, tx store.Tx, _ string) ([]string, error) {
		return r.k.Named(ctx, tx, namespace, name)
	})
	if err != nil || slices.Contains(known, name) {
		return // a hint, no more
	}
	args := []any{"type", name, "namespace", namespace}
	if near := nearest.Of(name, append(known, r.liveIn(ctx, namespace)...)); near != "" {
		args = append(args, "did_you_mean", near)
	}
	r.k.Log.WarnContext(ctx, "a task has a type that no program has named before", args...)
}
