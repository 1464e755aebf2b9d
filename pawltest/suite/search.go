package suite

import (
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
)

var searches = noun{"search", []promise{
	{"tasks are found by the beginning of an id, a type or a title", func(w *fixture) {
		invoice := w.create(pawl.NewTask{Type: "billing", Title: "Invoice 12 of ACME"}).ID
		other := w.create(pawl.NewTask{Type: "billing.mail", Title: "100%_sure"}).ID
		many := w.create(pawl.NewTask{Type: "invoices",
			Items: []pawl.NewItem{{Type: "part", Input: raw("1")}, {Type: "part", Input: raw("2")}}}).ID
		mixed := w.create(pawl.NewTask{Type: "outer", Items: []pawl.NewItem{{Type: "inner", Input: raw("1")}}}).ID
		stranger := w.in("other").create(pawl.NewTask{Type: "billing", Title: "Invoice 13"}).ID
		part := w.items(many)[1].ID
		for _, c := range []struct {
			search string
			want   []string
		}{
			{"invoice", []string{many, invoice}}, {"INVOICE 1", []string{invoice}}, {"nvoice", nil},
			{"billing", []string{other, invoice}}, {"Billing.", []string{other}}, {"outer", []string{mixed}}, {"inner", nil},
			{"100%", []string{other}}, {"100%_s", []string{other}}, {"100__", nil}, {"%", nil}, {"_", nil}, {`\`, nil}, {"'", nil},
			{invoice, []string{invoice}}, {invoice[:29], startWith(invoice[:29], mixed, many, other, invoice)},
			{strings.ToLower(many), []string{many}}, {part, []string{many}}, {part[:29], []string{many}},
			{"itm_" + invoice[4:], []string{invoice}}, {"tsk_", []string{mixed, many, other, invoice}}, {stranger, nil}, {"tsk_U", nil},
			{"msg_01", nil},
		} {
			w.same(w.found(pawl.TaskFilter{Search: c.search}), c.want, "search for "+c.search)
		}
		w.same(w.found(pawl.TaskFilter{TitlePrefix: "invoice"}), []string{invoice}, "title")
		w.same(w.found(pawl.TaskFilter{TitlePrefix: "Inv", Types: []string{"invoices"}}), []string(nil), "title and type")
		w.same(w.found(pawl.TaskFilter{Search: "billing", States: []pawl.TaskState{pawl.TaskQueued}, Asc: true}),
			[]string{invoice, other}, "and state")
		w.same(w.found(pawl.TaskFilter{Search: "billing", ByUpdate: true}), []string{other, invoice}, "by update")
		w.same(w.found(pawl.TaskFilter{Search: "billing", ByPriority: true}), []string{other, invoice}, "by priority")
	}},
	{"a task and its item are found by their message", func(w *fixture) {
		w.create(pawl.NewTask{Type: "chat"})
		l := w.claim("w")
		w.create(pawl.NewTask{Type: "chat"})
		rs, err := w.svc.StartMessages(w.ctx, []pawl.StartCall{{Fence: l.Fence(), Role: "assistant"}})
		w.ok(err, "start")
		w.ok(rs[0].Err, "start")
		for _, search := range []string{rs[0].Value.ID, rs[0].Value.ID[:28], strings.ToLower(rs[0].Value.ID)} {
			w.same(w.found(pawl.TaskFilter{Search: search}), []string{l.TaskID}, "task by "+search)
			w.same(w.foundItems(pawl.ItemFilter{Search: search}), []string{l.ID}, "item by "+search)
		}
	}},
	{"tasks and items are found by their error", func(w *fixture) {
		failed := w.create(pawl.NewTask{Type: "a"}).ID
		w.failPermanently(w.claim("w"), `Quota "exceeded" für 100% of tokens`)
		again := w.create(pawl.NewTask{Type: "a"}).ID
		w.failNow(w.claim("w"), "connection RESET")
		w.complete(w.claimItem("w", w.onlyItem(again).ID), "1")
		waits := w.create(pawl.NewTask{Type: "a"}).ID
		w.failNow(w.claim("w"), "connection reset by peer")
		w.create(pawl.NewTask{Type: "message"})
		for text, want := range map[string]string{`"EXCEEDED" FÜR`: failed, "100%": failed,
			"Reset": waits, "message": "", "100_": "", `{"`: ""} {
			var tasks, items []string
			if want != "" {
				tasks, items = []string{want}, []string{w.onlyItem(want).ID}
			}
			w.same(w.found(pawl.TaskFilter{Error: text}), tasks, "tasks with "+text)
			w.same(w.foundItems(pawl.ItemFilter{Error: text}), items, "items with "+text)
		}
		w.same(w.found(pawl.TaskFilter{Error: "q", States: []pawl.TaskState{pawl.TaskFailed}}), []string{failed}, "with a state")
		w.same(w.foundItems(pawl.ItemFilter{Error: "reset", States: []pawl.ItemState{pawl.ItemQueued}, WorkerID: "w"}),
			[]string{w.onlyItem(waits).ID}, "items with a state and a worker")
	}},
	{"items are found by the beginning of an id or a type", func(w *fixture) {
		a := w.create(pawl.NewTask{Type: "alpha"}).ID
		b := w.create(pawl.NewTask{Type: "beta", Items: []pawl.NewItem{{Input: raw("1")}, {Input: raw("2")}}}).ID
		only, two := w.onlyItem(a).ID, w.items(b)
		w.same(w.foundItems(pawl.ItemFilter{Search: "BE"}), []string{two[0].ID, two[1].ID}, "type")
		w.same(w.foundItems(pawl.ItemFilter{Search: "x"}), []string(nil), "no type")
		w.same(w.foundItems(pawl.ItemFilter{Search: b}), []string{two[0].ID, two[1].ID}, "task")
		w.same(w.foundItems(pawl.ItemFilter{Search: a[:30]}), []string{only}, "task of one")
		w.same(w.foundItems(pawl.ItemFilter{Search: two[1].ID}), []string{two[1].ID}, "id")
		w.same(w.foundItems(pawl.ItemFilter{Search: "be", Types: []string{"alpha"}}), []string(nil), "another type")
		w.same(w.foundItems(pawl.ItemFilter{Search: "be", States: []pawl.ItemState{pawl.ItemQueued}, Desc: true}),
			[]string{two[1].ID, two[0].ID}, "state")
	}},
	{"failures are grouped by type and error", func(w *fixture) {
		var ids []string
		for _, f := range []struct{ typ, message string }{
			{"a", "row 1 is gone"}, {"a", "row 22 is gone"}, {"b", "row 3 is gone"}, {"a", "no memory"}, {"a", "row 4 is gone"},
		} {
			ids = append(ids, w.create(pawl.NewTask{Type: f.typ}).ID)
			w.failPermanently(w.claim("w"), f.message)
		}
		w.bury(ids[1])
		groups := w.failureGroups(pawl.FailureFilter{})
		w.same(len(groups), 3, "groups")
		g := groups[0]
		w.same([]any{g.Type, g.Error, g.Count, g.Failed, g.DeadLettered, g.Message, g.TaskID, g.ItemID},
			[]any{"a", "row <n> is gone", int64(3), int64(2), int64(1), "row 4 is gone", ids[4], w.onlyItem(ids[4]).ID}, "the largest")
		w.same([]bool{g.FirstAt.After(g.LastAt), g.FirstAt.IsZero()}, []bool{false, false}, "times")
		w.same(len(w.failureGroups(pawl.FailureFilter{Types: []string{"b"}})), 1, "of a type")
		w.same(w.failureGroups(pawl.FailureFilter{State: pawl.ItemDeadLettered})[0].Count, int64(1), "of a state")
		w.same(len(w.in("other").failureGroups(pawl.FailureFilter{})), 0, "of another namespace")
		w.same(w.found(pawl.TaskFilter{Failure: g.Failure}), []string{ids[4], ids[1], ids[0]}, "its tasks")
		w.same(len(w.foundItems(pawl.ItemFilter{Failure: g.Failure, States: []pawl.ItemState{pawl.ItemFailed}})), 2, "its items")
		first, err := w.svc.ListFailures(w.ctx, pawl.FailureFilter{Page: pawl.Page{Limit: 2}})
		w.ok(err, "first page")
		rest, err := w.svc.ListFailures(w.ctx, pawl.FailureFilter{Page: pawl.Page{Limit: 2, Cursor: first.Next}})
		w.ok(err, "second page")
		w.same(append(first.Items, rest.Items...), groups, "pages")
		for _, f := range []pawl.FailureFilter{{State: "queued"}, {Page: pawl.Page{Limit: -1}}, {Page: pawl.Page{Cursor: "x"}}} {
			_, err := w.svc.ListFailures(w.ctx, f)
			w.refused(err, pawl.CodeInvalid)
		}
		_, err = w.svc.ListTasks(w.ctx, pawl.TaskFilter{Failure: "a"})
		w.invalid(err, "/failure")
		w.retry(ids[3])
		w.same(len(w.failureGroups(pawl.FailureFilter{})), 2, "after a retry")
	}},
	{"a bulk call retries a group of failures and nothing else", func(w *fixture) {
		many := w.create(pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Input: raw("1")}, {Input: raw("2")}, {Input: raw("3")}}}).ID
		for _, message := range []string{"row 1 is gone", "no memory", "row 2 is gone"} {
			w.failPermanently(w.claim("w"), message)
		}
		alone := w.create(pawl.NewTask{Type: "a"}).ID
		w.failPermanently(w.claim("w"), "row 7 is gone")
		call := pawl.BulkCall{Verb: pawl.BulkRetry, Filter: pawl.BulkFilter{Failure: w.failureGroups(pawl.FailureFilter{})[0].Failure}}
		n, err := w.svc.CountBulk(w.ctx, call)
		w.ok(err, "count")
		w.same(n, int64(2), "count")
		w.same(w.bulkDone(w.bulk(call)), pawl.BulkResult{Matched: 2, Changed: 2}, "result")
		var states []pawl.ItemState
		for _, i := range w.items(many) {
			states = append(states, i.State)
		}
		w.same(states, []pawl.ItemState{pawl.ItemQueued, pawl.ItemFailed, pawl.ItemQueued}, "items")
		w.same(w.task(alone).State, pawl.TaskQueued, "the other task")
		left := w.failureGroups(pawl.FailureFilter{})
		w.same([]any{len(left), left[0].Error}, []any{1, "no memory"}, "what is left")
		w.same(w.bulkDone(w.bulk(call)), pawl.BulkResult{}, "the same again")
	}},
	{"every way to fail has a group", func(w *fixture) {
		w.create(pawl.NewTask{Type: "a", MaxAttempts: 1})
		w.expire(w.claim("w"))
		tasks := []pawl.NewItem{{Key: "x", Input: raw("1")}, {Key: "y", Input: raw("2"), After: []string{"x"}}}
		w.create(pawl.NewTask{Type: "a", Items: tasks})
		w.failPermanently(w.claim("w"), "broken")
		w.sweep()
		var errors []string
		for _, g := range w.failureGroups(pawl.FailureFilter{}) {
			w.same([]any{g.Type, g.Count}, []any{"a", int64(1)}, g.Error)
			errors = append(errors, g.Code+": "+g.Error)
		}
		slices.Sort(errors)
		w.same(errors, []string{": broken", "dependency_failed: An item it depends on failed", "lease_expired: Max retries exceeded"}, "errors")
	}},
}}

func startWith(prefix string, ids ...string) (out []string) {
	for _, id := range ids {
		if strings.HasPrefix(id, prefix) {
			out = append(out, id)
		}
	}
	return out
}

// found lists the ids of tasks in pages of one, then at once.
func (w *fixture) found(f pawl.TaskFilter) (ids []string) {
	list, err := w.svc.ListTasks(w.ctx, f)
	w.ok(err, "tasks by "+f.Search+f.TitlePrefix)
	for _, t := range list.Items {
		ids = append(ids, t.ID)
	}
	var one []string
	for f.Limit = 1; ; {
		list, err := w.svc.ListTasks(w.ctx, f)
		w.ok(err, "tasks by "+f.Search+f.TitlePrefix)
		for _, t := range list.Items {
			one = append(one, t.ID)
		}
		if f.Cursor = list.Next; list.Next == "" {
			break
		}
	}
	w.same(one, ids, "pages of one")
	return ids
}

func (w *fixture) foundItems(f pawl.ItemFilter) (ids []string) {
	list, err := w.svc.ListItems(w.ctx, f)
	w.ok(err, "items")
	for _, i := range list.Items {
		ids = append(ids, i.ID)
	}
	return ids
}

func (w *fixture) failureGroups(f pawl.FailureFilter) []pawl.FailureGroup {
	list, err := w.svc.ListFailures(w.ctx, f)
	w.ok(err, "failures")
	return list.Items
}
