// Package bulk is the room of bulk calls: a verb on all tasks of a filter, carried out as a task of Pawl's own. The walk
// over the tasks and the changes of many at once are statements of store: the work uses them too.
package bulk

import "github.com/pawl-work/pawl/engine/internal/kernel"

// Bulk are the bulk calls of a database. Its methods are those of pawl.Service.
type Bulk struct {
	k    *kernel.Kernel
	made chan struct{} // tells loop that there is a new bulk call
}

// New returns the bulk calls of a database.
func New(k *kernel.Kernel) *Bulk {
	b := &Bulk{k, make(chan struct{}, 1)}
	k.Loops = append(k.Loops, b.loop)
	return b
}

// Over returns the bulk calls over another Kernel of the database.
func Over(b *Bulk, k *kernel.Kernel) *Bulk { return &Bulk{k, b.made} }

func (b *Bulk) tell() {
	select {
	case b.made <- struct{}{}:
	default: // the loop has been told
	}
}

// Declared is the declaration of the room. It has no tables: a bulk call is a task, whose metadata says how far it is.
func Declared() kernel.Room { return kernel.Room{Name: "bulk"} }
