package rules

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pawl-work/pawl"
)

// CheckPage checks a page, and sets its limit to pawl.DefaultPage if it has none.
func CheckPage(p *pawl.Page) error {
	if p.Limit == 0 {
		p.Limit = pawl.DefaultPage
	}
	var f Fields
	f.Number("/limit", p.Limit, 1, pawl.MaxPage)
	f.Text("/cursor", p.Cursor, 0, 1000)
	return f.Err("list")
}

// CheckTaskFilter checks the filter of a list of tasks, and its page.
func CheckTaskFilter(q *pawl.TaskFilter) error {
	return cmp.Or(CheckPage(&q.Page), states(pawl.TaskStates, q.States, pawl.TaskStatuses, q.Statuses), members(q.Metadata),
		requested(q), priorities(q), oneOrder(q), searched(q.Search, q.Error, q.Failure, q.TitlePrefix))
}

// CheckItemFilter checks the filter of a list of items, and its page.
func CheckItemFilter(q *pawl.ItemFilter) error {
	return cmp.Or(CheckPage(&q.Page), states(pawl.ItemStates, q.States, pawl.ItemStatuses, q.Statuses),
		searched(q.Search, q.Error, q.Failure, ""))
}

// CheckFailureFilter checks the filter of a list of groups of failures, and its page.
func CheckFailureFilter(q *pawl.FailureFilter) error {
	if q.State != "" && q.State != pawl.ItemFailed && q.State != pawl.ItemDeadLettered {
		return pawl.Invalid("/state", "%q is no state of a failure: it is failed or dead_lettered", q.State)
	}
	return CheckPage(&q.Page)
}

// CheckCheckpointFilter checks the filter of a list of checkpoints, and its page.
func CheckCheckpointFilter(q *pawl.CheckpointFilter) error {
	var f Fields
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
	return cmp.Or(CheckPage(&q.Page), members(q.Metadata), f.Err("list"))
}

// CheckMessageFilter checks the filter of a list of messages, and its page.
func CheckMessageFilter(q *pawl.MessageFilter) error {
	var f Fields
	for i, s := range q.Statuses {
		if !slices.ContainsFunc(pawl.MessageStates, func(x pawl.StateInfo) bool { return x.Name == string(s) }) {
			f.Add(fmt.Sprintf("/status/%d", i), "%q is no status of a message", s)
		}
	}
	return cmp.Or(CheckPage(&q.Page), f.Err("list"))
}

// CheckProvenanceFilter checks the filter of a list of provenance, and its page.
func CheckProvenanceFilter(q *pawl.ProvenanceFilter) error {
	if err := CheckPage(&q.Page); err != nil {
		return err
	}
	var f Fields
	if q.TaskID == "" && q.ItemID == "" {
		f.Add("/task_id", "is required, or item_id")
	} else if q.TaskID != "" && q.ItemID != "" {
		f.Add("/item_id", "does not go with task_id")
	}
	return f.Err("list")
}

// states refuses states and statuses that do not exist.
func states[S ~string](table []pawl.StateInfo, asked []S, known, statuses []pawl.Status) error {
	var f Fields
	for i, s := range asked {
		if !slices.ContainsFunc(table, func(x pawl.StateInfo) bool { return x.Shown && x.Name == string(s) }) {
			f.Add(fmt.Sprintf("/state/%d", i), "%q is no state", s)
		}
	}
	for i, s := range statuses {
		if !slices.Contains(known, s) {
			f.Add(fmt.Sprintf("/status/%d", i), "%q is no status", s)
		}
	}
	return f.Err("list")
}

// priorities checks the bounds of the priority.
func priorities(q *pawl.TaskFilter) error {
	var f Fields
	for at, p := range map[string]*int{"/min_priority": q.MinPriority, "/max_priority": q.MaxPriority} {
		if p != nil {
			f.Number(at, *p, pawl.MinPriority, pawl.MaxPriority)
		}
	}
	return f.Err("list")
}

// oneOrder refuses two orders of one list.
func oneOrder(q *pawl.TaskFilter) error {
	if q.ByPriority && q.ByUpdate {
		return pawl.Invalid("/sort", "a list is by priority or by updated_at")
	}
	return nil
}

// requested checks the texts that a task is created with.
func requested(q *pawl.TaskFilter) error {
	var f Fields
	f.Text("/requested_by", q.RequestedBy, 0, pawl.MaxIDLen)
	f.Text("/input_hash", q.InputHash, 0, pawl.MaxIDLen)
	for _, id := range q.ParentIDs {
		f.Text("/parent_id", id, 0, pawl.MaxIDLen)
	}
	return f.Err("list")
}

// searched checks the texts that a list searches for.
func searched(search, failure, group, title string) error {
	var f Fields
	f.Text("/q", search, 0, pawl.MaxTitleLen)
	f.Text("/title", title, 0, pawl.MaxTitleLen)
	f.Text("/error", failure, 0, pawl.MaxReasonLen)
	if _, _, ok := pawl.ParseFailureName(group); group != "" && !ok {
		f.Add("/failure", "%q is no name of a group of failures: it is a type, a colon and 16 hexadecimal digits", group)
	}
	return f.Err("list")
}

// members checks the members of metadata that a list asks for.
func members(asked map[string]string) error {
	var f Fields
	f.Number("/metadata", len(asked), 0, maxMembers)
	for name, value := range asked {
		f.Text("/metadata", name, 0, pawl.MaxIDLen)
		f.Text("/metadata", value, 0, pawl.MaxReasonLen)
	}
	return f.Err("list")
}

// maxMembers bounds the members of metadata that one list asks for.
const maxMembers = 20
