package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
)

// CheckCheckpointAppend checks the call that appends checkpoints to a task.
func CheckCheckpointAppend(c *pawl.CheckpointAppend) error {
	var f Fields
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
	given, room := map[string]bool{}, CallBytes{Op: "append"}
	for i := range c.Checkpoints {
		p, at := &c.Checkpoints[i], fmt.Sprintf("/checkpoints/%d", i)
		f.checkpointAt(at, &p.NewCheckpoint, pawl.TaskCheckpointTypes)
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
	f.rules("/prune", c.Prune, 0)
	return f.Err("append")
}

// CheckPrune checks the call that removes checkpoints by rules.
func CheckPrune(c *pawl.CheckpointPrune) error {
	var f Fields
	f.Text("/task_id", c.TaskID, 1, pawl.MaxIDLen)
	f.rules("/rules", c.Rules, 1)
	return f.Err("prune")
}

func (f *Fields) rules(at string, rules []pawl.PruneRule, least int) {
	if n := len(rules); n < least || n > pawl.MaxPruneRules {
		f.Add(at, "has %d rules; %d to %d are allowed", n, least, pawl.MaxPruneRules)
		return
	}
	for i, r := range rules {
		f.Name(fmt.Sprintf("%s/%d/prefix", at, i), r.Prefix)
		f.Number(fmt.Sprintf("%s/%d/keep", at, i), r.Keep, 0, pawl.MaxKeptCheckpoints)
	}
}
