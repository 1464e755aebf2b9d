package suite

import (
	"fmt"
	"sync"

	"github.com/pawl-work/pawl"
)

var dedupe = noun{"dedupe", []promise{
	{"only when asked for", func(w *fixture) {
		a, b := w.oneItem(), w.oneItem()
		if a.ID == b.ID {
			w.Error("the same request made one task")
		}
		w.same(b.Deduplicated, false, "deduplicated")
	}},
	{"the same payload and items find the older task", func(w *fixture) {
		ask := pawl.NewTask{Type: "a", Payload: raw(`{"a":1,"b":2}`), Dedupe: pawl.Dedupe{All: true}}
		made := w.create(ask)
		w.same(made.Deduplicated, false, "deduplicated at first")
		if len(made.InputHash) != 64 {
			w.Errorf("input_hash is %q", made.InputHash)
		}
		ask.Payload = raw(`{ "b": 2, "a": 1 }`)
		ask.Title = "another title"
		again := w.create(ask)
		w.same([]any{again.ID, again.Deduplicated, again.Title}, []any{made.ID, true, ""}, "the second")
		ask.Payload = raw(`{"a":1,"b":3}`)
		if other := w.create(ask); other.ID == made.ID {
			w.Error("another payload found the task")
		}
		w.same(len(w.allEvents(pawl.EventFilter{TaskID: made.ID})), 1, "events")
	}},
	{"different items are different input", func(w *fixture) {
		ask := pawl.NewTask{Type: "a", Dedupe: pawl.Dedupe{All: true}, Items: []pawl.NewItem{{Input: raw(`1`)}}}
		a := w.create(ask)
		w.same(w.create(ask).ID, a.ID, "the same items")
		ask.Items = []pawl.NewItem{{Input: raw(`2`)}}
		if w.create(ask).ID == a.ID {
			w.Error("other items found the task")
		}
	}},
	{"big numbers are not rounded together", func(w *fixture) {
		ask := pawl.NewTask{Type: "a", Payload: raw(`9007199254740993`), Dedupe: pawl.Dedupe{All: true}}
		a := w.create(ask)
		ask.Payload = raw(`9007199254740992`)
		if w.create(ask).ID == a.ID {
			w.Error("2^53+1 and 2^53 are one")
		}
	}},
	{"by certain values of the payload", func(w *fixture) {
		ask := pawl.NewTask{
			Type:    "a",
			Payload: raw(`{"id":7,"at":"now","deep":{"x/y":[1,2]}}`),
			Dedupe:  pawl.Dedupe{Pointers: []string{"/id", "/deep/x~1y/1"}},
		}
		a := w.create(ask)
		ask.Payload = raw(`{"id":7,"at":"later","deep":{"x/y":[9,2]}}`)
		w.same(w.create(ask).ID, a.ID, "the same id")
		ask.Payload = raw(`{"id":8,"at":"now","deep":{"x/y":[1,2]}}`)
		if w.create(ask).ID == a.ID {
			w.Error("another id found the task")
		}
	}},
	{"by a hash of the caller", func(w *fixture) {
		a := w.create(pawl.NewTask{Type: "a", Payload: raw(`1`), InputHash: "mine"})
		b := w.create(pawl.NewTask{Type: "a", Payload: raw(`2`), InputHash: "mine"})
		w.same([]any{b.ID, b.Deduplicated, b.InputHash, string(b.Payload)}, []any{a.ID, true, "mine", "1"}, "the second")
	}},
	{"within a type and a namespace", func(w *fixture) {
		ask := pawl.NewTask{Type: "a", InputHash: "mine"}
		a := w.create(ask)
		ask.Type = "b"
		if w.create(ask).ID == a.ID {
			w.Error("another type found the task")
		}
		ask.Type = "a"
		if w.in("other").create(ask).ID == a.ID {
			w.Error("another namespace found the task")
		}
	}},
	{"running, failed and completed tasks keep their input hash", func(w *fixture) {
		ask := pawl.NewTask{Type: "a", InputHash: "mine"}
		a := w.create(ask)
		l := w.claim("w1")
		w.same(w.create(ask).ID, a.ID, "while leased")
		w.failPermanently(l, "no")
		w.same(w.create(ask).ID, a.ID, "when failed")
		w.retry(a.ID)
		w.complete(w.claim("w1"), `1`)
		again := w.create(ask)
		w.same([]any{again.ID, again.State}, []any{a.ID, pawl.TaskCompleted}, "when completed")
	}},
	{"cancelled and dead-lettered tasks give up their input hash", func(w *fixture) {
		ask := pawl.NewTask{Type: "a", InputHash: "mine"}
		a := w.create(ask)
		w.cancel(a.ID)
		b := w.create(ask)
		w.same([]any{b.ID == a.ID, b.Deduplicated}, []any{false, false}, "after cancel")
		w.failPermanently(w.claim("w1"), "no")
		w.bury(b.ID)
		c := w.create(ask)
		w.same([]any{c.ID == b.ID, c.Deduplicated}, []any{false, false}, "after bury")
		w.same(w.create(ask).ID, c.ID, "the newest holds it")
	}},
	{"a task of many items gives it up too", func(w *fixture) {
		ask := pawl.NewTask{Type: "a", InputHash: "mine", Items: []pawl.NewItem{{Input: raw(`1`)}, {Input: raw(`2`)}}}
		a := w.create(ask)
		for _, i := range w.items(a.ID) {
			w.cancel(a.ID, i.ID)
		}
		w.same(w.task(a.ID).State, pawl.TaskCancelled, "state")
		b := w.create(ask)
		w.same(b.Deduplicated, false, "deduplicated")
		for _, i := range w.items(b.ID) {
			w.moveTo(b.ID, i.ID, pawl.ItemDeadLettered)
		}
		w.same(w.task(b.ID).State, pawl.TaskDeadLettered, "state")
		w.same(w.create(ask).Deduplicated, false, "deduplicated")
	}},
	{"a dead-lettered task is not retried while another task has its input hash", func(w *fixture) {
		ask := pawl.NewTask{Type: "a", InputHash: "mine"}
		a := w.create(ask)
		w.failPermanently(w.claim("w1"), "no")
		w.bury(a.ID)
		b := w.create(ask)
		_, err := first(w.svc.RetryTasks(w.ctx, []pawl.TaskCall{{TaskID: a.ID}}))
		w.conflict(err, "dead_lettered", "retry", "cancel")
		w.same(w.task(a.ID).State, pawl.TaskDeadLettered, "state")
		w.cancel(b.ID)
		w.retry(a.ID)
		w.same(w.create(ask).ID, a.ID, "it holds its input again")
	}},
	{"twice in one batch is one task", func(w *fixture) {
		ask := pawl.NewTask{Type: "a", InputHash: "mine"}
		rs, err := w.svc.CreateTasks(w.ctx, []pawl.NewTask{ask, ask})
		w.ok(err, "create")
		w.ok(rs[0].Err, "first")
		w.ok(rs[1].Err, "second")
		w.same([]any{rs[0].Value.Deduplicated, rs[1].Value.Deduplicated, rs[1].Value.ID}, []any{false, true, rs[0].Value.ID}, "the answers")
	}},
	{"concurrent calls create one task", func(w *fixture) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		ids, fresh := map[string]bool{}, 0
		for n := range 16 {
			wg.Go(func() {
				t, err := pawl.Create(w.ctx, w.svc, pawl.NewTask{Type: "a", Payload: raw(fmt.Sprint(n)), InputHash: "mine"})
				if err != nil {
					w.Errorf("create: %v", err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				ids[t.ID] = true
				if !t.Deduplicated {
					fresh++
				}
			})
		}
		wg.Wait()
		w.same([]int{len(ids), fresh}, []int{1, 1}, "tasks, made")
	}},
}}
