package store

import (
	"slices"
	"testing"

	"github.com/pawl-work/pawl"
)

// The stored state of a task of one item follows from its item's.
func TestSoloState(t *testing.T) {
	for item, want := range map[string]string{
		"scheduled": "open", "waiting": "open", "queued": "open", "leased": "open", "in_progress": "open",
		"submitted": "submitted", "accepted": "approved", "completed": "completed", "rejected": "rejected",
		"cancelled": "cancelled", "failed": "failed", "dead_lettered": "dead_lettered",
	} {
		if got := SoloState(item); got != want {
			t.Errorf("%s: %s, want %s", item, got, want)
		}
	}
}

func TestStatesAreExpanded(t *testing.T) {
	for mark, want := range map[string]string{
		"@from(task retry)":                           "('failed', 'dead_lettered')",
		"@counted(dead)":                              "('dead_lettered')",
		"@tasks(freed)":                               "('rejected', 'dead_lettered', 'cancelled')",
		"@tasks(derived)":                             "('queued', 'checked_out', 'in_progress')",
		"@settled(submitted) @settled(completed)":     "'submitted' 'completed'",
		"@settled(failed) @settled(dead)":             "'failed' 'dead_lettered'",
		"@events(item claim, 'part_submitted', fail)": "('leased', 'part_submitted', 'failed')",
	} {
		if got := ExpandStates(mark); got != want {
			t.Errorf("%s is %s, want %s", mark, got, want)
		}
	}
	for _, wrong := range []string{"@from(task nod)", "@counted(nod)", "@tasks(nod)", "@settled(nod)", "@events(item nod)",
		"@events(item settle)"} {
		func() {
			defer func() { _ = recover() }()
			t.Errorf("%s is %s", wrong, ExpandStates(wrong))
		}()
	}
}

// The sources of a state are the tables that hold the items of such tasks of one item, and
// the counters of the others.
func TestTaskSources(t *testing.T) {
	counters := func(state string) string { return from("task_id", "task_counters", rare+state+"'") }
	items := func(table string) string { return from("task_id", table, "") }
	resting := func(state string) string { return from("task_id", "parked_items", " AND state = '"+state+"'") }
	for state, want := range map[pawl.TaskState][]string{
		pawl.TaskQueued:     {items("ready"), items("scheduled"), items("waiting"), counters("open")},
		pawl.TaskCheckedOut: {items("leases"), counters("open")},
		pawl.TaskInProgress: {items("leases"), counters("open")},
		pawl.TaskSubmitted:  {resting("submitted"), counters("submitted")},
		pawl.TaskApproved:   {resting("accepted"), counters("approved")},
		pawl.TaskApplied:    {counters("applied")},
		pawl.TaskRejected:   {from("task_id", "finished_items", rare+"rejected'"), counters("rejected")},
		pawl.TaskCompleted:  nil,
	} {
		slices.Sort(want)
		if got := taskSources([]string{string(state)}); !slices.Equal(got, want) {
			t.Errorf("%s:\n got %q\nwant %q", state, got, want)
		}
	}
}
