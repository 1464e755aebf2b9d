package store

import (
	"slices"
	"strconv"
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
	code := func(words string) string {
		for _, m := range MoveCodes {
			if words == m.Class+" "+m.Event+" "+m.From+">"+m.To {
				return strconv.Itoa(m.Code)
			}
		}
		t.Fatal("no such event", words)
		return ""
	}
	list := func(events ...string) string {
		return codesOf(func(m MoveCode) bool { return slices.Contains(events, m.Event) })
	}
	for mark, want := range map[string]string{
		"@from(task retry)":                       "('failed', 'dead_lettered')",
		"@counted(dead)":                          "('dead_lettered')",
		"@tasks(freed)":                           "('rejected', 'dead_lettered', 'cancelled')",
		"@tasks(derived)":                         "('queued', 'checked_out', 'in_progress')",
		"@settled(submitted) @settled(completed)": "'submitted' 'completed'",
		"@settled(failed) @settled(dead)":         "'failed' 'dead_lettered'",
		"@from_codes(item retry)":                 "(10, 11)",
		"@state(completed)":                       "8",
		"@events(task approve, 'deleted')":        list("approved", "deleted"),
		"@move(leased, 'queued', 'leased', item)": code("item leased queued>leased"),
		"@move(updated, -, -, task)":              code("task updated >"),
		"@move(to, 'open', 'failed', task)":       code("task failed open>failed"),
		"@move(ready, 'waiting', 'queued', solo)": "CASE solo WHEN 1 THEN " + code("only ready waiting>queued") +
			" WHEN 0 THEN " + code("item ready waiting>queued") + " WHEN 2 THEN " + code("item ready waiting>queued") + " END",
		"@move(lease_expired, state, to, only)": "CASE state WHEN 4 THEN CASE to WHEN 'queued' THEN " +
			code("only lease_expired leased>queued") + " WHEN 'failed' THEN " + code("only lease_expired leased>failed") +
			" END WHEN 5 THEN CASE to WHEN 'queued' THEN " + code("only lease_expired in_progress>queued") +
			" WHEN 'failed' THEN " + code("only lease_expired in_progress>failed") + " END END",
	} {
		if got := ExpandStates(mark); got != want {
			t.Errorf("%s is %s, want %s", mark, got, want)
		}
	}
	for _, wrong := range []string{"@from(task nod)", "@counted(nod)", "@tasks(nod)",
		"@state(nod)", "@state(expired)", "@settled(nod)", "@events(item nod)",
		"@events(item settle)", "@events(item 'nod')", "@move(leased, 'queued', 'failed', item)", "@move(leased, -, item)",
		"@move(cancelled, 'accepted', 'cancelled', only)"} {
		func() {
			defer func() { _ = recover() }()
			t.Errorf("%s is %s", wrong, ExpandStates(wrong))
		}()
	}
}

// The sources of a state are the tables that hold the items of such tasks of one item, and
// the counters of the others.
func TestTaskSources(t *testing.T) {
	counters := func(state string) source { return from("task_id", "task_counters", rare+state+"'") }
	items := func(table string) source { return from("item_id", table, " AND solo = 1") }
	ended := func(state string) source {
		return from("task_id", "finished_items", " AND state <> @state(completed) AND state = @state("+state+")")
	}
	resting := func(state string) source {
		return from("item_id", "parked_items", " AND solo = 1 AND state = @state("+state+")")
	}
	leased := func(state string) source {
		return from("item_id", "leases", " AND solo = 1 AND state = @state("+state+")")
	}
	for state, want := range map[pawl.TaskState][]source{
		pawl.TaskQueued:     {items("ready"), items("scheduled"), items("waiting"), counters("open")},
		pawl.TaskCheckedOut: {leased("leased"), counters("open")},
		pawl.TaskInProgress: {leased("in_progress"), counters("open")},
		pawl.TaskSubmitted:  {resting("submitted"), counters("submitted")},
		pawl.TaskApproved:   {resting("accepted"), counters("approved")},
		pawl.TaskApplied:    {counters("applied")},
		pawl.TaskRejected:   {ended("rejected"), counters("rejected")},
		pawl.TaskCompleted:  nil,
	} {
		want = unique(want)
		if got := taskSources([]string{string(state)}); !slices.Equal(got, want) {
			t.Errorf("%s:\n got %q\nwant %q", state, got, want)
		}
	}
}
