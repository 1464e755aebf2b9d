// Package tasktypes is the room of types: their registry, and the rules that a version of a type has for its tasks. What
// becomes of a task by these rules is the work's.
package tasktypes

import (
	"embed"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

// TaskTypes are the types of a database. Its methods are those of pawl.Service.
type TaskTypes struct{ r *Registry }

// New returns the types of a database. registered says that new tasks are of registered types only; own are types that are
// in no registry.
func New(k *kernel.Kernel, hooks map[string]pawl.Hooks, registered bool, own ...*pawl.Type) *TaskTypes {
	return &TaskTypes{&Registry{k, &state{hooks: hooks, registered: registered, own: own}}}
}

// Over returns the types over another Kernel of the database.
func Over(t *TaskTypes, k *kernel.Kernel) *TaskTypes { return &TaskTypes{&Registry{k, t.r.state}} }

// Of returns the registry, which the work reads.
func Of(t *TaskTypes) *Registry { return t.r }

// Declared is the declaration of the room. Its rows are of no task: a task names a version of its type, which never changes.
func Declared() kernel.Room {
	return kernel.Room{
		Name: "tasktypes",
		Tables: []kernel.Table{
			{Name: "types", Key: "namespace", Plain: []string{"namespace", "name", "definition"},
				Changes: "when the type is removed; no event tells of it"},
			{Name: "type_hooks", Key: "type", Plain: []string{"type", "hook"}, Changes: "never; no event tells of it"},
		},
		Warnings: []store.Look{noHook, shortLeases},
	}
}

//go:embed tasktypes.sql
var sqlFile embed.FS

var texts = store.Texts(sqlFile, "tasktypes.sql")
