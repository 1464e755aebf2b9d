package suite

import (
	"strings"

	"github.com/pawl-work/pawl"
)

// audit compares all events of the default namespace with the stored states. Each change of a
// stored state has one event. Each event starts from the state to which the one before it led,
// and the last one led to the current state of the item or task. A task's version counts its
// changes.
func (w *fixture) audit() {
	w.Helper()
	if w.skipAudit {
		return
	}
	w.auditFeed()
	f := pawl.TaskFilter{Page: pawl.Page{Limit: 1000}}
	for {
		page, err := w.svc.ListTasks(w.ctx, f)
		w.ok(err, "audit: list tasks")
		for _, t := range page.Items {
			w.auditTask(t)
		}
		if page.Next == "" {
			return
		}
		f.Cursor = page.Next
	}
}

func (w *fixture) auditTask(t pawl.Task) {
	w.Helper()
	at := map[string]string{} // item id, or "" for the task → the state its events lead to
	moves := 0
	for _, e := range w.allEvents(pawl.EventFilter{TaskID: t.ID}) {
		if e.ActorType == "" || !strings.HasPrefix(e.ID, "evt_") {
			w.Errorf("audit: event %s %s has actor type %q", e.ID, e.Event, e.ActorType)
		}
		if e.Event == "updated" {
			moves++
		}
		if e.ToState != "" {
			if at[e.ItemID] != e.FromState {
				w.Errorf("audit: %s %s of %q goes from %q, but it was %q", e.ID, e.Event, e.ItemID, e.FromState, at[e.ItemID])
			}
			at[e.ItemID] = e.ToState
			if e.ItemID == "" {
				moves++
			}
		}
		if e.TaskTo != "" {
			if at[""] != e.TaskFrom {
				w.Errorf("audit: %s %s takes the task from %q, but it was %q", e.ID, e.Event, e.TaskFrom, at[""])
			}
			at[""] = e.TaskTo
			moves++
		}
	}
	if at[""] != string(t.State.Stored()) {
		w.Errorf("audit: task %s is %s, its events lead to %q", t.ID, t.State, at[""])
	}
	if t.Version != moves-1 {
		w.Errorf("audit: task %s has version %d after %d changes", t.ID, t.Version, moves-1)
	}
	items := w.items(t.ID)
	for _, i := range items {
		if at[i.ID] != string(i.State) {
			w.Errorf("audit: item %s is %s, its events lead to %q", i.ID, i.State, at[i.ID])
		}
	}
	work := 0
	for _, i := range items {
		if i.Kind == pawl.KindWork {
			work++
		}
	}
	if t.Items != work && len(items) < 1000 {
		w.Errorf("audit: task %s says %d items and has %d", t.ID, t.Items, work)
	}
	if len(at)-1 != len(items) && len(items) < 1000 {
		w.Errorf("audit: task %s has events of %d items and %d items", t.ID, len(at)-1, len(items))
	}
}
