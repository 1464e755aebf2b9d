package tasktypes

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/internal/nearest"
	"github.com/pawl-work/pawl/schema"
	"github.com/pawl-work/pawl/store"
)

// fresh bounds how long a change of the registry by another process may go
// unnoticed. A change by this process applies at once.
const fresh = time.Second

// maxKnown bounds the definitions in the cache.
const maxKnown = 1000

// Registry reads the types of a database and their rules.
type Registry struct {
	k *kernel.Kernel
	*state
}

// state is what all Registries of a process share.
type state struct {
	cache
	schemas    schema.Cache // of types, each compiled once
	named      namedTypes
	hooks      map[string]pawl.Hooks // by the name of the type
	registered bool
	own        []*pawl.Type
}

// cache has the newest version of each type, and the definitions of
// versions that were used. Definitions never change, bar those that a database has lost. A create only asks the database, at
// most once a second, whether the registry has changed.
type cache struct {
	mu      sync.Mutex
	newest  registered // replaced, never modified
	stamp   store.RegistryStamp
	at      time.Time // when newest was read; zero = read it now
	changes int       // made by this process
	looking sync.Mutex
	known   map[store.TypeVersion]*pawl.Type
}

// forget makes the next call read the registry.
func (c *cache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = time.Time{}
	c.changes++
}

// used reports whether a type may have been registered, as far as this process knows.
func (c *cache) used() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stamp.Versions > 0 || c.at.IsZero()
}

// current returns the registry and whether it is fresh.
func (c *cache) current() (registered, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newest, !c.at.IsZero() && clock.Now().Sub(c.at) < fresh
}

// names returns the newest versions of all live and removed types, at most fresh old. Inside a transaction that has begun,
// it reads them there and does not cache them.
func (r *Registry) names(ctx context.Context) (registered, error) {
	if r.k.InTx() {
		return kernel.Read(ctx, r.k, func(ctx context.Context, tx store.Tx, _ string) (registered, error) { return newest(ctx, tx) })
	}
	if names, fresh := r.current(); fresh {
		return names, nil
	}
	return r.look(ctx)
}

// ForNew returns the rules for new tasks of a type, or nil for one that is not registered, which has the defaults. It refuses
// that if only registered ones are allowed. Otherwise it warns of one that is new.
func (r *Registry) ForNew(ctx context.Context, namespace, name string) (*Rules, error) {
	all, err := r.names(ctx)
	if err != nil {
		return nil, err
	}
	if version := all.live[typeName{namespace, name}]; version > 0 {
		return r.At(ctx, namespace, name, version)
	}
	if r.registered {
		return nil, pawl.Invalid("/type", "%s", r.unregistered(ctx, namespace, name))
	}
	r.warnOfNew(ctx, namespace, name)
	return nil, nil
}

// unregistered says that only registered types are allowed, and which one may be meant.
func (r *Registry) unregistered(ctx context.Context, namespace, name string) string {
	known := r.liveIn(ctx, namespace)
	slices.Sort(known)
	return "the type " + name + " is not registered, and this server takes registered types only" + nearest.Question(name, known)
}

// liveIn returns the types of a namespace, for a hint: nil if they cannot be read.
func (r *Registry) liveIn(ctx context.Context, namespace string) (out []string) {
	all, _ := r.names(ctx)
	for t := range all.live {
		if t.namespace == namespace {
			out = append(out, t.name)
		}
	}
	return out
}

// CheckItems refuses items whose own types have rules for input or results. Items
// follow the rules of their task's type, so those rules would not apply.
func (r *Registry) CheckItems(ctx context.Context, taskType, at string, items []pawl.NewItem) error {
	var f rules.Fields
	ruled, namespace := map[string]bool{"": false, taskType: false}, pawl.CallerOf(ctx).Namespace
	for i := range items {
		name := items[i].Type
		if _, known := ruled[name]; !known {
			var reserved rules.Fields
			reserved.Reserved("/type", name)
			if err := reserved.Err("create"); err != nil {
				return rules.Under(at+"/"+strconv.Itoa(i), err)
			}
			of, err := r.ForNew(ctx, namespace, name)
			if pawl.CodeOf(err) == pawl.CodeInvalid {
				return pawl.Invalid(at+"/"+strconv.Itoa(i)+"/type", "%s", r.unregistered(ctx, namespace, name))
			}
			if err != nil {
				return err
			}
			ruled[name] = of != nil && of.judgesWork()
		}
		if ruled[name] && len(f) < schema.MaxErrors {
			f.Add(at+"/"+strconv.Itoa(i)+"/type",
				"the type %s has rules for input or results, which apply only to tasks of that type; create a task of the type %s", name, name)
		}
	}
	return f.Err("create")
}

// look reads the registry if it has changed; concurrent callers share one read.
func (r *Registry) look(ctx context.Context) (registered, error) {
	c := &r.cache
	c.looking.Lock()
	defer c.looking.Unlock()
	if names, fresh := c.current(); fresh {
		return names, nil
	}
	c.mu.Lock()
	stamp, names, changes, began := c.stamp, c.newest, c.changes, clock.Now()
	c.mu.Unlock()
	same := false
	err := r.k.Look(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := store.StampOfTypes(ctx, tx)
		same = now == stamp && names.live != nil
		return err
	})
	if err == nil && !same {
		err = r.k.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			if stamp, err = store.StampOfTypes(ctx, tx); err == nil {
				names, err = newest(ctx, tx)
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
	c.newest, c.stamp = names, stamp
	if c.changes == changes { // otherwise it may be older than a change made here
		c.at = began
	}
	return names, nil
}

func (c *cache) get(v store.TypeVersion) *pawl.Type {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[v]
}

func (c *cache) keep(v store.TypeVersion, t *pawl.Type) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxKnown {
		c.known = map[store.TypeVersion]*pawl.Type{}
	}
	c.known[v] = t
}

// typeName is a type of a namespace.
type typeName struct{ namespace, name string }

// registered are the newest versions of types: of those that are live, and of those that are removed.
type registered struct {
	live, removed map[typeName]int
	leases        map[typeName]bool // their versions may have different leases
}

// newest reads the newest version of each type of all namespaces.
func newest(ctx context.Context, tx store.Tx) (registered, error) {
	out := registered{map[typeName]int{}, map[typeName]int{}, map[typeName]bool{}}
	err := store.EachRow(ctx, tx, func(rows store.Rows) error {
		var n typeName
		var version int
		var live, leases int
		if err := rows.Scan(&n.namespace, &n.name, &version, &live, &leases); err != nil {
			return err
		}
		if leases == 1 {
			out.leases[n] = true
		}
		if live == 1 {
			out.live[n] = version
		} else {
			out.removed[n] = version
		}
		return nil
	}, texts["registry"])
	return out, err
}
