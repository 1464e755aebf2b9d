package engine

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/queue"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/internal/nearest"
	"github.com/pawl-work/pawl/schema"
	"github.com/pawl-work/pawl/store"
)

// typesFresh bounds how long a change of the registry by another process may go
// unnoticed. A change by this process applies at once.
const typesFresh = time.Second

// maxVersions bounds the definitions in the cache.
const maxVersions = 1000

// typeCache has the newest version of each type, and the definitions of
// versions that were used. Definitions never change, bar those that a database has lost. A create only asks the database, at
// most once a second, whether the registry has changed.
type typeCache struct {
	mu      sync.Mutex
	newest  registered // replaced, never modified
	stamp   store.RegistryStamp
	at      time.Time // when newest was read; zero = read it now
	changes int       // made by this process
	looking sync.Mutex
	known   map[typeVersion]*pawl.Type
}

type typeVersion struct {
	store.TypeName
	version int
}

// forget makes the next call read the registry.
func (c *typeCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = time.Time{}
	c.changes++
}

// used reports whether a type may have been registered, as far as this process knows.
func (c *typeCache) used() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stamp.Versions > 0 || c.at.IsZero()
}

// current returns the registry and whether it is fresh.
func (c *typeCache) current() (registered, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newest, !c.at.IsZero() && clock.Now().Sub(c.at) < typesFresh
}

// newestTypes returns the newest versions of all live types, at most typesFresh old.
func (e *Engine) newestTypes(ctx context.Context) (map[store.TypeName]int, error) {
	all, err := e.registry(ctx)
	return all.Live, err
}

// registry is newestTypes with the types that are removed. Inside a transaction that has begun,
// it reads them there and does not cache them.
func (e *Engine) registry(ctx context.Context) (registered, error) {
	if e.k.InTx() {
		return view(ctx, e, func(ctx context.Context, tx store.Tx, _ string) (registered, error) {
			return registry(ctx, tx)
		})
	}
	if newest, fresh := e.types.current(); fresh {
		return newest, nil
	}
	return e.lookAtTypes(ctx)
}

// rulesFor returns the rules for new tasks of a type. It returns nil for a type that is
// not registered, which has the defaults.
func (e *Engine) rulesFor(ctx context.Context, namespace, name string) (*typeRules, error) {
	newest, err := e.newestTypes(ctx)
	if err != nil {
		return nil, err
	}
	version := newest[store.TypeName{Namespace: namespace, Name: name}]
	if version == 0 {
		return nil, nil
	}
	return e.rulesAt(ctx, namespace, name, version)
}

// rulesToCreate is rulesFor, and refuses an unregistered type if only registered ones
// are allowed. Otherwise it warns of one that is new.
func (e *Engine) rulesToCreate(ctx context.Context, namespace, name string) (*typeRules, error) {
	r, err := e.rulesFor(ctx, namespace, name)
	switch {
	case err != nil || r != nil:
	case e.opts.RegisteredTypesOnly:
		err = pawl.Invalid("/type", "%s", e.unregistered(ctx, namespace, name))
	default:
		e.warnOfNewType(ctx, namespace, name)
	}
	return r, err
}

// unregistered says that only registered types are allowed, and which one may be meant.
func (e *Engine) unregistered(ctx context.Context, namespace, name string) string {
	out := "the type " + name + " is not registered, and this server takes registered types only"
	newest, err := e.newestTypes(ctx)
	if err != nil {
		return out // a hint, no more
	}
	var known []string
	for t := range newest {
		if t.Namespace == namespace {
			known = append(known, t.Name)
		}
	}
	slices.Sort(known)
	return out + nearest.Question(name, known)
}

// checkItemTypes refuses items whose own types have rules for input or results. Items
// follow the rules of their task's type, so those rules would not apply. It also
// refuses items that exceed the queue limits.
func (e *Engine) checkItemTypes(ctx context.Context, task queue.Pair, at string, items []pawl.NewItem) error {
	var f rules.Fields
	ruled, namespace := map[string]bool{"": false, task.Type: false}, pawl.CallerOf(ctx).Namespace
	for i := range items {
		name := items[i].Type
		if _, known := ruled[name]; !known {
			if err := checkReserved("create", name); err != nil {
				return rules.Under(at+"/"+strconv.Itoa(i), err)
			}
			r, err := e.rulesToCreate(ctx, namespace, name)
			if pawl.CodeOf(err) == pawl.CodeInvalid {
				return pawl.Invalid(at+"/"+strconv.Itoa(i)+"/type", "%s", e.unregistered(ctx, namespace, name))
			}
			if err != nil {
				return err
			}
			ruled[name] = r != nil && r.JudgesWork()
		}
		if ruled[name] && len(f) < schema.MaxErrors {
			f.Add(at+"/"+strconv.Itoa(i)+"/type",
				"the type %s has rules for input or results, which apply only to tasks of that type; create a task of the type %s", name, name)
		}
	}
	return cmp.Or(f.Err("create"), e.checkItemQueues(ctx, task, items))
}

// rulesAt returns the rules of a version.
func (e *Engine) rulesAt(ctx context.Context, namespace, name string, version int) (r *typeRules, err error) {
	if t := e.types.get(namespace, name, version); t != nil {
		return e.ruled(t), nil
	}
	err = e.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		r, err = e.rulesOf(ctx, tx, namespace, name, version)
		return err
	})
	return r, err
}

// lookAtTypes reads the registry if it has changed; concurrent callers share one read.
func (e *Engine) lookAtTypes(ctx context.Context) (registered, error) {
	c := &e.types
	c.looking.Lock()
	defer c.looking.Unlock()
	if newest, fresh := c.current(); fresh {
		return newest, nil
	}
	c.mu.Lock()
	stamp, newest, changes, began := c.stamp, c.newest, c.changes, clock.Now()
	c.mu.Unlock()
	same := false
	err := e.k.Look(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := store.StampOfTypes(ctx, tx)
		same = now == stamp && newest.Live != nil
		return err
	})
	if err == nil && !same {
		err = e.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			if stamp, err = store.StampOfTypes(ctx, tx); err == nil {
				newest, err = registry(ctx, tx)
			}
			return err
		})
	}
	if err != nil {
		return registered{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stamp != stamp { // a database that lost versions may have others of their numbers now
		c.known = nil
	}
	c.newest, c.stamp = newest, stamp
	if c.changes == changes { // otherwise it may be older than a change made here
		c.at = began
	}
	return newest, nil
}

func (c *typeCache) get(namespace, name string, version int) *pawl.Type {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[typeVersion{store.TypeName{Namespace: namespace, Name: name}, version}]
}

func (c *typeCache) keep(namespace string, t *pawl.Type) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxVersions {
		c.known = map[typeVersion]*pawl.Type{}
	}
	c.known[typeVersion{store.TypeName{Namespace: namespace, Name: t.Name}, t.Version}] = t
}
