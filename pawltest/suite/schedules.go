package suite

import (
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

var cron = noun{"schedules", []promise{
	{"a schedule makes a task at each of its times", func(w *fixture) {
		s := w.schedule(pawl.NewSchedule{Name: "tick", EverySeconds: 60, Task: pawl.NewTask{Type: "a", Payload: raw(`{"n":1}`),
			Metadata: raw(`{"m":2}`)}})
		first := s.Next[0]
		w.same(len(s.Next), 10, "next")
		w.same(s.Next[9], first.Add(9*time.Minute), "the tenth")
		w.sweep()
		w.same(len(w.madeBy("tick")), 0, "tasks before")
		w.advanceTo(first)
		w.sweep()
		w.sweep()
		tasks := w.madeBy("tick")
		w.same(len(tasks), 1, "tasks")
		w.same([]any{tasks[0].Type, string(tasks[0].Payload), string(tasks[0].Metadata)}, []any{"a", `{"n":1}`, `{"m":2}`}, "task")
		s = w.getSchedule("tick")
		w.same([]any{s.LastTaskID, *s.LastTick, s.Next[0], s.Error == nil}, []any{tasks[0].ID, first, first.Add(time.Minute), true}, "schedule")
		w.same(w.outcomes("tick"), []pawl.FiringOutcome{pawl.FiringCreated}, "firings")
		events, err := w.svc.ListEvents(w.ctx, pawl.EventFilter{TaskID: tasks[0].ID, Asc: true})
		w.ok(err, "events")
		w.contains(string(events.Items[0].Data), `"schedule":"tick","tick":"`+first.Format(time.RFC3339)+`"`)
	}},
}}

func (w *fixture) schedule(s pawl.NewSchedule) pawl.Schedule {
	w.Helper()
	if s.Task.Type == "" {
		s.Task.Type = "a"
	}
	out, err := w.svc.CreateSchedule(w.ctx, s)
	w.ok(err, "create schedule")
	return out
}

func (w *fixture) getSchedule(name string) pawl.Schedule {
	w.Helper()
	s, err := w.svc.GetSchedule(w.ctx, name)
	w.ok(err, "get schedule")
	return s
}

// advanceTo moves the clock to a time.
func (w *fixture) advanceTo(at time.Time) { w.advance(at.Sub(w.now())) }

// madeBy lists the tasks that a schedule has made, oldest first.
func (w *fixture) madeBy(name string) []pawl.Task {
	w.Helper()
	list, err := w.svc.ListTasks(w.ctx, pawl.TaskFilter{Asc: true, Page: pawl.Page{Limit: 1000}})
	w.ok(err, "list")
	return slices.DeleteFunc(list.Items, func(t pawl.Task) bool { return t.Schedule != name })
}

// outcomes lists what became of a schedule's ticks, oldest first.
func (w *fixture) outcomes(name string) (out []pawl.FiringOutcome) {
	w.Helper()
	for _, f := range w.firings(name) {
		out = append(out, f.Outcome)
	}
	return out
}

// firings lists the firings of a schedule, oldest first.
func (w *fixture) firings(name string) []pawl.Firing {
	w.Helper()
	list, err := w.svc.ListFirings(w.ctx, pawl.FiringFilter{Schedule: name, Page: pawl.Page{Limit: 1000}})
	w.ok(err, "firings")
	slices.Reverse(list.Items)
	return list.Items
}

func (w *fixture) contains(text, part string) {
	w.Helper()
	if !strings.Contains(text, part) {
		w.Fatalf("%s has no %s", text, part)
	}
}
