package schema

import (
	"crypto/sha256"
	"sync"

	"github.com/pawl-work/pawl"
)

// Cache compiles each schema once, however many types and versions share it. The zero
// value is ready to use. It keeps 1000 schemas and evicts the least recently used.
type Cache struct {
	mu      sync.Mutex
	entries map[[sha256.Size]byte]*entry
	uses    int64
}

type entry struct {
	once sync.Once
	sch  *Schema
	bad  []pawl.Field
	used int64
}

const maxCached = 1000

// Get is Compile with a cache.
func (c *Cache) Get(raw []byte) (*Schema, []pawl.Field) {
	if len(raw) == 0 {
		return nil, nil
	}
	e := c.entry(sha256.Sum256(raw))
	e.once.Do(func() { e.sch, e.bad = Compile(raw) })
	return e.sch, e.bad
}

func (c *Cache) entry(key [sha256.Size]byte) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[key]
	if e == nil {
		if c.entries == nil {
			c.entries = map[[sha256.Size]byte]*entry{}
		}
		if len(c.entries) >= maxCached {
			c.evict()
		}
		e = &entry{}
		c.entries[key] = e
	}
	c.uses++
	e.used = c.uses
	return e
}

func (c *Cache) evict() {
	var oldest [sha256.Size]byte
	used := int64(-1)
	for k, e := range c.entries {
		if used < 0 || e.used < used {
			oldest, used = k, e.used
		}
	}
	delete(c.entries, oldest)
}
