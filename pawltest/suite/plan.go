package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

// ids returns the list 1…n as JSON.
func ids(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ",%d", i+1)
	}
	return "[" + b.String()[1:] + "]"
}

// refusedTask creates a task that must be refused, and returns the error's fields.
func (w *fixture) refusedTask(t pawl.NewTask) []string {
	w.Helper()
	before, err := w.svc.Stats(w.ctx)
	w.ok(err, "stats")
	_, err = pawl.Create(w.ctx, w.svc, t)
	after, e := w.svc.Stats(w.ctx)
	w.ok(e, "stats")
	w.same(after.Events, before.Events, "events after a refusal")
	return refusals(err)
}

// refusedPlan submits a plan that must be refused, and returns the error's fields.
func (w *fixture) refusedPlan(l pawl.Lease, plan string) []string {
	w.Helper()
	_, err := pawl.Complete(w.ctx, w.svc, l.Fence(), raw(plan))
	it := w.item(l.ID)
	w.same([]any{it.State.Leased(), it.Attempt}, []any{true, l.Attempt}, "the plan item keeps its lease")
	return refusals(err)
}

var sync250 = pawl.Type{
	Name: "user.data.sync",
	Plan: pawl.Plan{Mode: pawl.PlanSplit, Pointer: "/user_ids", Size: 100, Number: "batch_id", Keep: []string{"source"}},
	InputSchema: raw(
		`{"type":"object","required":["batch_id","user_ids"],"properties":{"user_ids":{"type":"array","items":{"type":"integer"},` +
			`"maxItems":100}}}`,
	),
}

var plans = noun{"plans", []promise{
	{"an item cannot name a type whose rules would not apply to it", func(w *fixture) {
		w.putType(pawl.Type{Name: "strict", InputSchema: raw(`{"type":"object"}`), Acceptance: true})
		w.putType(pawl.Type{Name: "slow", LeaseSeconds: 600, MaxAttempts: 5, Backoff: pawl.Backoff{BaseSeconds: 1}})
		w.putType(pawl.Type{Name: "planned", Plan: pawl.Plan{Mode: pawl.PlanItem}})
		items := func(types ...string) (out []pawl.NewItem) {
			for _, t := range types {
				out = append(out, pawl.NewItem{Type: t, Input: raw(`1`)})
			}
			return out
		}
		refused := func(at string) []string {
			return []string{
				at + "/type the type strict has rules for input or results, which apply only to tasks of that type; create a task of the type strict",
			}
		}
		w.same(w.refusedTask(pawl.NewTask{Type: "other", Items: items("strict")}), refused("/items/0"), "create")
		t := w.create(pawl.NewTask{Type: "other", Items: items("slow", "unregistered", "other")})
		_, err := first(w.svc.AddItems(w.ctx, []pawl.AddItems{{TaskID: t.ID, Items: items("slow", "strict")}}))
		w.same(refusals(err), refused("/items/1"), "add_items")
		w.same(w.task(t.ID).Items, 3, "items after the refusal")
		w.create(pawl.NewTask{Type: "planned"})
		w.same(
			w.refusedPlan(w.claims(pawl.ClaimRequest{WorkerID: "w", Types: []string{"planned.plan"}})[0], `[{"type":"strict","input":1}]`),
			refused("/result/items/0"),
			"a plan",
		)
		own := w.create(pawl.NewTask{Type: "strict", Payload: raw(`{}`), Items: []pawl.NewItem{{Type: "strict", Input: raw(`{}`)}}})
		_, err = first(w.svc.AddItems(w.ctx, []pawl.AddItems{{TaskID: own.ID, Items: []pawl.NewItem{{Type: "strict", Input: raw(`{}`)}}}}))
		w.ok(err, "an item of the task's own type")
	}},
	{"250 user ids in chunks of 100 are three items", func(w *fixture) {
		w.putType(sync250)
		t := w.create(pawl.NewTask{Type: "user.data.sync", Payload: raw(`{"source":"external-api","user_ids":` + ids(250) + `}`)})
		w.same([]any{t.Items, t.ItemsOpen, t.TypeVersion, t.State}, []any{3, 3, 1, pawl.TaskQueued}, "the answer")
		w.same(w.task(t.ID).TypeVersion, 1, "the version it keeps")
		sizes := []int{}
		for i, it := range w.items(t.ID) {
			var in struct {
				BatchID int    `json:"batch_id"`
				UserIDs []int  `json:"user_ids"`
				Source  string `json:"source"`
			}
			w.ok(json.Unmarshal(it.Input, &in), "input")
			w.same(
				[]any{in.BatchID, in.Source, in.UserIDs[0], it.Position, it.Type},
				[]any{i + 1, "external-api", 100*i + 1, i, "user.data.sync"},
				"an input",
			)
			sizes = append(sizes, len(in.UserIDs))
		}
		w.same(sizes, []int{100, 100, 50}, "sizes")
		one := w.create(pawl.NewTask{Type: "user.data.sync", Payload: raw(`{"user_ids":[7]}`)})
		w.same(string(w.onlyItem(one.ID).Input), `{"batch_id":1,"user_ids":[7]}`, "the only chunk")
		w.same(string(w.task(one.ID).Payload), `{"user_ids":[7]}`, "its task's payload")
	}},
	{"a malformed, empty or too long list is refused, and nothing is created", func(w *fixture) {
		w.putType(sync250)
		w.putType(pawl.Type{Name: "each", Plan: pawl.Plan{Mode: pawl.PlanSplit, Size: 1, Into: "id"}, Limits: pawl.TypeLimits{MaxItems: 2}})
		w.putType(pawl.Type{Name: "all", Plan: pawl.Plan{Mode: pawl.PlanSplit, Pointer: "/n", Size: 1}})
		try := func(typ, payload string) []string {
			return w.refusedTask(pawl.NewTask{Type: typ, Payload: raw(payload)})
		}
		w.same(try("user.data.sync", `{"user_ids":[]}`), []string{"/payload/user_ids is empty: there would be nothing to do"}, "none")
		w.same(
			try("user.data.sync", `{"user_ids":{"a":1}}`),
			[]string{"/payload/user_ids must be a list: the type splits it into items"},
			"an object",
		)
		w.same(try("user.data.sync", ``), []string{"/payload/user_ids must be a list: the type splits it into items"}, "no payload")
		w.same(
			try("user.data.sync", `{"user_ids":["x"]}`),
			[]string{"/items/0/input/user_ids/0 is a string; it must be an integer"},
			"an input that does not fit",
		)
		w.same(try("each", `[1,2,3]`), []string{"/payload makes 3 items of 1 elements each; at most 2 are allowed"}, "over the type's limit")
		w.same(
			try("all", `{"n":`+ids(100_001)+`}`),
			[]string{"/payload/n makes 100001 items of 1 elements each; at most 100000 are allowed"},
			"over all limits",
		)
		w.same(
			w.refusedTask(pawl.NewTask{Type: "each", Payload: raw(`[1]`), Items: []pawl.NewItem{{Input: raw("1")}}}),
			[]string{"/items must be left out: the type plans the items of its tasks"},
			"items of one's own",
		)
	}},
	{"a dry run shows the items and creates nothing", func(w *fixture) {
		w.putType(sync250)
		t := w.create(pawl.NewTask{Type: "user.data.sync", Payload: raw(`{"user_ids":` + ids(101) + `}`), DryRun: true})
		w.same(
			[]any{t.ID, t.DryRun, t.Items, len(t.Planned), string(t.Planned[1].Input)},
			[]any{"", true, 2, 2, `{"batch_id":2,"user_ids":[101]}`},
			"the answer",
		)
		plain := w.create(pawl.NewTask{Type: "unregistered", Payload: raw(`{"a": 1}`), DryRun: true})
		w.same([]any{plain.Items, string(plain.Planned[0].Input)}, []any{1, `{"a": 1}`}, "of a type that nobody registered")
		w.same(len(w.refusedTask(pawl.NewTask{Type: "user.data.sync", DryRun: true})), 1, "refusals")
		list, err := w.svc.ListTasks(w.ctx, pawl.TaskFilter{})
		w.ok(err, "list")
		w.same(len(list.Items), 0, "tasks")
		w.noneClaimable()
	}},
	{"payload, inputs and limits are the type's, and what it leaves out is filled in", func(w *fixture) {
		w.putType(
			pawl.Type{Name: "mail", PayloadSchema: raw(`{"required":["to"]}`), InputSchema: raw(`{"type":"object"}`), Priority: 7, MaxAttempts: 5,
				Limits: pawl.TypeLimits{MaxItems: 2, MaxPayloadBytes: 30}},
		)
		t := w.create(pawl.NewTask{Type: "mail", Payload: raw(`{"to":"ana"}`)})
		it := w.onlyItem(t.ID)
		w.same([]any{t.Priority, it.Priority, it.MaxAttempts}, []any{7, 7, 5}, "priority, max_attempts")
		own := w.onlyItem(w.create(pawl.NewTask{Type: "mail", Payload: raw(`{"to":"ana"}`), Priority: 1, MaxAttempts: 2}).ID)
		w.same([]any{own.Priority, own.MaxAttempts}, []any{1, 2}, "the call's own")
		w.same(w.refusedTask(pawl.NewTask{Type: "mail", Payload: raw(`{"cc":"ana"}`)}), []string{"/payload/to is required"}, "payload")
		w.same(
			w.refusedTask(pawl.NewTask{Type: "mail", Payload: raw(`{"to":"ana"}`), Items: []pawl.NewItem{{Input: raw(`{}`)}, {Input: raw(`3`)}}}),
			[]string{"/items/1/input is a number; it must be an object"},
			"an input",
		)
		w.same(
			w.refusedTask(pawl.NewTask{Type: "mail", Payload: raw(`{"to":"` + strings.Repeat("a", 30) + `"}`)}),
			[]string{"/payload has 39 bytes; at most 30 are allowed"},
			"size",
		)
		w.same(
			w.refusedTask(pawl.NewTask{Type: "mail", Payload: raw(`{"to":1}`), Items: make([]pawl.NewItem, 3)}),
			[]string{"/items has 3 items; at most 2 are allowed"},
			"items",
		)
		_, err := first(w.svc.AddItems(w.ctx, []pawl.AddItems{{TaskID: t.ID, Items: []pawl.NewItem{{Input: raw(`"x"`)}}}}))
		w.same(refusals(err), []string{"/items/0/input is a string; it must be an object"}, "an added item")
		w.same(w.task(t.ID).Items, 1, "items after that")
	}},
	{"the lease of a claim and the back-off of a failure are the type's", func(w *fixture) {
		w.putType(
			pawl.Type{
				Name:         "slow",
				LeaseSeconds: 900,
				Backoff:      pawl.Backoff{BaseSeconds: 10, MaxSeconds: 15},
				Plan:         pawl.Plan{Mode: pawl.PlanItem, LeaseSeconds: 30},
			},
		)
		w.putType(pawl.Type{Name: "quick", LeaseSeconds: 20})
		lease := func(req pawl.ClaimRequest) pawl.Lease {
			req.WorkerID = "w1"
			return w.claims(req)[0]
		}
		w.create(pawl.NewTask{Type: "slow"})
		p := lease(pawl.ClaimRequest{Types: []string{"slow.plan"}})
		w.same(p.LeaseSeconds, 30, "of the plan item")
		w.complete(p, `[{"input":1},{"input":2},{"input":3}]`)
		l := lease(pawl.ClaimRequest{Types: []string{"slow"}})
		w.same(l.LeaseSeconds, 900, "of the type")
		w.same(lease(pawl.ClaimRequest{Types: []string{"slow"}, LeaseSeconds: 60}).LeaseSeconds, 60, "the claim's own")
		w.same(lease(pawl.ClaimRequest{Types: []string{"slow", "quick"}}).LeaseSeconds, 900, "of types that differ")
		w.same(lease(pawl.ClaimRequest{TaskID: w.create(pawl.NewTask{Type: "quick"}).ID}).LeaseSeconds, 20, "of a task")
		items, err := w.svc.ListItems(w.ctx, pawl.ItemFilter{TaskID: w.create(pawl.NewTask{Type: "quick"}).ID})
		w.ok(err, "list")
		w.same(lease(pawl.ClaimRequest{ItemID: items.Items[0].ID}).LeaseSeconds, 20, "of an item")
		for _, base := range []float64{10, 15} {
			m, err := pawl.Fail(w.ctx, w.svc, l.Fence(), errors.New("no"))
			w.ok(err, "fail")
			if d := m.RunAt.Sub(w.now()).Seconds(); d < 0.8*base || d > 1.2*base {
				w.Errorf("the back-off is %v s, not %v give or take a fifth", d, base)
			}
			w.advance(20 * time.Second)
			w.sweep()
			l = w.claimItem("w1", l.ID)
		}
	}},
	{"a claim of several types, or of any work, gives each item the lease of its own type", func(w *fixture) {
		w.putType(pawl.Type{Name: "slow", LeaseSeconds: 900, Apply: pawl.Apply{Mode: pawl.ApplyItem, LeaseSeconds: 40}})
		w.putType(pawl.Type{Name: "quick", LeaseSeconds: 20})
		for _, limited := range []string{"", "quick", "plain"} {
			if limited != "" {
				w.limit(limited, `{"concurrency":10}`)
			}
			for _, types := range [][]string{nil, {"plain", "quick", "slow"}} {
				w.create(pawl.NewTask{Type: "slow"})
				w.create(pawl.NewTask{Type: "plain", Items: []pawl.NewItem{{Input: raw("1")}, {Input: raw("2"), Type: "quick"}}})
				got := map[string]int{}
				for _, l := range w.claims(pawl.ClaimRequest{WorkerID: "w1", Types: types, Limit: 10}) {
					got[l.Type] = l.LeaseSeconds
					w.same(l.LeaseExpiresAt, w.now().Add(time.Duration(l.LeaseSeconds)*time.Second), "the lease's end")
					w.same(w.heartbeat(l).LeaseSeconds, l.LeaseSeconds, "after a heartbeat")
				}
				w.same(got, map[string]int{"slow": 900, "plain": pawl.DefaultLeaseSeconds, "quick": 20}, "leases by type")
			}
		}
		t := w.create(pawl.NewTask{Type: "plain", Items: []pawl.NewItem{{Input: raw("1")}, {Input: raw("2"), Type: "quick"}}})
		got := map[string]int{}
		for _, l := range w.claims(pawl.ClaimRequest{WorkerID: "w1", TaskID: t.ID, Limit: 10}) {
			got[l.Type] = l.LeaseSeconds
		}
		w.same(got, map[string]int{"plain": pawl.DefaultLeaseSeconds, "quick": 20}, "leases of a task's items")
	}},
	{"a task keeps the version that it was created with", func(w *fixture) {
		w.putType(pawl.Type{Name: "t", MaxAttempts: 5, InputSchema: raw(`{"type":"integer"}`)})
		t := w.create(pawl.NewTask{Type: "t", Items: []pawl.NewItem{{Input: raw("1")}}})
		w.putType(pawl.Type{Name: "t", MaxAttempts: 6, InputSchema: raw(`{"type":"string"}`)})
		_, err := first(w.svc.AddItems(w.ctx, []pawl.AddItems{{TaskID: t.ID, Items: []pawl.NewItem{{Input: raw(`"x"`)}}}}))
		w.same(refusals(err), []string{"/items/0/input is a string; it must be an integer"}, "an item added later")
		w.removeType("t")
		_, err = first(w.svc.AddItems(w.ctx, []pawl.AddItems{{TaskID: t.ID, Items: []pawl.NewItem{{Input: raw("2")}}}}))
		w.ok(err, "add after the type was removed")
		for _, it := range w.items(t.ID) {
			w.same(it.MaxAttempts, 5, "max_attempts")
		}
		free := w.create(pawl.NewTask{Type: "t", Payload: raw(`{}`)})
		w.same([]any{free.TypeVersion, w.onlyItem(free.ID).MaxAttempts}, []any{0, pawl.DefaultMaxAttempts}, "a task made after it was removed")
		clone, err := first(w.svc.CloneTasks(w.ctx, []pawl.TaskClone{{TaskID: t.ID}}))
		w.ok(err, "clone")
		w.same([]any{clone.TypeVersion, clone.Items}, []any{0, 2}, "its clone")
	}},
	{"an item that failed cancels the others, where the type says so", func(w *fixture) {
		w.putType(pawl.Type{Name: "all", OnItemFailure: pawl.FailureCancel, MaxAttempts: 1})
		w.putType(pawl.Type{Name: "each", OnItemFailure: pawl.FailureWait, MaxAttempts: 1})
		three := []pawl.NewItem{{Input: raw("1"), Type: "x"}, {Input: raw("2")}, {Input: raw("3")}}
		all, each := w.create(pawl.NewTask{Type: "all", Items: three}), w.create(pawl.NewTask{Type: "each", Items: three})
		for range 2 {
			w.failNow(w.claims(pawl.ClaimRequest{WorkerID: "w1", Types: []string{"x"}})[0], "no")
		}
		states := func(id string) (out []pawl.ItemState) {
			for _, it := range w.items(id) {
				out = append(out, it.State)
			}
			return out
		}
		w.same(states(all.ID), []pawl.ItemState{pawl.ItemFailed, pawl.ItemCancelled, pawl.ItemCancelled}, "cancel")
		w.same(w.task(all.ID).State, pawl.TaskFailed, "its task")
		w.same(states(each.ID), []pawl.ItemState{pawl.ItemFailed, pawl.ItemQueued, pawl.ItemQueued}, "wait")
		gone := w.create(pawl.NewTask{Type: "all", Items: three})
		w.expire(w.claims(pawl.ClaimRequest{WorkerID: "w1", Types: []string{"x"}})[0])
		w.same(states(gone.ID), []pawl.ItemState{pawl.ItemFailed, pawl.ItemCancelled, pawl.ItemCancelled}, "after an expiry")
	}},
	{"items whose results need acceptance wait for no others of their task", func(w *fixture) {
		w.putType(pawl.Type{Name: "order", Acceptance: true})
		why := "after cannot be used: results of the type order are accepted when their task is approved, and the task cannot be approved " +
			"while an item waits"
		refused := w.refusedTask(pawl.NewTask{Type: "order", Items: []pawl.NewItem{after("a"), after("b", "a")}})
		w.same(refused, []string{"/items/1/" + why}, "created")
		t := w.create(pawl.NewTask{Type: "order", Items: []pawl.NewItem{after("a")}})
		_, err := first(w.svc.AddItems(w.ctx, []pawl.AddItems{{TaskID: t.ID, Items: []pawl.NewItem{after("b", "a")}}}))
		w.same(refusals(err), []string{"/items/0/" + why}, "added")
	}},
	{"the endings .plan and .apply belong to Pawl", func(w *fixture) {
		w.same(w.refusedTask(pawl.NewTask{Type: "bank.apply"}),
			[]string{"/type ends in .apply, which is kept for items that Pawl makes"}, "a task's")
		w.same(
			w.refusedTask(pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Input: raw("1"), Type: "bank.plan"}}}),
			[]string{"/items/0/type ends in .plan, which is kept for items that Pawl makes"},
			"an item's",
		)
	}},
	{"a worker that claims the plan item by name makes the task's items", func(w *fixture) {
		w.putType(
			pawl.Type{
				Name:        "report",
				Plan:        pawl.Plan{Mode: pawl.PlanItem, MaxAttempts: 2},
				MaxAttempts: 4,
				InputSchema: raw(`{"type":"object","required":["page"]}`),
			},
		)
		t := w.create(pawl.NewTask{Type: "report", Payload: raw(`{"pages":2}`)})
		w.same([]any{t.State, t.Items, t.ItemsOpen}, []any{pawl.TaskQueued, 0, 0}, "the answer")
		w.noneClaimable()
		plan := w.onlyItem(t.ID)
		w.same(
			[]any{plan.Kind, plan.Type, plan.MaxAttempts, string(plan.Input)},
			[]any{pawl.KindPlan, "report.plan", 2, `{"pages":2}`},
			"the plan item",
		)
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "w1", TaskID: t.ID})), 0, "claimed by its task")
		w.same(len(w.claims(pawl.ClaimRequest{WorkerID: "w1", ItemID: plan.ID})), 0, "claimed by its id alone")
		l := w.claims(pawl.ClaimRequest{WorkerID: "p1", Types: []string{"report.plan"}})[0]
		w.heartbeat(l)
		now := w.task(t.ID)
		w.same([]any{now.State, now.Items, now.Progress}, []any{pawl.TaskQueued, 0, 0}, "the task while it is planned")
		_, err := first(w.svc.AddItems(w.ctx, []pawl.AddItems{{TaskID: t.ID, Items: []pawl.NewItem{{Input: raw(`{"page":9}`)}}}}))
		w.conflict(err, "queued", pawl.TaskQueued.Allowed()...)
		w.same(w.refusedPlan(l, `{"items":[]}`),
			[]string{"/result/items is empty: the plan makes no items, so there would be nothing to do"}, "none")
		w.same(
			w.refusedPlan(l, `7`),
			[]string{`/result is no plan, which is {"items": [{"input": …}, …]}: cannot unmarshal number into Go value of type struct { ` +
				`Items []pawl.NewItem "json:\"items\"" }`}[:1],
			"no plan",
		)
		w.same(w.refusedPlan(l, `[{"input":{}}]`), []string{"/result/items/0/input/page is required"}, "an input that does not fit")
		w.same(
			w.refusedPlan(l, `[{"input":{"page":1},"key":"a","after":["b"]}]`),
			[]string{`/result/items/0/after/0 no item of the task has the key "b"`},
			"a key that is not there",
		)
		w.same(
			w.refusedPlan(l, `{"items":[`+strings.Repeat(`{"input":1},`, 100_000)+`{"input":1}]}`),
			[]string{"/result/items has 100001 items; at most 100000 are allowed"},
			"too many",
		)
		w.same(w.task(t.ID).State, pawl.TaskQueued, "the task after the refusals")
		m := w.complete(l, `{"items":[{"input":{"page":1},"key":"a"},{"input":{"page":2},"key":"b","after":["a"]}]}`)
		w.same([]any{m.State, m.TaskID, m.Attempt}, []any{pawl.ItemCompleted, t.ID, 1}, "the answer")
		now = w.task(t.ID)
		w.same([]any{now.State, now.Items, now.ItemsOpen}, []any{pawl.TaskQueued, 2, 2}, "the task, planned")
		a := w.claim("w1")
		w.same([]any{a.Key, a.MaxAttempts, string(a.Input)}, []any{"a", 4, `{"page":1}`}, "its first item")
		w.complete(a, `"one"`)
		w.complete(w.claim("w1"), `"two"`)
		w.same(w.task(t.ID).State, pawl.TaskCompleted, "the task")
		got, err := w.svc.TaskResult(w.ctx, t.ID)
		w.ok(err, "result")
		w.same(string(got.Payload), `{"a":"one","b":"two"}`, "its result")
		w.leaseLost(func() error {
			_, err := pawl.Complete(w.ctx, w.svc, pawl.Fence{ItemID: l.ID, WorkerID: "other", Attempt: 1}, raw(`[]`))
			return err
		}(), "taken", "completed", "p1", 1)
	}},
	{"a plan that fails for good fails its task, and a retry plans again", func(w *fixture) {
		w.putType(pawl.Type{Name: "report", Plan: pawl.Plan{Mode: pawl.PlanItem}})
		t := w.create(pawl.NewTask{Type: "report"})
		claim := func() pawl.Lease {
			return w.claims(pawl.ClaimRequest{WorkerID: "p1", Types: []string{"report.plan"}})[0]
		}
		w.failPermanently(claim(), "no idea")
		now := w.task(t.ID)
		w.same([]any{now.State, now.Error.Message, now.Items}, []any{pawl.TaskFailed, "no idea", 0}, "the task")
		w.same(w.retry(t.ID).State, pawl.TaskQueued, "after retry")
		w.expire(claim())
		w.complete(claim(), `[{"input":1}]`)
		w.complete(w.claim("w1"), `2`)
		w.same(w.task(t.ID).State, pawl.TaskCompleted, "the task")
		dropped := w.create(pawl.NewTask{Type: "report"})
		w.same(w.cancel(dropped.ID).State, pawl.TaskCancelled, "cancelled while it is planned")
	}},
}}
