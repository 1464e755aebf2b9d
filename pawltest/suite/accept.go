package suite

import (
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

// essay is a type whose results need approval.
var essay = pawl.Type{
	Name: "essay",
	ResultSchema: raw(
		`{"type":"object","required":["title"],"properties":{"title":{"type":"string","maxLength":9},"pages":{"type":"array"}},` +
			`"additionalProperties":false}`,
	),
	Approval: pawl.Approval{Mode: pawl.ApprovalManual},
}

// album is a type whose results are assembled from parts.
var album = pawl.Type{
	Name: "album",
	Parts: []pawl.PartRule{
		{Key: "title", Required: true, Schema: raw(`{"type":"string"}`)},
		{Key: "pages", Required: true, Repeatable: true},
	},
	Approval: pawl.Approval{Mode: pawl.ApprovalManual},
}

// claimedTask creates a task of a type with n items, all claimed by "w1".
func (w *fixture) claimedTask(t pawl.Type, n int) (pawl.Task, []pawl.Lease) {
	w.Helper()
	w.putType(t)
	task := w.create(pawl.NewTask{Type: t.Name, Items: make([]pawl.NewItem, n)})
	return task, w.claims(pawl.ClaimRequest{WorkerID: "w1", Limit: n})
}

func (w *fixture) trySubmit(l pawl.Lease, result string) error {
	_, err := first(w.svc.Submit(w.ctx, []pawl.SubmitCall{{Fence: l.Fence(), Result: raw(result)}}))
	return err
}

func (w *fixture) submit(l pawl.Lease, result string) {
	w.Helper()
	w.ok(w.trySubmit(l, result), "submit")
}

func (w *fixture) tryPart(l pawl.Lease, key string, seq *int, payload string) error {
	_, err := first(w.svc.SubmitParts(w.ctx, []pawl.PartCall{{Fence: l.Fence(), Key: key, Seq: seq, Payload: raw(payload)}}))
	return err
}

func (w *fixture) tryFinalize(l pawl.Lease) error {
	_, err := first(w.svc.Finalize(w.ctx, []pawl.FinalizeCall{{Fence: l.Fence()}}))
	return err
}

func (w *fixture) tryApprove(taskID string) error {
	_, err := first(w.svc.ApproveTasks(w.ctx, []pawl.ApproveCall{{TaskID: taskID}}))
	return err
}

// rejectForRework rejects a task for rework: all its items, or those given.
func (w *fixture) rejectForRework(taskID string, why []pawl.Complaint, items ...string) pawl.Task {
	w.Helper()
	t, err := first(w.svc.RejectTasks(w.ctx, []pawl.RejectCall{{TaskID: taskID, Errors: why, AllowRework: true, ItemIDs: items}}))
	w.ok(err, "reject")
	return t
}

// refusedUnchanged runs a call that must be refused, and checks that events and item are unchanged.
func (w *fixture) refusedUnchanged(l pawl.Lease, refused func() error) error {
	w.Helper()
	events, item := len(w.allEvents(pawl.EventFilter{TaskID: l.TaskID})), w.item(l.ID)
	err := refused()
	w.same(len(w.allEvents(pawl.EventFilter{TaskID: l.TaskID})), events, "events after a refusal")
	now := w.item(l.ID)
	now.Error = item.Error // the reason for the refusal is stored
	w.same(now, item, "the item after a refusal")
	return err
}

var acceptance = noun{"acceptance", []promise{
	{"a claim carries the item's last error", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		w.same(l.Error, (*pawl.Failure)(nil), "of the first claim")
		_, err := first(
			w.svc.Fail(
				w.ctx,
				[]pawl.FailCall{
					{Fence: l.Fence(), Error: pawl.Failure{Code: "full", Message: "no room", Detail: raw(`{"free":0}`)}, RetryAfterMS: ptr(int64(0))},
				},
			),
		)
		w.ok(err, "fail")
		l = w.claim("w2")
		w.same(l.Error, &pawl.Failure{Code: "full", Message: "no room", Detail: raw(`{"free":0}`)}, "after a failure")
		w.expire(l)
		w.same(w.claim("w3").Error, &pawl.Failure{Code: "lease_expired", Message: "Lease expired - retry 2/3"}, "after an expiry")
	}},
	{"the next worker gets the reasons of a rejection, also after a failure", func(w *fixture) {
		task, ls := w.claimedTask(essay, 2)
		for _, l := range ls {
			w.submit(l, `{"title":"Pawls"}`)
		}
		why := []pawl.Complaint{{Code: "thin", Message: "one page is too few", Field: "/pages"}, {Code: "dull", Message: "no pictures"}}
		w.same(w.rejectForRework(task.ID, why, ls[0].ID).State, pawl.TaskInProgress, "the task")
		l := w.claim("w2")
		w.same([]any{l.ID, l.Attempt, l.Failures, l.Reasons}, []any{ls[0].ID, 2, 0, why}, "the claim")
		w.same(
			l.Error,
			&pawl.Failure{
				Code:    "rejected",
				Message: "one page is too few",
				Detail:  raw(`[{"code":"thin","message":"one page is too few","field":"/pages"},{"code":"dull","message":"no pictures"}]`),
			},
			"its error",
		)
		w.failNow(l, "no pictures to be had")
		l = w.claim("w3")
		w.same([]any{l.Error.Message, l.Reasons}, []any{"no pictures to be had", why}, "the claim after a failure")
		w.submit(l, `{"title":"Pawls","pages":[1,2]}`)
		other := why[1:]
		w.rejectForRework(task.ID, other)
		for _, l := range w.claims(pawl.ClaimRequest{WorkerID: "w4", Limit: 2}) {
			w.same(l.Reasons, other, "of the newest rejection, to every item")
		}
	}},
	{"a result that violates the schema is refused, and the lease stays", func(w *fixture) {
		task, ls := w.claimedTask(essay, 1)
		for result, at := range map[string]string{
			`{"title":"much too long"}`: "/result/title", `{"title":7}`: "/result/title", `{"titel":"x"}`: "/result/titel",
			`[{"title":"x"}]`: "/result",
			`null`:            "/result", `{"title":"x","pages":{}}`: "/result/pages", `{"title":"x","title":"y"}`: "/result/title",
		} {
			w.invalid(w.refusedUnchanged(ls[0], func() error { return w.trySubmit(ls[0], result) }), at)
		}
		w.same(w.item(ls[0].ID).Error.Code, "refused", "the item's error")
		w.submit(ls[0], `{"title":"fits"}`)
		w.same(w.item(ls[0].ID).Error, (*pawl.Failure)(nil), "the item's error, once a result is taken")
		w.same(w.task(task.ID).Version, 1, "version")
		var names []string
		for _, e := range w.allEvents(pawl.EventFilter{TaskID: task.ID}) {
			names = append(names, e.Event)
		}
		w.same(names, []string{"proposed", "leased", "submitted", "ready_for_approval"}, "events")
	}},
	{"a refusal names the verb that the type allows, and the requested verb", func(w *fixture) {
		task, ls := w.claimedTask(essay, 1)
		_, err := pawl.Complete(w.ctx, w.svc, ls[0].Fence(), raw(`{"title":"x"}`))
		w.conflict(err, "leased", "submit", "fail", "release", "revoke_lease", "suspend", "cancel")
		err = w.refusedUnchanged(ls[0], func() error { return w.tryApprove(task.ID) })
		w.conflict(err, "checked_out", pawl.TaskCheckedOut.Allowed()...)
		w.same(strings.Contains(err.Error(), "does not allow approve"), true, err.Error())
		w.oneItem()
		plain := w.claim("w1")
		w.conflict(
			w.refusedUnchanged(plain, func() error { return w.trySubmit(plain, `1`) }),
			"leased",
			"complete",
			"fail",
			"release",
			"revoke_lease",
			"suspend",
			"cancel",
		)
	}},
	{"the same part again changes nothing, whatever else the call contains", func(w *fixture) {
		_, ls := w.claimedTask(album, 1)
		put := func(notes string, payload string, draft bool) pawl.ItemPart {
			p, err := first(
				w.svc.SubmitParts(w.ctx, []pawl.PartCall{{Fence: ls[0].Fence(), Key: "title", Payload: raw(payload), Notes: notes, Draft: draft}}),
			)
			w.ok(err, "part")
			return p
		}
		draft := put("first", `"x"`, true)
		part := put("second", `"x"`, false)
		w.same(part.ID == draft.ID, false, "a draft that is checked now is the same part")
		events := len(w.allEvents(pawl.EventFilter{TaskID: ls[0].TaskID}))
		w.same(put("third", `"x"`, false), part, "again")
		w.same(len(w.allEvents(pawl.EventFilter{TaskID: ls[0].TaskID})), events, "events")
	}},
	{"the result of applying is checked, and kept as the diff", func(w *fixture) {
		t := essay
		t.Name, t.Approval.Mode, t.Apply.Mode = "published", pawl.ApprovalNone, pawl.ApplyItem
		task, ls := w.claimedTask(t, 1)
		w.submit(ls[0], `{"title":"x"}`)
		w.noneClaimable()
		l := w.claims(pawl.ClaimRequest{WorkerID: "w2", Types: []string{"published.apply"}})[0]
		for result, at := range map[string]string{
			`5`: "/result", `{"before":1,"after":2}`: "/result", `{"diff":{"counts":{"a":"b"}}}`: "/result",
			`{"diff":{"operations":3}}`: "/result/diff/operations",
			`{"diff":{"operations":[{"op":"remove","path":"/a"},{"op":"add","path":"/a"}]}}`: "/result/diff/operations/1",
			`{"diff":{"operations":[{"op":"put","path":"/a","value":1}]}}`:                   "/result/diff/operations/0",
			`{"diff":{"operations":[{"op":"remove","path":"a"}]}}`:                           "/result/diff/operations/0",
		} {
			w.invalid(w.refusedUnchanged(l, func() error {
				_, err := pawl.Complete(w.ctx, w.svc, l.Fence(), raw(result))
				return err
			}), at)
			w.same(w.task(task.ID).State, pawl.TaskApproved, "the task")
		}
		diff := `{"summary":"one ` +
			`page","before":{"a":1},"after":{"a":2},"operations":[{"op":"replace","path":"/a","value":2}],"counts":{"replaced":1}}`
		w.complete(l, `{"result":{"url":"x"},"diff":`+diff+`}`)
		w.same(w.task(task.ID).State, pawl.TaskCompleted, "the task")
		w.same(string(w.allEvents(pawl.EventFilter{TaskID: task.ID, Event: "applied"})[0].Diff), diff, "the diff")
		got, err := w.svc.TaskResult(w.ctx, task.ID)
		w.ok(err, "result")
		w.same(string(got.Payload), `{"url":"x"}`, "the result")
	}},
	{"only the worker that holds the lease can submit", func(w *fixture) {
		_, ls := w.claimedTask(essay, 1)
		l := ls[0]
		for _, f := range []pawl.Lease{{ID: l.ID, TaskID: l.TaskID, WorkerID: "w2", Attempt: 1},
			{ID: l.ID, TaskID: l.TaskID, WorkerID: "w1", Attempt: 2}} {
			w.leaseLost(w.refusedUnchanged(f, func() error { return w.trySubmit(f, `{"title":"x"}`) }), "taken", "leased", "w1", 1)
		}
		w.expire(l)
		w.leaseLost(w.refusedUnchanged(l, func() error { return w.trySubmit(l, `{"title":"x"}`) }), "expired", "queued", "w1", 1)
		w.claim("w2")
		w.leaseLost(w.refusedUnchanged(l, func() error { return w.trySubmit(l, `{"title":"x"}`) }), "taken", "leased", "w2", 2)
	}},
	{"finalize names the missing parts, and after it no part is accepted", func(w *fixture) {
		_, ls := w.claimedTask(album, 1)
		l := ls[0]
		w.ok(w.tryPart(l, "pages", ptr(0), `1`), "part")
		w.invalid(w.refusedUnchanged(l, func() error { return w.tryFinalize(l) }), "/parts/title")
		w.ok(w.tryPart(l, "title", nil, `"x"`), "part")
		w.ok(w.tryFinalize(l), "finalize")
		w.same(string(w.item(l.ID).Result), `{"title":"x","pages":[1]}`, "the result")
		w.conflict(w.refusedUnchanged(l, func() error { return w.tryPart(l, "title", nil, `"y"`) }), "submitted", pawl.ItemSubmitted.Allowed()...)
		w.conflict(w.refusedUnchanged(l, func() error {
			_, err := finalizeWith("", "another call")(w, l.Fence())
			return err
		}), "submitted", pawl.ItemSubmitted.Allowed()...)
	}},
	{"parts are checked and assembled in order, and those that were replaced are kept", func(w *fixture) {
		_, ls := w.claimedTask(pawl.Type{Name: "table", Approval: pawl.Approval{Mode: pawl.ApprovalManual},
			Assembly: pawl.Assembly{Mode: pawl.AssembleConcat}, Parts: []pawl.PartRule{
				{Key: "head", Required: true, Schema: raw(`{"type":"string"}`)}, {Key: "rows", Repeatable: true}}}, 1)
		l := ls[0]
		w.ok(w.tryPart(l, "rows", ptr(2), `[3]`), "part")
		w.ok(w.tryPart(l, "rows", ptr(1), `[1,2]`), "part")
		w.invalid(w.tryPart(l, "rows", nil, `[]`), "/seq")
		w.invalid(w.tryPart(l, "tail", nil, `1`), "/key")
		w.invalid(w.tryPart(l, "head", nil, `1`), "/payload")
		w.refused(w.tryFinalize(l), pawl.CodeInvalid)
		w.ok(w.tryPart(l, "head", nil, `"good"`), "part")
		w.invalid(w.tryPart(l, "head", nil, `2`), "/payload")
		w.same(string(w.item(l.ID).PartsState), `{"head":{"status":"validated","count":1},"rows":{"status":"validated","count":2}}`, "parts")
		w.ok(w.tryFinalize(l), "finalize")
		it := w.item(l.ID)
		w.same([]string{string(it.AssembledResult), string(it.Result)}, []string{`{"head":"good","rows":[1,2,3]}`,
			`{"head":"good","rows":[1,2,3]}`}, "the result")
		all, err := w.svc.ListParts(w.ctx, pawl.PartFilter{ItemID: l.ID, All: true})
		w.ok(err, "list parts")
		var kept []any
		for _, p := range all.Items {
			kept = append(kept, p.Key, p.Status, p.SupersededAt != nil)
		}
		w.same(kept, []any{"rows", pawl.PartValidated, false, "rows", pawl.PartValidated, false, "head", pawl.PartRejected, true,
			"head", pawl.PartValidated, false, "head", pawl.PartRejected, true}, "all parts")
	}},
	{"a whole result is refused until each required part is accepted", func(w *fixture) {
		_, ls := w.claimedTask(album, 2)
		l := ls[0]
		tryComplete := func() error {
			_, err := first(w.svc.Complete(w.ctx, []pawl.CompleteCall{{Fence: l.Fence(), Result: raw(`1`)}}))
			return err
		}
		lacks := func(pointers ...string) {
			w.Helper()
			for verb, call := range map[string]func() error{
				"submit": func() error { return w.trySubmit(l, `{"title":"x"}`) }, "complete": tryComplete,
			} {
				err := w.refusedUnchanged(l, call)
				w.refused(err, pawl.CodeInvalid)
				var at []string
				for _, f := range pawl.FieldsOf(err) {
					at = append(at, f.Pointer)
				}
				w.same(at, pointers, verb)
			}
		}
		lacks("/parts/title", "/parts/pages")
		w.invalid(w.tryPart(l, "title", nil, `7`), "/payload")
		lacks("/parts/title", "/parts/pages")
		w.ok(w.tryPart(l, "title", nil, `"x"`), "part")
		lacks("/parts/pages")
		_, err := first(w.svc.SubmitParts(w.ctx, []pawl.PartCall{{Fence: l.Fence(), Key: "pages", Seq: ptr(0), Payload: raw(`1`), Draft: true}}))
		w.ok(err, "draft")
		lacks("/parts/pages")
		w.ok(w.tryPart(l, "pages", ptr(0), `1`), "part")
		w.invalid(w.tryPart(l, "title", nil, `7`), "/payload") // the accepted one stays
		w.same(slices.Contains(w.refused(w.refusedUnchanged(l, tryComplete), pawl.CodeConflict).Allowed, "submit"), true, "submit is allowed")
		w.submit(l, `{"title":"z"}`)
		w.same(string(w.item(l.ID).Result), `{"title":"z"}`, "the result")
		rs, err := w.svc.Submit(w.ctx, []pawl.SubmitCall{{Fence: l.Fence(), Result: raw(`1`)}, {Fence: ls[1].Fence(), Result: raw(`1`)}})
		w.ok(err, "a batch")
		w.refused(rs[0].Err, pawl.CodeConflict)
		w.invalid(rs[1].Err, "/parts/title")
	}},
	{"a task can be decided only when it is ready, once, and with reasons", func(w *fixture) {
		task, ls := w.claimedTask(essay, 2)
		w.submit(ls[0], `{"title":"a"}`)
		w.conflict(w.refusedUnchanged(ls[0], func() error { return w.tryApprove(task.ID) }), "in_progress", pawl.TaskInProgress.Allowed()...)
		w.same(w.task(task.ID).ReadyForApproval, false, "ready, before all is handed in")
		w.submit(ls[1], `{"title":"b"}`)
		w.same(w.task(task.ID).ReadyForApproval, true, "ready")
		for at, c := range map[string]pawl.RejectCall{
			"/errors": {}, "/errors/0/code": {Errors: []pawl.Complaint{{Message: "no"}}},
			"/errors/0/message": {Errors: []pawl.Complaint{{Code: "no"}}},
			"/items":            {Errors: []pawl.Complaint{{Code: "no", Message: "no"}}, ItemIDs: []string{ls[0].ID}},
		} {
			c.TaskID = task.ID
			w.invalid(w.refusedUnchanged(ls[0], func() error { _, err := first(w.svc.RejectTasks(w.ctx, []pawl.RejectCall{c})); return err }), at)
		}
		w.ok(w.as("user", "eve").tryApprove(task.ID), "approve")
		err := w.refusedUnchanged(ls[0], func() error { return w.as("user", "bob").tryApprove(task.ID) })
		w.conflict(err, "completed", []string{}...)
		w.same(w.refused(err, pawl.CodeConflict).Holder, "user/eve", "who decided")
	}},
	{"results are sent back for rework only so often, and can be rejected for good", func(w *fixture) {
		why := []pawl.Complaint{{Code: "thin", Message: "too thin", Field: "/title"}}
		for n, back := range map[int]pawl.TaskState{1: pawl.TaskQueued, 3: pawl.TaskInProgress} {
			task, ls := w.claimedTask(essay, n)
			for _, l := range ls {
				w.submit(l, `{"title":"a"}`)
			}
			for round := range pawl.MaxRework {
				w.same(w.rejectForRework(task.ID, why, ls[0].ID).State, back, "sent back")
				w.refused(w.trySubmit(ls[0], `{"title":"late"}`), pawl.CodeLeaseLost)
				ls[0] = w.claim("w2")
				it := w.item(ls[0].ID)
				w.same([]any{it.Rework, ls[0].Rework, it.Error.Message}, []any{round + 1, round + 1, "too thin"}, "the item")
				w.submit(ls[0], `{"title":"b"}`)
			}
			call := pawl.RejectCall{TaskID: task.ID, Errors: why, AllowRework: true, ItemIDs: []string{ls[0].ID}}
			_, err := first(w.svc.RejectTasks(w.ctx, []pawl.RejectCall{call}))
			w.refused(err, pawl.CodeConflict)
			got, err := first(w.svc.RejectTasks(w.ctx, []pawl.RejectCall{{TaskID: task.ID, Errors: why}}))
			w.ok(err, "reject")
			w.same([]any{got.State, got.Error != nil}, []any{pawl.TaskRejected, true}, "the task")
			for _, it := range w.items(task.ID) {
				w.same(it.State, pawl.ItemRejected, "an item")
			}
		}
	}},
	{"a task that is rejected for good gives up its input hash", func(w *fixture) {
		w.putType(essay)
		ask := pawl.NewTask{Type: essay.Name, Payload: raw(`{"n":1}`), Dedupe: pawl.Dedupe{All: true}}
		task := w.create(ask)
		w.submit(w.claim("w1"), `{"title":"a"}`)
		w.same(w.create(ask).ID, task.ID, "while it may be approved")
		_, err := first(w.svc.RejectTasks(w.ctx, []pawl.RejectCall{{TaskID: task.ID, Errors: []pawl.Complaint{{Code: "no", Message: "no"}}}}))
		w.ok(err, "reject")
		w.same(w.task(task.ID).State, pawl.TaskRejected, "state")
		w.same(w.create(ask).Deduplicated, false, "deduplicated")
	}},
	{"a removed type still applies to existing tasks", func(w *fixture) {
		task, ls := w.claimedTask(essay, 1)
		w.removeType(essay.Name)
		w.invalid(w.refusedUnchanged(ls[0], func() error { return w.trySubmit(ls[0], `{}`) }), "/result/title")
		w.submit(ls[0], `{"title":"x"}`)
		w.rejectForRework(task.ID, []pawl.Complaint{{Code: "thin", Message: "thin"}})
		w.submit(w.claim("w2"), `{"title":"y"}`)
		w.ok(w.tryApprove(task.ID), "approve")
		w.same(w.task(task.ID).State, pawl.TaskCompleted, "the task")
	}},
	{"an approval that is not given in time expires once", func(w *fixture) {
		slow := essay
		slow.Approval.ExpiresSeconds, slow.Approval.OnExpiry = 60, pawl.ExpiryReject
		task, ls := w.claimedTask(slow, 1)
		w.submit(ls[0], `{"title":"x"}`)
		w.advance(time.Minute)
		w.sweep()
		w.sweep()
		w.same(w.task(task.ID).State, pawl.TaskRejected, "the task")
		w.same(len(w.allEvents(pawl.EventFilter{TaskID: task.ID, Event: "approval_expired"})), 1, "events")
	}},
	{"an approval that is not given in time is escalated once, to those who may approve then", func(w *fixture) {
		task, ls := w.claimedTask(pawl.Type{Name: "essay", Approval: pawl.Approval{Mode: pawl.ApprovalManual, ExpiresSeconds: 60,
			By: []string{"user/boss"}, OnExpiry: pawl.ExpiryEscalate, EscalateTo: []string{"user/deputy"}}}, 1)
		w.submit(ls[0], `1`)
		deputy := w.as("user", "deputy")
		w.refused(deputy.tryApprove(task.ID), pawl.CodeForbidden)
		w.advance(time.Minute)
		w.sweep()
		w.sweep()
		w.ok(deputy.tryApprove(task.ID), "approve")
		for _, name := range []string{"approval_expired", "escalated"} {
			w.same(len(w.allEvents(pawl.EventFilter{TaskID: task.ID, Event: name})), 1, name)
		}
	}},
}}
