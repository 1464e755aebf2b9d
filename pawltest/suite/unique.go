package suite

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
)

// unique returns a task whose key is "k".
func unique(payload, onConflict string) pawl.NewTask {
	return pawl.NewTask{Type: "a", Payload: raw(payload), Unique: &pawl.Unique{By: pawl.UniqueByKey, Key: "k", OnConflict: onConflict}}
}

// taken checks that a create was refused because of an older task.
func (w *fixture) taken(t pawl.NewTask, older string) {
	w.Helper()
	_, err := pawl.Create(w.ctx, w.svc, t)
	w.same(w.refused(err, pawl.CodeConflict).TaskID, older, "task_id of the conflict")
}

// finds checks that a create returns an older task.
func (w *fixture) finds(t pawl.NewTask, older string) pawl.Task {
	w.Helper()
	got := w.create(t)
	w.same([]any{got.ID, got.Deduplicated}, []any{older, true}, "the task")
	return got
}

// isNew checks that a create makes a task.
func (w *fixture) isNew(t pawl.NewTask) pawl.Task {
	w.Helper()
	got := w.create(t)
	w.same(got.Deduplicated, false, "deduplicated")
	w.same(len(w.items(got.ID)), max(1, len(t.Items)), "items")
	return got
}

var uniqueness = noun{"unique", []promise{
	{"a second task with the key is refused, with the id of the older one", func(w *fixture) {
		a := w.isNew(unique(`1`, ""))
		w.taken(unique(`2`, ""), a.ID)
		w.taken(unique(`2`, pawl.OnConflictReject), a.ID)
		l := w.claim("w1")
		w.taken(unique(`2`, ""), a.ID)
		w.complete(l, `1`)
		b := w.isNew(unique(`2`, ""))
		w.taken(unique(`3`, ""), b.ID)
		w.cancel(b.ID)
		w.isNew(unique(`3`, ""))
	}},
	{"return answers with the older task", func(w *fixture) {
		a := w.isNew(unique(`1`, pawl.OnConflictReturn))
		got := w.finds(unique(`2`, pawl.OnConflictReturn), a.ID)
		w.same([]any{string(got.Payload), got.Version}, []any{"1", 0}, "the older task")
		w.same(len(w.allEvents(pawl.EventFilter{TaskID: a.ID})), 1, "events")
	}},
	{"replace gives the older task another payload", func(w *fixture) {
		a := w.isNew(unique(`{"n":1}`, pawl.OnConflictReplace))
		got := w.finds(unique(`{"n":2}`, pawl.OnConflictReplace), a.ID)
		w.same([]any{string(got.Payload), got.Version, got.State}, []any{`{"n":2}`, 1, pawl.TaskQueued}, "the older task")
		w.finds(unique(`{"n":2}`, pawl.OnConflictReplace), a.ID)
		events := w.allEvents(pawl.EventFilter{TaskID: a.ID})
		w.same([]any{len(events), events[1].Event}, []any{2, "updated"}, "events")
		w.contains(string(events[1].Diff), `"payload"`)
		l := w.claim("w1")
		w.same([]any{string(l.Input), l.Attempt}, []any{`{"n":2}`, 1}, "the lease")
		w.complete(l, `1`)
	}},
	{"a task that a worker has claimed is not replaced", func(w *fixture) {
		a := w.isNew(unique(`1`, ""))
		l := w.claim("w1")
		w.taken(unique(`2`, pawl.OnConflictReplace), a.ID)
		w.release(l)
		w.taken(unique(`2`, pawl.OnConflictReplace), a.ID)
		w.same(string(w.claim("w1").Input), "1", "input")
	}},
	{"a scheduled task is replaced and keeps its time", func(w *fixture) {
		at := w.now().Add(time.Hour).Truncate(time.Microsecond)
		ask := unique(`1`, pawl.OnConflictReplace)
		ask.RunAt = &at
		a := w.isNew(ask)
		w.finds(unique(`2`, pawl.OnConflictReplace), a.ID)
		it := w.onlyItem(a.ID)
		w.same([]any{it.State, string(it.Input)}, []any{pawl.ItemScheduled, "2"}, "the item")
		w.timeIs(it.RunAt, at, "run_at")
	}},
	{"tasks of many items are not replaced", func(w *fixture) {
		ask := unique(`1`, pawl.OnConflictReplace)
		ask.Items = []pawl.NewItem{{Input: raw(`1`)}, {Input: raw(`2`)}}
		a := w.isNew(ask)
		w.taken(ask, a.ID)
		w.taken(unique(`2`, pawl.OnConflictReplace), a.ID)
		ask.Unique.OnConflict = pawl.OnConflictReturn
		w.finds(ask, a.ID)
		w.cancel(a.ID)
		b := w.isNew(unique(`3`, ""))
		ask.Unique.OnConflict = pawl.OnConflictReplace
		w.taken(ask, b.ID)
	}},
	{"a payload must fit the type also when it replaces one", func(w *fixture) {
		w.putType(pawl.Type{Name: "a", InputSchema: raw(`{"type":"integer"}`)})
		a := w.isNew(unique(`1`, ""))
		_, err := pawl.Create(w.ctx, w.svc, unique(`"text"`, pawl.OnConflictReplace))
		w.invalid(err, "/payload")
		w.putType(pawl.Type{Name: "a", InputSchema: raw(`{"type":"string"}`)})
		_, err = pawl.Create(w.ctx, w.svc, unique(`"text"`, pawl.OnConflictReplace))
		w.invalid(err, "/payload")
		w.same(string(w.task(a.ID).Payload), "1", "payload")
		w.same(w.onlyItem(a.ID).State, pawl.ItemQueued, "state")
	}},
	{"by input compares payload and items", func(w *fixture) {
		ask := pawl.NewTask{Type: "a", Payload: raw(`{"a":1,"b":2}`), Unique: &pawl.Unique{By: pawl.UniqueByInput}}
		a := w.isNew(ask)
		same := ask
		same.Payload = raw(`{ "b": 2, "a": 1 }`)
		w.taken(same, a.ID)
		same.Items = []pawl.NewItem{{Input: raw(`1`)}}
		w.isNew(same)
		ask.Payload = raw(`{"a":1,"b":3}`)
		w.isNew(ask)
		w.isNew(unique(`{"a":1,"b":2}`, ""))
	}},
	{"within a type and a namespace", func(w *fixture) {
		a := w.isNew(unique(`1`, ""))
		ask := unique(`1`, "")
		ask.Type = "b"
		w.isNew(ask)
		w.in("other").isNew(unique(`1`, ""))
		w.taken(unique(`1`, ""), a.ID)
	}},
	{"a window outlives the task, from its creation", func(w *fixture) {
		ask := unique(`1`, "")
		ask.Unique.WindowSeconds = 600
		a := w.isNew(ask)
		w.complete(w.claim("w1"), `1`)
		w.advance(599 * time.Second)
		w.sweep()
		w.taken(unique(`2`, ""), a.ID)
		w.taken(unique(`2`, pawl.OnConflictReplace), a.ID)
		got := w.finds(unique(`2`, pawl.OnConflictReturn), a.ID)
		w.same(got.State, pawl.TaskCompleted, "state")
		w.advance(2 * time.Second)
		w.isNew(ask)
	}},
	{"a window outlives retention", func(w *fixture) {
		ask := unique(`1`, "")
		ask.Unique.WindowSeconds = 40 * 86400
		a := w.isNew(ask)
		w.complete(w.claim("w1"), `1`)
		w.advance(30*24*time.Hour + time.Second)
		w.same(w.sweep().TasksPruned, int64(1), "pruned")
		for _, onConflict := range []string{"", pawl.OnConflictReplace, pawl.OnConflictReturn} {
			w.taken(unique(`2`, onConflict), a.ID)
		}
		w.advance(10 * 24 * time.Hour)
		b := w.isNew(unique(`2`, pawl.OnConflictReplace))
		w.taken(unique(`3`, ""), b.ID)
	}},
	{"a create beside retention finds the key as long as its window", func(w *fixture) {
		for n := range 9 {
			onConflict := []string{"", pawl.OnConflictReplace, pawl.OnConflictReturn}[n%3]
			ask := unique(`1`, "")
			ask.Unique.WindowSeconds = 40 * 86400
			a := w.isNew(ask)
			w.complete(w.claim("w1"), `1`)
			w.advance(30*24*time.Hour + time.Second)
			var got pawl.Task
			var err error
			concurrently(func() { w.sweep() }, func() { got, err = pawl.Create(w.ctx, w.svc, unique(`2`, onConflict)) })
			if err != nil {
				got.ID = w.refused(err, pawl.CodeConflict).TaskID
			}
			w.same(got.ID, a.ID, "the older task")
			w.advance(10 * 24 * time.Hour)
		}
	}},
	{"a live task keeps its key after the window", func(w *fixture) {
		ask := unique(`1`, "")
		ask.Unique.WindowSeconds = 60
		a := w.isNew(ask)
		w.advance(time.Hour)
		w.sweep()
		w.taken(unique(`2`, ""), a.ID)
	}},
	{"a failed task does not keep its key, and has it again when it is retried", func(w *fixture) {
		a := w.isNew(unique(`1`, ""))
		w.failPermanently(w.claim("w1"), "no")
		w.sweep()
		w.retry(a.ID)
		w.taken(unique(`2`, ""), a.ID)
		w.failPermanently(w.claim("w1"), "no")
		b := w.isNew(unique(`2`, ""))
		w.retry(a.ID)
		w.taken(unique(`3`, ""), b.ID)
		w.cancel(b.ID)
		w.isNew(unique(`3`, ""))
	}},
	{"a deleted task gives its key up", func(w *fixture) {
		ask := unique(`1`, "")
		ask.Unique.WindowSeconds = 600
		a := w.isNew(ask)
		w.remove(a.ID, true)
		w.isNew(ask)
	}},
	{"calls of one batch see each other", func(w *fixture) {
		rs, err := w.svc.CreateTasks(w.ctx, []pawl.NewTask{unique(`1`, ""), unique(`2`, pawl.OnConflictReturn), unique(`3`, ""), unique(`4`,
			pawl.OnConflictReplace)})
		w.ok(err, "create")
		w.ok(rs[0].Err, "the first")
		w.same([]any{rs[1].Value.ID, rs[1].Value.Deduplicated, rs[3].Value.ID, string(rs[3].Value.Payload)},
			[]any{rs[0].Value.ID, true, rs[0].Value.ID, "4"}, "the others")
		w.same(w.refused(rs[2].Err, pawl.CodeConflict).TaskID, rs[0].Value.ID, "task_id")
	}},
	{"what cannot be meant is refused", func(w *fixture) {
		long := fmt.Sprintf("%0256d", 1)
		for pointer, bad := range map[string]pawl.NewTask{
			"/unique/by":             {Unique: &pawl.Unique{}},
			"/unique/on_conflict":    {Unique: &pawl.Unique{By: "input", OnConflict: "ignore"}},
			"/unique/window_seconds": {Unique: &pawl.Unique{By: "input", WindowSeconds: -1}},
			"/unique/key":            {Unique: &pawl.Unique{By: "input", Key: "k"}},
			"/unique":                {Unique: &pawl.Unique{By: "input"}, Dedupe: pawl.Dedupe{All: true}},
			"/debounce":              {Unique: &pawl.Unique{By: "input"}, Debounce: &pawl.Debounce{Key: "k", Seconds: 1}},
			"/debounce/seconds":      {Debounce: &pawl.Debounce{Key: "k"}},
			"/debounce/key":          {Debounce: &pawl.Debounce{Key: long, Seconds: 1}},
			"/debounce/max_seconds":  {Debounce: &pawl.Debounce{Key: "k", Seconds: 10, MaxSeconds: 9}},
			"/run_at":                {Debounce: &pawl.Debounce{Key: "k", Seconds: 10}, RunAt: ptr(w.now())},
		} {
			bad.Type = "a"
			_, err := pawl.Create(w.ctx, w.svc, bad)
			w.invalid(err, pointer)
		}
		for _, bad := range []pawl.NewTask{
			{Unique: &pawl.Unique{By: "key"}}, {Unique: &pawl.Unique{By: "key", Key: long}}, {Unique: &pawl.Unique{By: "key", Key: "a\x00"}},
			{Unique: &pawl.Unique{By: "input", WindowSeconds: pawl.MaxUniqueSeconds + 1}}, {Unique: &pawl.Unique{By: "input"}, InputHash: "h"},
			{Debounce: &pawl.Debounce{Key: "k", Seconds: -1}}, {Debounce: &pawl.Debounce{Key: "k", Seconds: pawl.MaxDebounceSeconds + 1}},
			{Debounce: &pawl.Debounce{Key: "k", Seconds: 1}, InputHash: "h"}, {Debounce: &pawl.Debounce{Seconds: 1}},
			{Debounce: &pawl.Debounce{Key: "k", Seconds: 1}, Items: []pawl.NewItem{{Input: raw(`1`)}, {Input: raw(`2`)}}},
			{Debounce: &pawl.Debounce{Key: "k", Seconds: 1}, Items: []pawl.NewItem{{Input: raw(`1`), RunAt: ptr(w.now())}}},
			{Debounce: &pawl.Debounce{Key: "k", Seconds: 1}, Items: []pawl.NewItem{{Input: raw(`1`), Key: "x"}}},
		} {
			bad.Type = "a"
			_, err := pawl.Create(w.ctx, w.svc, bad)
			w.refused(err, pawl.CodeInvalid)
		}
		w.noneClaimable()
	}},
	{"of concurrent creates one makes the task", func(w *fixture) {
		for _, onConflict := range []string{pawl.OnConflictReject, pawl.OnConflictReturn, pawl.OnConflictReplace} {
			made, found, refused := w.createTogether(16, func(n int) pawl.NewTask { return unique(fmt.Sprint(n), onConflict) })
			w.same(len(made), 1, "new tasks by "+onConflict)
			w.same([]int{len(found), refused}, map[bool][]int{true: {0, 15}, false: {15, 0}}[onConflict == pawl.OnConflictReject], onConflict)
			for _, id := range found {
				w.same(id, made[0], "the task that was found")
			}
			w.cancel(made[0])
		}
	}},
	{"a worker that claims has the payload that the creator was told", func(w *fixture) {
		for range 20 {
			a := w.isNew(unique(`1`, ""))
			var got []pawl.Lease
			var refused error
			concurrently(
				func() { got, _ = w.svc.Claim(w.ctx, pawl.ClaimRequest{WorkerID: "w1", Types: []string{"a"}}) },
				func() { _, refused = pawl.Create(w.ctx, w.svc, unique(`2`, pawl.OnConflictReplace)) },
			)
			if len(got) == 0 {
				got = []pawl.Lease{w.claim("w1")}
			}
			want := map[bool]string{true: "2", false: "1"}[refused == nil]
			w.same([]string{string(got[0].Input), string(w.task(a.ID).Payload)}, []string{want, want}, "payload")
			w.complete(got[0], `1`)
		}
	}},
	{"a create beside the end or the deletion of the older task loses no key", func(w *fixture) {
		for n := range 20 {
			a := w.isNew(unique(`1`, ""))
			l := w.claim("w1")
			var b pawl.Task
			var err error
			concurrently(
				func() {
					if n%2 == 0 {
						w.complete(l, `1`)
					} else {
						w.remove(a.ID, true)
					}
				},
				func() { b, err = pawl.Create(w.ctx, w.svc, unique(`2`, "")) },
			)
			if err != nil {
				w.same(w.refused(err, pawl.CodeConflict).TaskID, a.ID, "task_id")
				b = w.isNew(unique(`2`, ""))
			}
			w.taken(unique(`3`, ""), b.ID)
			w.cancel(b.ID)
		}
	}},
}}

// createTogether creates tasks at the same time. It returns the ids of the new ones and of
// those that were found, and how many calls were refused.
func (w *fixture) createTogether(n int, ask func(n int) pawl.NewTask) (made, found []string, refused int) {
	w.Helper()
	var mu sync.Mutex
	fns := make([]func(), n)
	for i := range fns {
		fns[i] = func() {
			t, err := pawl.Create(w.ctx, w.svc, ask(i))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, pawl.ErrConflict):
				refused++
			case err != nil:
				w.Errorf("create: %v", err)
			case t.Deduplicated:
				found = append(found, t.ID)
			default:
				made = append(made, t.ID)
			}
		}
	}
	concurrently(fns...)
	return made, found, refused
}

// debounced returns a task that is debounced for 10 s, and for at most the given time.
func debounced(payload string, most int) pawl.NewTask {
	return pawl.NewTask{Type: "a", Payload: raw(payload), Debounce: &pawl.Debounce{Key: "k", Seconds: 10, MaxSeconds: most}}
}

var debounces = noun{"debounce", []promise{
	{"each create moves the time on and replaces the payload", func(w *fixture) {
		began := w.now()
		a := w.isNew(debounced(`1`, 0))
		w.same(w.onlyItem(a.ID).State, pawl.ItemScheduled, "state")
		w.advance(8 * time.Second)
		got := w.finds(debounced(`2`, 0), a.ID)
		w.same([]any{string(got.Payload), got.Version}, []any{"2", 1}, "the task")
		if at := *w.onlyItem(a.ID).RunAt; at.Sub(began) < 18*time.Second || at.Sub(began) > 28*time.Second {
			w.Errorf("run_at is %v after the beginning", at.Sub(began))
		}
		w.contains(string(w.allEvents(pawl.EventFilter{TaskID: a.ID})[1].Diff), `"run_at"`)
		w.advance(5 * time.Second)
		w.sweep()
		w.noneClaimable()
		w.advance(6 * time.Second)
		w.sweep()
		w.same(string(w.claim("w1").Input), "2", "input")
	}},
	{"for no longer than max_seconds of the first", func(w *fixture) {
		a := w.isNew(debounced(`0`, 25))
		first := w.onlyItem(a.ID).RunAt.Add(-10 * time.Second)
		for n := range 3 {
			w.advance(7 * time.Second)
			w.finds(debounced(fmt.Sprint(n), 1000), a.ID)
		}
		w.timeIs(w.onlyItem(a.ID).RunAt, first.Add(25*time.Second), "run_at")
		w.advance(5 * time.Second)
		w.isNew(debounced(`9`, 0))
		w.sweep()
		w.same(string(w.claim("w1").Input), "2", "input")
	}},
	{"ten times as long, if no maximum is given", func(w *fixture) {
		a := w.isNew(debounced(`0`, 0))
		first := w.onlyItem(a.ID).RunAt.Add(-10 * time.Second)
		for range 11 {
			w.advance(9 * time.Second)
			w.finds(debounced(`1`, 0), a.ID)
		}
		w.timeIs(w.onlyItem(a.ID).RunAt, first.Add(100*time.Second), "run_at")
	}},
	{"a task that is due or was claimed is followed by a new one", func(w *fixture) {
		a := w.isNew(debounced(`1`, 0))
		w.advance(11 * time.Second)
		b := w.isNew(debounced(`2`, 0)) // the older one is due, and not swept
		w.finds(debounced(`3`, 0), b.ID)
		w.sweep()
		w.same(w.claim("w1").TaskID, a.ID, "the task that was claimed")
		w.cancel(b.ID)
		w.isNew(debounced(`4`, 0))
	}},
	{"other keys, types and unique keys are apart", func(w *fixture) {
		w.isNew(debounced(`1`, 0))
		w.isNew(unique(`1`, ""))
		ask := debounced(`1`, 0)
		ask.Debounce.Key = "other"
		w.isNew(ask)
		ask = debounced(`1`, 0)
		ask.Type = "b"
		w.isNew(ask)
	}},
	{"of concurrent creates one makes the task", func(w *fixture) {
		made, found, refused := w.createTogether(16, func(n int) pawl.NewTask { return debounced(fmt.Sprint(n), 0) })
		w.same([]int{len(made), len(found), refused}, []int{1, 15, 0}, "tasks")
		w.same(w.task(made[0]).Version, 15, "version")
	}},
	{"a create beside the task's time is not lost", func(w *fixture) {
		for range 10 {
			a := w.isNew(debounced(`1`, 0))
			w.advance(10*time.Second + time.Millisecond)
			var b pawl.Task
			concurrently(
				func() { b = w.create(debounced(`2`, 0)) },
				func() { w.sweep() },
			)
			w.same([]bool{b.Deduplicated, b.ID == a.ID}, []bool{false, false}, "a task that was due was found")
			w.sweep() // the other one leaves out rows that a create looks at
			l := w.claim("w1")
			w.same([]string{l.TaskID, string(l.Input)}, []string{a.ID, "1"}, "the lease")
			w.complete(l, `1`)
			w.cancel(b.ID)
		}
	}},
}}
