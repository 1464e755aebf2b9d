package engine

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// typesFresh is how long another process's change of the registry may go
// unnoticed here. A change made here holds at once.
const typesFresh = time.Second

// maxVersions bounds how many definitions are kept.
const maxVersions = 1000

// typeCache knows which version of each registered type holds, and keeps the
// definitions of versions that were used: they never change. So a create asks
// the database for nothing but, once a second, whether the registry changed.
type typeCache struct {
	mu      sync.Mutex
	newest  map[store.TypeName]int // never changed once made
	stamp   store.RegistryStamp
	at      time.Time // when newest was read; zero = look now
	changes int       // made by this process
	looking sync.Mutex
	known   map[typeVersion]*pawl.Type
}

type typeVersion struct {
	store.TypeName
	version int
}

// forget has the next call look at the registry.
func (c *typeCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = time.Time{}
	c.changes++
}

// used says whether any type was ever registered, as far as is known here.
func (c *typeCache) used() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stamp.Versions > 0 || c.at.IsZero()
}

// current is the registry, if it is fresh.
func (c *typeCache) current() (map[store.TypeName]int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newest, !c.at.IsZero() && clock.Now().Sub(c.at) < typesFresh
}

// rulesFor are the rules that hold now for new tasks of a type; nil for one that
// nobody registered, which has the defaults.
func (e *Engine) rulesFor(ctx context.Context, namespace, name string) (*rules, error) {
	newest, fresh := e.types.current()
	if !fresh {
		var err error
		if newest, err = e.lookAtTypes(ctx); err != nil {
			return nil, err
		}
	}
	version := newest[store.TypeName{Namespace: namespace, Name: name}]
	if version == 0 {
		return nil, nil
	}
	return e.rulesAt(ctx, namespace, name, version)
}

// rulesAt are the rules of a version.
func (e *Engine) rulesAt(ctx context.Context, namespace, name string, version int) (r *rules, err error) {
	if t := e.types.get(namespace, name, version); t != nil {
		return e.ruled(t), nil
	}
	err = e.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		r, err = e.rulesOf(ctx, tx, namespace, name, version)
		return err
	})
	return r, err
}

// lookAtTypes reads the registry where it has changed; of callers who come at
// once, one.
func (e *Engine) lookAtTypes(ctx context.Context) (map[store.TypeName]int, error) {
	c := &e.types
	c.looking.Lock()
	defer c.looking.Unlock()
	if newest, fresh := c.current(); fresh {
		return newest, nil
	}
	c.mu.Lock()
	stamp, newest, changes, began := c.stamp, c.newest, c.changes, clock.Now()
	c.mu.Unlock()
	err := e.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := store.StampOfTypes(ctx, tx)
		if err != nil || now == stamp && newest != nil {
			return err
		}
		stamp = now
		newest, err = store.Registry(ctx, tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest, c.stamp = newest, stamp
	if c.changes == changes { // else it may be older than a change made here
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
