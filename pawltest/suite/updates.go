package suite

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
)

func (w *fixture) update(u pawl.TaskUpdate) pawl.Task {
	w.Helper()
	t, err := first(w.svc.UpdateTasks(w.ctx, []pawl.TaskUpdate{u}))
	w.ok(err, "update")
	return t
}

func (w *fixture) updateErr(u pawl.TaskUpdate) error {
	_, err := first(w.svc.UpdateTasks(w.ctx, []pawl.TaskUpdate{u}))
	return err
}

// claimOrder claims all items one by one and returns their keys in order.
func (w *fixture) claimOrder() string {
	w.Helper()
	var out []string
	for {
		ls := w.claims(pawl.ClaimRequest{WorkerID: "w1"})
		if len(ls) == 0 {
			return strings.Join(out, " ")
		}
		out = append(out, strings.Trim(string(ls[0].Input), `"`))
	}
}

var updates = noun{"updates", []promise{
	{"title, priority and metadata change, the version rises, one event says what", func(w *fixture) {
		for _, t := range []pawl.Task{
			w.create(pawl.NewTask{Type: "a", Title: "old", Metadata: raw(`{"repo":"x","n":1}`)}),
			w.create(pawl.NewTask{Type: "a", Title: "old", Metadata: raw(`{"repo":"x","n":1}`),
				Items: []pawl.NewItem{{Input: raw(`1`), Key: "k"}, {Input: raw(`2`)}}}),
		} {
			w.advance(time.Second)
			got := w.as("user", "ana").update(pawl.TaskUpdate{TaskID: t.ID, Title: ptr("new"), Priority: ptr(5), Metadata: raw(`{"n":null,"pr":7}`)})
			w.same(got, w.task(t.ID), "the task read back")
			w.same(
				[]any{got.Title, got.Priority, string(got.Metadata), got.Version, got.State},
				[]any{"new", 5, `{"pr":7,"repo":"x"}`, 1, pawl.TaskQueued},
				"the task",
			)
			w.same(got.UpdatedAt, w.now(), "updated_at")
			w.same(got.LastTransitionedAt, t.CreatedAt, "last_transitioned_at: no state changed")
			es := w.allEvents(pawl.EventFilter{TaskID: t.ID, Event: "updated"})
			w.same(len(es), 1, "events")
			w.same([]any{es[0].ItemID, es[0].ActorType, es[0].ActorID, string(es[0].Diff)}, []any{"", "user", "ana",
				`{"metadata":{"from":{"repo":"x","n":1},"to":{"pr":7,"repo":"x"}},"priority":{"from":0,"to":5},"title":{"from":"old","to":"new"}}`},
				"the event")
		}
	}},
	{"an update without a change leaves no event and keeps the version", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "a", Title: "same", Priority: 3, Metadata: raw(`{ "b": 1, "a": 2 }`)})
		got := w.update(pawl.TaskUpdate{TaskID: t.ID, Title: ptr("same"), Priority: ptr(3), Metadata: raw(`{"a": 2, "gone": null}`)})
		w.same(got, t, "the task")
		w.same(len(w.allEvents(pawl.EventFilter{TaskID: t.ID})), 1, "events")
	}},
	{"metadata is merged, within too; an empty title is none", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "a", Title: "x", Metadata: raw(`{"a":{"b":1,"c":[1,2]},"big":12345678901234567890,"s":"<é>"}`)})
		got := w.update(pawl.TaskUpdate{TaskID: t.ID, Title: ptr(""), Metadata: raw(`{"a":{"b":null,"c":[3]},"d":{"e":null,"f":1.50}}`)})
		w.same(string(got.Metadata), `{"a":{"c":[3]},"big":12345678901234567890,"d":{"f":1.50},"s":"<é>"}`, "metadata")
		w.same(got.Title, "", "title")
	}},
	{"only the version that was seen: a stale one is a precondition, with the state", func(w *fixture) {
		t := w.oneItem()
		got := w.update(pawl.TaskUpdate{TaskID: t.ID, Version: ptr(0), Title: ptr("one")})
		w.same(got.Version, 1, "version")
		e := w.refused(w.updateErr(pawl.TaskUpdate{TaskID: t.ID, Version: ptr(0), Title: ptr("two")}), pawl.CodePrecondition)
		w.same([]any{e.State, len(e.Allowed) > 0}, []any{"queued", true}, "state and allowed")
		w.same(w.task(t.ID), got, "the task")
		w.refused(w.updateErr(pawl.TaskUpdate{TaskID: t.ID, Version: ptr(2), Title: ptr("two")}), pawl.CodePrecondition)
		w.same(w.update(pawl.TaskUpdate{TaskID: t.ID, Version: ptr(1), Title: ptr("two")}).Version, 2, "version")
	}},
	{"of concurrent updates with the same version one wins", func(w *fixture) {
		for _, t := range []pawl.Task{w.oneItem(), w.manyItems(2)} {
			var mu sync.Mutex
			var wg sync.WaitGroup
			won := 0
			for n := range 8 {
				wg.Go(func() {
					_, err := first(
						w.svc.UpdateTasks(w.ctx, []pawl.TaskUpdate{{TaskID: t.ID, Version: ptr(0), Priority: ptr(n + 1), Title: ptr(fmt.Sprint(n))}}),
					)
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						won++
					} else if pawl.CodeOf(err) != pawl.CodePrecondition && pawl.CodeOf(err) != pawl.CodeUnavailable {
						w.Errorf("update: %v", err)
					}
				})
			}
			wg.Wait()
			w.same([]any{won, w.task(t.ID).Version}, []any{1, 1}, "updates that came through, and the version")
		}
	}},
	{"a new priority is that of its items which had the task's, wherever they are", func(w *fixture) {
		at := w.now().Add(time.Hour)
		t := w.create(pawl.NewTask{Type: "a", Priority: 1, Items: []pawl.NewItem{
			{
				Input: raw(`"queued"`),
				Key:   "q",
			}, {Input: raw(`"own"`), Priority: ptr(7)}, {Input: raw(`"later"`), RunAt: &at}, {Input: raw(`"after"`), After: []string{"q"}},
			{Input: raw(`"held"`)}, {Input: raw(`"failed"`)}, {Input: raw(`"done"`)}, {Input: raw(`"back"`)},
		}})
		w.create(pawl.NewTask{Type: "a", Priority: 4, Payload: raw(`"other"`)})
		byInput := func() map[string]pawl.Item {
			out := map[string]pawl.Item{}
			for _, i := range w.items(t.ID) {
				out[strings.Trim(string(i.Input), `"`)] = i
			}
			return out
		}
		is := byInput()
		held := w.claimItem("w1", is["held"].ID)
		w.failPermanently(w.claimItem("w1", is["failed"].ID), "no")
		w.complete(w.claimItem("w1", is["done"].ID), `1`)
		w.release(w.claimItem("w1", is["back"].ID))
		w.same(w.update(pawl.TaskUpdate{TaskID: t.ID, Priority: ptr(5)}).Priority, 5, "priority")
		for input, i := range byInput() {
			want := map[string]int{"own": 7, "done": 1}[input]
			if want == 0 {
				want = 5
			}
			w.same(i.Priority, want, "priority of "+input)
		}
		w.heartbeat(held)
		w.release(held)
		w.retry(t.ID, is["failed"].ID)
		w.same(w.claimOrder(), "own held failed back queued other", "the order of claims")
	}},
	{"a task with a lowered priority is claimed after others", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "a", Priority: 9, Payload: raw(`"first"`)})
		w.create(pawl.NewTask{Type: "a", Priority: 5, Payload: raw(`"second"`)})
		w.update(pawl.TaskUpdate{TaskID: t.ID, Priority: ptr(-9)})
		w.same(w.claimOrder(), "second first", "the order of claims")
	}},
	{"an update does not change a worker's lease", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		w.update(pawl.TaskUpdate{TaskID: t.ID, Priority: ptr(3), Title: ptr("x")})
		w.heartbeat(l)
		w.complete(l, `1`)
		got := w.task(t.ID)
		w.same([]any{got.State, got.Version, got.Priority}, []any{pawl.TaskCompleted, 2, 3}, "the task")
	}},
	{"the version goes on counting through failures and retries", func(w *fixture) {
		t := w.oneItem()
		w.update(pawl.TaskUpdate{TaskID: t.ID, Title: ptr("1")})
		w.failPermanently(w.claim("w1"), "no")
		w.same(w.task(t.ID).Version, 2, "failed")
		w.same(w.update(pawl.TaskUpdate{TaskID: t.ID, Version: ptr(2), Priority: ptr(1)}).Version, 3, "updated")
		w.retry(t.ID)
		w.same(w.task(t.ID).Version, 4, "retried")
		w.complete(w.claim("w1"), `1`)
		w.same(w.task(t.ID).Version, 5, "completed")
	}},
	{"an ended task is not changed", func(w *fixture) {
		for _, state := range []pawl.ItemState{pawl.ItemCompleted, pawl.ItemCancelled} {
			t := w.oneItem()
			w.moveTo(t.ID, w.onlyItem(t.ID).ID, state)
			before := w.task(t.ID)
			w.conflict(w.updateErr(pawl.TaskUpdate{TaskID: t.ID, Title: ptr("late")}), string(state))
			w.same(w.task(t.ID), before, "the task")
		}
	}},
	{"errors name the wrong field, and nothing is changed", func(w *fixture) {
		t := w.oneItem()
		w.invalid(w.updateErr(pawl.TaskUpdate{TaskID: t.ID}), "")
		w.invalid(w.updateErr(pawl.TaskUpdate{TaskID: t.ID, Title: ptr(strings.Repeat("x", 201))}), "/title")
		w.invalid(w.updateErr(pawl.TaskUpdate{TaskID: t.ID, Priority: ptr(40000)}), "/priority")
		w.invalid(w.updateErr(pawl.TaskUpdate{TaskID: t.ID, Metadata: raw(`[1]`)}), "/metadata")
		w.invalid(w.updateErr(pawl.TaskUpdate{TaskID: t.ID, Metadata: raw(`{"a":"\ud800"}`)}), "/metadata")
		full := raw(`{"a":"` + strings.Repeat("x", 10<<10) + `"}`)
		w.update(pawl.TaskUpdate{TaskID: t.ID, Metadata: full})
		w.invalid(w.updateErr(pawl.TaskUpdate{TaskID: t.ID, Metadata: raw(`{"b":"` + strings.Repeat("x", 10<<10) + `"}`)}), "/metadata")
		w.refused(w.updateErr(pawl.TaskUpdate{TaskID: "tsk_01ARZ3NDEKTSV4RRFFQ69G5FAV", Title: ptr("x")}), pawl.CodeNotFound)
		w.refused(w.in("other").updateErr(pawl.TaskUpdate{TaskID: t.ID, Title: ptr("x")}), pawl.CodeNotFound)
		w.same(w.task(t.ID).Version, 1, "version")
	}},
	{"each call of a batch is answered on its own, in order", func(w *fixture) {
		t := w.oneItem()
		rs, err := w.svc.UpdateTasks(
			w.ctx,
			[]pawl.TaskUpdate{{TaskID: t.ID, Title: ptr("1")}, {TaskID: "tsk_nope", Title: ptr("1")}, {TaskID: t.ID, Title: ptr("2")}},
		)
		w.ok(err, "update")
		w.ok(rs[0].Err, "first")
		w.refused(rs[1].Err, pawl.CodeNotFound)
		w.same(rs[2].Value.Version, 2, "version")
	}},
	{"concurrent claims and updates lose no item", func(w *fixture) {
		t := w.manyItems(12)
		var wg sync.WaitGroup
		for n := range 3 {
			wg.Go(func() {
				for range 40 {
					ls, err := w.svc.Claim(w.ctx, pawl.ClaimRequest{WorkerID: fmt.Sprint("w", n), Limit: 2})
					if err != nil {
						w.Errorf("claim: %v", err)
					}
					for _, l := range ls {
						_, err := pawl.Release(w.ctx, w.svc, l.Fence())
						if err != nil && pawl.CodeOf(err) != pawl.CodeUnavailable {
							w.Errorf("release: %v", err)
						}
					}
				}
			})
		}
		for n := range 15 {
			if err := w.updateErr(pawl.TaskUpdate{TaskID: t.ID, Priority: ptr(n%5 - 2)}); err != nil && pawl.CodeOf(err) != pawl.CodeUnavailable {
				w.Errorf("update: %v", err)
			}
		}
		wg.Wait()
		p := w.task(t.ID).Priority
		for _, i := range w.items(t.ID) {
			w.same(i.Priority, p, "priority of "+i.ID)
		}
	}},
}}
