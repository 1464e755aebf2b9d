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
	return cmp.Or(CheckPage(&q.Page), States(pawl.TaskStates, q.States, pawl.TaskStatuses, q.Statuses), Members(q.Metadata),
		requested(q), priorities(q), oneOrder(q), Searched(q.Search, q.Error, q.Failure, q.TitlePrefix))
}

// States refuses states and statuses that do not exist.
func States[S ~string](table []pawl.StateInfo, asked []S, known, statuses []pawl.Status) error {
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

// Searched checks the texts that a list searches for.
func Searched(search, failure, group, title string) error {
	var f Fields
	f.Text("/q", search, 0, pawl.MaxTitleLen)
	f.Text("/title", title, 0, pawl.MaxTitleLen)
	f.Text("/error", failure, 0, pawl.MaxReasonLen)
	if _, _, ok := pawl.ParseFailureName(group); group != "" && !ok {
		f.Add("/failure", "%q is no name of a group of failures: it is a type, a colon and 16 hexadecimal digits", group)
	}
	return f.Err("list")
}

// Members checks the members of metadata that a list asks for.
func Members(asked map[string]string) error {
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
