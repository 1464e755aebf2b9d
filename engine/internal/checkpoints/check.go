package checkpoints

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
)

// checkOwn checks the checkpoint of a task.
func checkOwn(c *pawl.TaskCheckpoint) error {
	var f rules.Fields
	f.CheckpointAt("", &c.NewCheckpoint, pawl.TaskCheckpointTypes)
	return f.Err("checkpoint")
}

// checkAppend checks the call that appends checkpoints to a task.
func checkAppend(c *pawl.CheckpointAppend) error {
	var f rules.Fields
	switch {
	case c.Create == nil:
		f.Text("/task_id", c.TaskID, 1, pawl.MaxIDLen)
	case c.TaskID != "":
		f.Add("/create", "is given in place of task_id")
	case c.Create.DryRun:
		f.Add("/create/dry_run", "is not possible here")
	}
	if n := len(c.Checkpoints); n == 0 || n > pawl.MaxAppendCheckpoints {
		f.Add("/checkpoints", "has %d checkpoints; 1 to %d are allowed", n, pawl.MaxAppendCheckpoints)
		return f.Err("append")
	}
	if c.Expected != nil && *c.Expected < 0 {
		f.Add("/expected", "is %d; it must be the number of a checkpoint, or 0 for none", *c.Expected)
	}
	given, room := map[string]bool{}, rules.CallBytes{Op: "append"}
	for i := range c.Checkpoints {
		p, at := &c.Checkpoints[i], fmt.Sprintf("/checkpoints/%d", i)
		f.CheckpointAt(at, &p.NewCheckpoint, pawl.TaskCheckpointTypes)
		if p.OnConflict != "" {
			if !slices.Contains(pawl.NameConflicts, p.OnConflict) {
				f.Add(at+"/on_conflict", "is %q; it must be one of %s", p.OnConflict, strings.Join(pawl.NameConflicts, ", "))
			}
			if p.Name == "" {
				f.Add(at+"/name", "is required with on_conflict")
			}
		}
		if given[p.Name] && (p.OnConflict != "" || given["\x00"+p.Name]) {
			f.Add(at+"/name", "is the name of another checkpoint of the call, which on_conflict excludes")
		}
		given[p.Name], given["\x00"+p.Name] = true, given["\x00"+p.Name] || p.OnConflict != ""
		if err := room.Take(len(p.Snapshot) + len(p.Metadata)); err != nil {
			return err
		}
		if len(f) > 20 {
			break
		}
	}
	f.Rules("/prune", c.Prune, 0)
	return f.Err("append")
}

// checkPrune checks the call that removes checkpoints by rules.
func checkPrune(c *pawl.CheckpointPrune) error {
	var f rules.Fields
	f.Text("/task_id", c.TaskID, 1, pawl.MaxIDLen)
	f.Rules("/rules", c.Rules, 1)
	return f.Err("prune")
}
