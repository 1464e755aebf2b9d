package suite

import (
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

func (w *fixture) clone(c pawl.TaskClone) pawl.Task {
	w.Helper()
	t, err := first(w.svc.CloneTasks(w.ctx, []pawl.TaskClone{c}))
	w.ok(err, "clone")
	return t
}

var clones = noun{"clones", []promise{
	{"a clone is a new task with the values of the original, in any state of the original", func(w *fixture) {
		of := w.create(
			pawl.NewTask{Type: "a", Title: "x", Priority: 3, Payload: raw(`{"n": 1}`), Metadata: raw(`{ "repo": "r" }`), MaxAttempts: 5,
				RequestedBy: &pawl.Requester{Type: "user", ID: "ana"}, Dedupe: pawl.Dedupe{All: true}},
		)
		w.complete(w.claim("w1"), `1`)
		w.advance(time.Second)
		got := w.clone(pawl.TaskClone{TaskID: of.ID})
		w.same(asCreated(got), asCreated(w.task(got.ID)), "the clone read back")
		want := of
		want.ID, want.InputHash, want.Deduplicated = got.ID, "", false
		want.CreatedAt, want.UpdatedAt, want.LastTransitionedAt = w.now(), w.now(), w.now()
		w.same(got, want, "the clone")
		if got.ID == of.ID {
			w.Errorf("the clone is the task itself")
		}
		i := w.onlyItem(got.ID)
		w.same([]any{string(i.Input), i.MaxAttempts, i.Priority, i.State}, []any{`{"n": 1}`, 5, 3, pawl.ItemQueued}, "its item")
		e := w.allEvents(pawl.EventFilter{TaskID: got.ID})[0]
		if !strings.Contains(string(e.Data), `"cloned_from":"`+of.ID+`"`) {
			w.Errorf("the event does not say of what: %s", e.Data)
		}
		w.same(w.task(of.ID).State, pawl.TaskCompleted, "the older one")
	}},
	{"a clone of a task of many items has its items, keys and dependencies", func(w *fixture) {
		of := w.create(pawl.NewTask{Type: "a", Priority: 1, Payload: raw(`"p"`), Items: []pawl.NewItem{
			{
				Input: raw(`"first"`),
				Key:   "1",
			}, {Input: raw(`"second"`), Key: "2", Type: "b", Priority: ptr(9), After: []string{"1"}}, {Input: raw(`"third"`), MaxAttempts: 7}}})
		w.cancel(of.ID)
		got := w.clone(pawl.TaskClone{TaskID: of.ID, Priority: ptr(4)})
		w.same([]any{got.Items, got.Priority, string(got.Payload)}, []any{3, 4, `"p"`}, "the clone")
		var is []any
		for _, i := range w.items(got.ID) {
			is = append(is, string(i.Input), i.Key, i.Type, i.Priority, i.MaxAttempts, strings.Join(i.After, " "), i.State)
		}
		w.same(
			is,
			[]any{
				`"first"`,
				"1",
				"a",
				4,
				3,
				"",
				pawl.ItemQueued,
				`"second"`,
				"2",
				"b",
				9,
				3,
				"1",
				pawl.ItemWaiting,
				`"third"`,
				"",
				"a",
				4,
				7,
				"",
				pawl.ItemQueued,
			},
			"items",
		)
	}},
	{"values of the call replace those of the original", func(w *fixture) {
		of := w.create(pawl.NewTask{Type: "a", Title: "x", Payload: raw(`1`), Metadata: raw(`{"a":1,"b":2}`)})
		at := w.now().Add(time.Hour)
		got := w.clone(pawl.TaskClone{TaskID: of.ID, Title: ptr("y"), Payload: raw(`[2]`), Priority: ptr(-1), RunAt: &at,
			RequestedBy: &pawl.Requester{Type: "agent", ID: "p"}, Metadata: raw(`{"a":null,"c":3}`)})
		w.same(
			[]any{got.Title, string(got.Payload), got.Priority, got.RequestedBy.ID, string(got.Metadata)},
			[]any{"y", "[2]", -1, "p", `{"b":2,"c":3}`},
			"the clone",
		)
		i := w.onlyItem(got.ID)
		w.same([]any{string(i.Input), i.State}, []any{"[2]", pawl.ItemScheduled}, "its item")
	}},
	{"errors name the wrong field", func(w *fixture) {
		of := w.oneItem()
		for pointer, c := range map[string]pawl.TaskClone{
			"/title":    {TaskID: of.ID, Title: ptr(strings.Repeat("x", 201))},
			"/priority": {TaskID: of.ID, Priority: ptr(99999)},
			"/metadata": {TaskID: of.ID, Metadata: raw(`1`)},
			"/payload":  {TaskID: of.ID, Payload: raw(`{`)},
		} {
			_, err := first(w.svc.CloneTasks(w.ctx, []pawl.TaskClone{c}))
			if pointer == "/payload" && pawl.CodeOf(err) == pawl.CodeInvalid {
				continue // the payload is its item's input
			}
			w.invalid(err, pointer)
		}
		_, err := first(w.svc.CloneTasks(w.ctx, []pawl.TaskClone{{TaskID: "tsk_nope"}}))
		w.refused(err, pawl.CodeNotFound)
		_, err = first(w.in("other").svc.CloneTasks(w.in("other").ctx, []pawl.TaskClone{{TaskID: of.ID}}))
		w.refused(err, pawl.CodeNotFound)
	}},
}}
