package engine

import (
	"cmp"
	"fmt"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
)

// checkItemFilter checks the filter of a list of items, and its page.
func checkItemFilter(q *pawl.ItemFilter) error {
	return cmp.Or(rules.CheckPage(&q.Page), rules.States(pawl.ItemStates, q.States, pawl.ItemStatuses, q.Statuses),
		rules.Searched(q.Search, q.Error, q.Failure, ""))
}

// checkFailureFilter checks the filter of a list of groups of failures, and its page.
func checkFailureFilter(q *pawl.FailureFilter) error {
	if q.State != "" && q.State != pawl.ItemFailed && q.State != pawl.ItemDeadLettered {
		return pawl.Invalid("/state", "%q is no state of a failure: it is failed or dead_lettered", q.State)
	}
	return rules.CheckPage(&q.Page)
}

// checkCheckpointFilter checks the filter of a list of checkpoints, and its page.
func checkCheckpointFilter(q *pawl.CheckpointFilter) error {
	var f rules.Fields
	f.Name("/name_prefix", q.NamePrefix)
	for pointer, n := range map[string]int{"/name": len(q.Names), "/checkpoint": len(q.IDs), "/sequence": len(q.Sequences)} {
		f.Number(pointer, n, 0, pawl.MaxPage)
	}
	for i, id := range q.IDs {
		f.Text(fmt.Sprintf("/checkpoint/%d", i), id, 0, pawl.MaxIDLen)
	}
	if (q.TaskType == "") != (q.TaskKey == "") {
		f.Add("/task_key", "is given together with task_type")
	} else if q.TaskKey != "" && q.TaskID != "" {
		f.Add("/task_key", "is given in place of task")
	}
	if q.Refs && q.TaskID == "" && q.TaskKey == "" {
		f.Add("/refs", "is possible for the checkpoints of one task only")
	}
	f.Text("/task_type", q.TaskType, 0, pawl.MaxTypeLen)
	f.Text("/task_key", q.TaskKey, 0, pawl.MaxKeyLen)
	for i, name := range q.Names {
		f.Name(fmt.Sprintf("/name/%d", i), name)
	}
	return cmp.Or(rules.CheckPage(&q.Page), rules.Members(q.Metadata), f.Err("list"))
}

// checkProvenanceFilter checks the filter of a list of provenance, and its page.
func checkProvenanceFilter(q *pawl.ProvenanceFilter) error {
	if err := rules.CheckPage(&q.Page); err != nil {
		return err
	}
	var f rules.Fields
	if q.TaskID == "" && q.ItemID == "" {
		f.Add("/task_id", "is required, or item_id")
	} else if q.TaskID != "" && q.ItemID != "" {
		f.Add("/item_id", "does not go with task_id")
	}
	return f.Err("list")
}
