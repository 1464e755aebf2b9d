// Package checkpoints is the room of checkpoints: the appends and the lists of those that tasks have themselves or by their
// items, how large snapshots are stored, and what prunes them. A checkpoint under a lease is a hot verb of the engine and of
// store, as the readers of rows are.
package checkpoints

import (
	"embed"

	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

//go:embed *.sql
var sqlFiles embed.FS

var texts = store.Texts(sqlFiles, "checkpoints.sql")

// Checkpoints are the checkpoints of the tasks of a database. Its methods are those of pawl.Service.
type Checkpoints struct {
	k     *kernel.Kernel
	cache *blobCache // of the process
}

// New returns the checkpoints of a database, and gives the kernel what decides how snapshots are stored.
func New(k *kernel.Kernel) *Checkpoints {
	c := &Checkpoints{k, &blobCache{}}
	k.Snapshots = c.cache
	return c
}

// Over returns the checkpoints over another Kernel of the same database.
func Over(c *Checkpoints, k *kernel.Kernel) *Checkpoints { return &Checkpoints{k, c.cache} }

// Declared is the declaration of the room. The counters of checkpoints are in the row of their task.
func Declared() kernel.Room {
	return kernel.Room{
		Name: "checkpoints",
		Tables: []kernel.Table{{Name: "checkpoints", Key: "task", Archive: "all",
			Copy: "a fork takes those up to its number, a clone all or none", Values: []string{"snapshot"},
			Plain: []string{"id", "namespace", "type", "name", "args_hash", "message_id", "metadata", "said"}, Changes: "never"}},
		Steps: []store.Step{{Name: "checkpoints", Run: new(scan).prune}},
		Rules: []store.RuleSearch{{Rule: store.Rule{Name: "checkpoints",
			Says:   "the newest checkpoint has the counter's number, and those kept and those pruned make up the counter",
			Repair: "set task_counters.checkpoints to the newest number and pruned to what is missing"}, SQL: texts["checkpoints"]}},
	}
}
