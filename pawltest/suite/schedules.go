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
		w.same(s.LastTaskID == nil, true, "no task yet")
		w.sweep()
		w.same(len(w.madeBy("tick")), 0, "tasks before")
		w.advanceTo(first)
		w.sweep()
		w.sweep()
		tasks := w.madeBy("tick")
		w.same(len(tasks), 1, "tasks")
		w.same([]any{tasks[0].Type, string(tasks[0].Payload), string(tasks[0].Metadata)}, []any{"a", `{"n":1}`, `{"m":2}`}, "task")
		s = w.getSchedule("tick")
		w.same([]any{*s.LastTaskID, *s.LastTick, s.Next[0], s.Error == nil}, []any{tasks[0].ID, first, first.Add(time.Minute), true}, "schedule")
		w.same(w.outcomes("tick"), []pawl.FiringOutcome{pawl.FiringCreated}, "firings")
		events, err := w.svc.ListEvents(w.ctx, pawl.EventFilter{TaskID: tasks[0].ID, Asc: true})
		w.ok(err, "events")
		w.contains(string(events.Items[0].Data), `"schedule":"tick","tick":"`+first.Format(time.RFC3339)+`"`)
	}},
	{"a tick makes no task while an earlier one has not ended", func(w *fixture) {
		w.schedule(pawl.NewSchedule{Name: "s", EverySeconds: 60})
		w.fireTicks("s", 3)
		w.same(w.outcomes("s"), []pawl.FiringOutcome{pawl.FiringCreated, pawl.FiringSkipped, pawl.FiringSkipped}, "firings")
		w.complete(w.claim("w"), `1`)
		w.fireTicks("s", 1)
		w.same(len(w.madeBy("s")), 2, "tasks")
	}},
	{"the tasks of ticks pass the limits of their queue", func(w *fixture) {
		w.limit("a", `{"per_key":{"pointer":"/t","concurrency":1}}`)
		w.schedule(pawl.NewSchedule{Name: "s", EverySeconds: 60, Overlap: pawl.OverlapAllow,
			Task: pawl.NewTask{Type: "a", Payload: raw(`{"t":"x"}`)}})
		w.fireTicks("s", 2)
		l := w.takes("a", 10, 1)[0]
		w.complete(l, `1`)
		w.takes("a", 10, 1)
	}},
	{"the tasks of ticks keep their uniqueness", func(w *fixture) {
		unique := &pawl.Unique{By: "key", Key: "k", OnConflict: pawl.OnConflictReturn}
		w.schedule(pawl.NewSchedule{Name: "s", EverySeconds: 60, Overlap: pawl.OverlapAllow, Task: pawl.NewTask{Type: "a", Unique: unique}})
		w.fireTicks("s", 2)
		w.same(w.outcomes("s"), []pawl.FiringOutcome{pawl.FiringCreated, pawl.FiringDeduplicated}, "firings")
		w.same(w.queue("a").Queued, int64(1), "queued")
	}},
	{"a schedule that is put is made, left alone or replaced, and keeps its record", func(w *fixture) {
		put := func(s pawl.NewSchedule, created, unchanged bool) pawl.Schedule {
			out, err := w.svc.PutSchedule(w.ctx, s)
			w.ok(err, "put")
			w.same([]any{out.Created, out.Unchanged}, []any{created, unchanged}, "created, unchanged")
			got := w.getSchedule(s.Name)
			out.Created, out.Unchanged = false, false
			w.same(out, got, "schedule")
			return out
		}
		s := pawl.NewSchedule{Name: "p", EverySeconds: 60, Overlap: pawl.OverlapAllow, Task: pawl.NewTask{Type: "a", Payload: raw(`1`)}}
		first := put(s, true, false)
		put(s, false, true)
		w.fireTicks("p", 1)
		s.Task.Payload = raw(`2`)
		second := put(s, false, false)
		w.same([]any{second.CreatedAt, *second.LastTick, second.Next[0], *second.LastTaskID},
			[]any{first.CreatedAt, first.Next[0], first.Next[1], w.madeBy("p")[0].ID}, "place")
		w.fireTicks("p", 1)
		w.same(string(w.madeBy("p")[1].Payload), `2`, "payload")
		s.EverySeconds, s.Overlap = 600, pawl.OverlapSkip
		w.same(put(s, false, false).Next[0], first.CreatedAt.Truncate(time.Second).Add(10*time.Minute), "next of another rule")
		w.same(len(w.outcomes("p")), 2, "firings")
	}},
	{"a put of a schedule keeps a tick that is due, and makes none that has passed", func(w *fixture) {
		s := pawl.NewSchedule{Name: "p", EverySeconds: 60, CatchUp: pawl.CatchUpAll, Overlap: pawl.OverlapAllow, Task: pawl.NewTask{Type: "a"}}
		_, err := w.svc.PutSchedule(w.ctx, s)
		w.ok(err, "put")
		w.advance(2 * time.Minute)
		s.Task.Title = "later"
		_, err = w.svc.PutSchedule(w.ctx, s)
		w.ok(err, "put")
		w.sweep()
		w.same(len(w.madeBy("p")), 2, "tasks of the same rule")
		w.advance(2 * time.Minute)
		s.EverySeconds = 30
		_, err = w.svc.PutSchedule(w.ctx, s)
		w.ok(err, "put")
		w.sweep()
		w.same(len(w.madeBy("p")), 2, "tasks of another rule")
	}},
	{"a put of a paused schedule leaves it paused", func(w *fixture) {
		s := pawl.NewSchedule{Name: "p", EverySeconds: 60, Task: pawl.NewTask{Type: "a"}}
		w.schedule(s)
		_, err := w.svc.PauseSchedule(w.ctx, "p")
		w.ok(err, "pause")
		s.EverySeconds = 30
		out, err := w.svc.PutSchedule(w.ctx, s)
		w.ok(err, "put")
		w.same([]any{out.PausedAt != nil, len(out.Next)}, []any{true, 0}, "paused, next")
		w.advance(5 * time.Minute)
		w.sweep()
		w.same(len(w.madeBy("p")), 0, "tasks")
		out, err = w.svc.ResumeSchedule(w.ctx, "p")
		w.ok(err, "resume")
		w.fireTicks("p", 1)
		w.same([]any{out.EverySeconds, len(w.madeBy("p"))}, []any{30, 1}, "rule, tasks")
	}},
	{"a put that cannot be carried out changes nothing", func(w *fixture) {
		at := w.now().Add(time.Hour)
		s := pawl.NewSchedule{Name: "p", At: &at, CatchUp: pawl.CatchUpLast, Task: pawl.NewTask{Type: "a"}}
		w.schedule(s)
		w.advance(2 * time.Hour)
		w.sweep()
		before, past := w.getSchedule("p"), w.now().Add(-time.Minute)
		for pointer, bad := range map[string]pawl.NewSchedule{
			"/at":        {Name: "p", At: &past, Task: s.Task},
			"/cron":      {Name: "p", Cron: "0 0 30 2 *", Task: s.Task},
			"/zone":      {Name: "p", Cron: "@daily", Zone: "Mars", Task: s.Task},
			"/task/type": {Name: "p", Cron: "@daily"},
		} {
			_, err := w.svc.PutSchedule(w.ctx, bad)
			w.invalid(err, pointer)
		}
		w.same(w.getSchedule("p"), before, "schedule")
		s.Task.Title = "of a schedule that has fired"
		out, err := w.svc.PutSchedule(w.ctx, s)
		w.ok(err, "put")
		w.same([]any{len(out.Next), *out.LastTaskID}, []any{0, *before.LastTaskID}, "next, task")
		again := w.now().Add(time.Hour)
		s.At = &again
		out, err = w.svc.PutSchedule(w.ctx, s)
		w.ok(err, "put")
		w.same(len(out.Next), 1, "next of another time")
	}},
	{"queued ticks make their tasks one after the other", func(w *fixture) {
		w.schedule(pawl.NewSchedule{Name: "q", EverySeconds: 60, Overlap: pawl.OverlapQueue})
		w.fireTicks("q", 3)
		w.same(w.getSchedule("q").Queued, 2, "queued")
		for n := range 3 {
			w.same(len(w.madeBy("q")), n+1, "tasks")
			w.complete(w.claim("w"), `1`)
			w.advance(2 * time.Second)
			w.sweep()
		}
		w.same(w.outcomes("q"), []pawl.FiringOutcome{pawl.FiringCreated, pawl.FiringCreated, pawl.FiringCreated}, "firings")
	}},
	{"a tick may replace the earlier task", func(w *fixture) {
		w.schedule(pawl.NewSchedule{Name: "r", EverySeconds: 60, Overlap: pawl.OverlapReplace})
		w.fireTicks("r", 2)
		tasks := w.madeBy("r")
		w.same([]any{len(tasks), tasks[0].State, tasks[1].State}, []any{2, pawl.TaskCancelled, pawl.TaskQueued}, "tasks")
	}},
	{"of several ticks that replace each other the last makes a task, and all are recorded", func(w *fixture) {
		w.schedule(pawl.NewSchedule{Name: "r", EverySeconds: 600, CatchUp: pawl.CatchUpAll, Overlap: pawl.OverlapReplace})
		w.advance(35 * time.Minute)
		w.sweep()
		w.same(w.outcomes("r"), []pawl.FiringOutcome{pawl.FiringSkipped, pawl.FiringSkipped, pawl.FiringCreated}, "firings")
	}},
	{"missed ticks are recorded, and caught up as asked", func(w *fixture) {
		for _, how := range pawl.CatchUps {
			w.schedule(pawl.NewSchedule{Name: string(how), EverySeconds: 600, CatchUp: how, Overlap: pawl.OverlapAllow})
		}
		w.advance(35 * time.Minute)
		w.sweep()
		created, missed := pawl.FiringCreated, pawl.FiringMissed
		w.same(w.outcomes("none"), []pawl.FiringOutcome{missed, missed, missed}, "none")
		w.same(w.outcomes("last"), []pawl.FiringOutcome{missed, missed, created}, "last")
		w.same(w.outcomes("all"), []pawl.FiringOutcome{created, created, created}, "all")
	}},
	{"a paused schedule has no ticks, and can be run", func(w *fixture) {
		w.schedule(pawl.NewSchedule{Name: "p", EverySeconds: 60, CatchUp: pawl.CatchUpAll})
		_, err := w.svc.PauseSchedule(w.ctx, "p")
		w.ok(err, "pause")
		w.advance(5 * time.Minute)
		w.sweep()
		w.same(len(w.firings("p")), 0, "firings")
		ran, err := w.svc.RunSchedule(w.ctx, "p")
		w.ok(err, "run")
		w.same(w.task(*ran.LastTaskID).Schedule, "p", "schedule")
		resumed, err := w.svc.ResumeSchedule(w.ctx, "p")
		w.ok(err, "resume")
		w.same(resumed.Next[0].After(w.now()), true, "the next tick is ahead")
		w.sweep()
		w.same(len(w.firings("p")), 1, "firings")
	}},
	{"a schedule whose type is gone says so and goes on", func(w *fixture) {
		_, err := w.svc.PutTypes(w.ctx, []pawl.Type{{Name: "kept", PayloadSchema: raw(`{"type":"object"}`)}})
		w.ok(err, "put type")
		_, err = w.svc.CreateSchedule(w.ctx, pawl.NewSchedule{Name: "e", EverySeconds: 60, Task: pawl.NewTask{Type: "kept", Payload: raw(`1`)}})
		w.refused(err, pawl.CodeInvalid)
		w.schedule(pawl.NewSchedule{Name: "e", EverySeconds: 60, Task: pawl.NewTask{Type: "kept", Payload: raw(`{}`)}})
		w.schedule(pawl.NewSchedule{Name: "other", EverySeconds: 60})
		_, err = w.svc.RemoveTypes(w.ctx, []string{"kept"})
		w.ok(err, "remove type")
		w.fireTicks("e", 1)
		s := w.getSchedule("e")
		w.same([]any{s.Error != nil, s.ErrorAt != nil, len(s.Next), len(w.madeBy("e")), len(w.madeBy("other"))}, []any{true, true, 10, 0, 1},
			"schedule")
		_, err = w.svc.PutTypes(w.ctx, []pawl.Type{{Name: "kept"}})
		w.ok(err, "put type")
		w.fireTicks("e", 1)
		w.same(w.getSchedule("e").Error, (*pawl.Failure)(nil), "error")
		w.same(w.outcomes("e"), []pawl.FiringOutcome{pawl.FiringFailed, pawl.FiringCreated}, "firings")
	}},
	{"a schedule that cannot be is refused", func(w *fixture) {
		past := w.now().Add(-time.Minute)
		task := pawl.NewTask{Type: "a"}
		for _, s := range []pawl.NewSchedule{{Cron: "0 0 30 2 *", Task: task}, {Cron: "@daily", Zone: "Mars/Olympus", Task: task},
			{Cron: "@daily", EverySeconds: 1, Task: task}, {Task: task}, {At: &past, Task: task}, {EverySeconds: -1, Task: task},
			{Cron: "@daily", Overlap: "twice", Task: task}, {Cron: "@daily"}, {Cron: "@daily", Task: pawl.NewTask{Type: "a", RunAt: &past}}} {
			s.Name = "bad"
			_, err := w.svc.CreateSchedule(w.ctx, s)
			w.refused(err, pawl.CodeInvalid)
		}
	}},
	{"a schedule is created once, and is its namespace's", func(w *fixture) {
		def := pawl.NewSchedule{Name: "one", Cron: "@daily", Task: pawl.NewTask{Type: "a"}}
		w.same(w.schedule(def).Unchanged, false, "unchanged")
		w.same(w.schedule(def).Unchanged, true, "unchanged")
		def.Cron = "@hourly"
		_, err := w.svc.CreateSchedule(w.ctx, def)
		w.refused(err, pawl.CodeConflict)
		_, err = w.svc.GetSchedule(w.in("other").ctx, "one")
		w.refused(err, pawl.CodeNotFound)
		w.ok(w.svc.DeleteSchedule(w.ctx, "one"), "delete")
		w.refused(w.svc.DeleteSchedule(w.ctx, "one"), pawl.CodeNotFound)
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

// fireTicks sweeps at the next n ticks of a schedule.
func (w *fixture) fireTicks(name string, n int) {
	w.Helper()
	for range n {
		w.advanceTo(w.getSchedule(name).Next[0])
		w.sweep()
	}
}
