package children

import (
	"slices"
	"strconv"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
)

// checkSpawn checks a spawn besides its task, which is checked as every new task.
func checkSpawn(c *pawl.SpawnCall) error {
	var f rules.Fields
	f.Fence(c.Fence)
	f.Text("/key", c.Key, 1, pawl.MaxKeyLen)
	if c.Task.ParentID != "" {
		f.Add("/task/parent_id", "is the task of the item: leave it out")
	}
	if c.Task.DryRun {
		f.Add("/task/dry_run", "is not possible here")
	}
	if c.Task.InputHash != "" || !c.Task.Dedupe.IsZero() {
		f.Add("/task/dedupe", "is not possible here: the key says which child it is")
	}
	if c.Task.Unique != nil {
		f.Add("/task/unique", "is not possible here: the key says which child it is")
	}
	if c.Task.Debounce != nil {
		f.Add("/task/debounce", "is not possible here")
	}
	return f.Err("spawn")
}

// checkChildWait checks which children an item is to wait for.
func checkChildWait(w *pawl.ChildWait) error {
	var f rules.Fields
	switch n := len(w.IDs); {
	case n == 0:
		f.Add("/children/ids", "is required")
	case n > pawl.MaxAwaited:
		f.Add("/children/ids", "has %d ids; at most %d are allowed", n, pawl.MaxAwaited)
	default:
		for i, id := range w.IDs[:min(n, 20)] {
			f.Text("/children/ids/"+strconv.Itoa(i), id, 1, pawl.MaxIDLen)
		}
		if different := len(slices.Compact(slices.Sorted(slices.Values(w.IDs)))); int(w.Need) < 0 || int(w.Need) > different {
			f.Add("/children/need", "is %d; there are %d children", int(w.Need), different)
		}
	}
	f.Text("/children/name", w.Name, 0, pawl.MaxKeyLen)
	if kinds := []string{"", pawl.OnFailureFail, pawl.OnFailureContinue, pawl.OnFailureCancel}; !slices.Contains(kinds, w.OnFailure) {
		f.Add("/children/on_failure", "is %q; it must be fail, continue or cancel", w.OnFailure)
	}
	return f.Err("suspend")
}
