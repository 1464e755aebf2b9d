// Package children is the room of children: tasks that belong to an item of another one, the items that wait for them, and
// what becomes of them when their parent is cancelled or deleted. What the sweep sends too, when a child ends in its
// transaction, is in store.
package children

import (
	"context"
	"embed"
	"sync/atomic"

	"github.com/pawl-work/pawl/engine/internal/commit"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

//go:embed *.sql
var sqlFiles embed.FS

var texts = store.Texts(sqlFiles, "children.sql")

// Children are the children of the tasks of a database. Its methods are those of pawl.Service.
type Children struct{ family }

// family is the room as the calls of an origin see it.
type family struct {
	*state
	k  *kernel.Kernel
	of kernel.Origin
}

func (f *family) tasks() kernel.Tasks { return f.k.Tasks(f.of) }

// state is what all Children of a process share.
type state struct {
	root   *kernel.Kernel // the database
	ends   *commit.Committer[endedChild, store.ChildrenEnded]
	told   chan struct{}           // tells the loop that there may be children to count or to cancel
	after  atomic.Pointer[awaited] // the last awaited child that settle compared
	locked lockedRows              // what is left to the next pass
}

// New returns the children of a database, and gives the kernel what the work asks of them.
func New(k *kernel.Kernel) *Children {
	s := &state{root: k, told: make(chan struct{}, 1)}
	s.ends = kernel.GroupCommitter(k, "children", commit.Options[endedChild, store.ChildrenEnded]{
		Verb: func(ctx context.Context, tx store.Tx, rows []endedChild) ([]store.ChildrenEnded, error) {
			return endChildren(ctx, tx, rows, s.locked.has)
		},
		Cold: true, LeavesLocked: true, Ungrouped: k.DB.Dialect().GroupCommits, Item: func(c *endedChild) string { return c.TaskID },
		Ord: func(c *endedChild) *int { return &c.Ord }, RowOf: func(a *store.ChildrenEnded) *int { return &a.Ord }})
	c := &Children{family{state: s, k: k}}
	k.Children = asked{s}
	k.Loops = append(k.Loops, c.watch)
	return c
}

// Over returns the children over another Kernel of the same database.
func Over(c *Children, k *kernel.Kernel) *Children { return &Children{family{state: c.state, k: k}} }

// atRoot returns the children of the database for work of no caller's.
func (s *state) atRoot() *family { return &family{state: s, k: s.root} }

// asked implements kernel.Children.
type asked struct{ *state }

// Tell implements kernel.Children.
func (a asked) Tell() {
	select {
	case a.told <- struct{}{}:
	default: // it has been told
	}
}

// Declared is the declaration of the room. A link stays as long as one of its two tasks is there. A fork or a clone of a task
// has no children.
func Declared() kernel.Room {
	const none = "none"
	rule := func(name, says, repair string) store.RuleSearch {
		return store.RuleSearch{Rule: store.Rule{Name: name, Says: says, Repair: repair}, SQL: texts[name]}
	}
	return kernel.Room{
		Name: "children",
		Tables: []kernel.Table{
			{Name: "parents", Key: "task", Archive: "all", Copy: none, Plain: []string{"namespace", "delete_by"},
				Changes: "with each child, and when a cancel or a delete is passed on, of which the events of the children tell"},
			{Name: "child_links", Key: "task", Archive: "those to its parent and to its children", Copy: none, Plain: []string{"namespace", "key"},
				Changes: "when the child is to be deleted with its parent; no event tells of it"},
			{Name: "child_waits", Key: "item", Archive: "all", Copy: none, Plain: []string{"namespace", "name", "on_failure"},
				Changes: "with each suspend for children, of which its event tells, and with each child that ends"},
			{Name: "awaited_children", Key: "item", Archive: "all", Copy: none, Plain: []string{"state", "error"}, Changes: "when the child ends"},
			{Name: "child_cancels", Key: "item", Archive: "none: the task stays until they are carried out", Copy: none,
				Plain: []string{"namespace"}, Changes: "never"},
		},
		Rules: []store.RuleSearch{
			rule("links of children", "a child is linked to its parent, one of the two exists and the other one is there or archived, "+
				"and the parent counts its children", "delete the link, or insert the row of the parent with the number of its children"),
			rule("orphan_child", "a task whose parent was cancelled, or is neither there nor archived, has ended",
				"cancel the task, or delete it with force"),
			rule("parent_unlinked", "a task whose parent is there is linked to it",
				"insert the row of child_links, with the depth of the parent's own row + 1, and the row of parents if there is none"),
			rule("waits for children", "a wait counts the children that have ended",
				"set child_waits.total, ended and failed to what was counted"),
		},
	}
}
