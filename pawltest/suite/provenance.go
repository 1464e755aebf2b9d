package suite

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

// bot is an agent that gives its full provenance.
var bot = pawl.Provenance{
	AgentName:    "research-bot",
	AgentVersion: "1.2.3",
	Model:        "m-1",
	Extra:        raw(`{"environment": "production", "deployment": "us-west-2"}`),
}

// withProvenance returns a copy of the fixture whose calls have provenance.
func (w *fixture) withProvenance(p pawl.Provenance) *fixture {
	other := *w
	other.ctx = pawl.WithProvenance(w.ctx, p)
	return &other
}

// provenanceOf returns the provenance records of a task.
func (w *fixture) provenanceOf(taskID string) []pawl.ProvenanceRecord {
	w.Helper()
	l, err := w.svc.ListProvenance(w.ctx, pawl.ProvenanceFilter{TaskID: taskID})
	w.ok(err, "list provenance")
	return l.Items
}

func verbsOf(rows []pawl.ProvenanceRecord) string {
	var verbs []string
	for _, r := range rows {
		verbs = append(verbs, r.Verb)
	}
	return strings.Join(verbs, " ")
}

var provenance = noun{"provenance", []promise{
	{"the provenance of create, claim, submit and approve is stored, each row with its event", func(w *fixture) {
		w.putType(pawl.Type{Name: "a", Approval: pawl.Approval{Mode: pawl.ApprovalManual}, EvidenceRequired: true})
		b := w.withProvenance(bot)
		task := b.oneItem()
		l := b.claim("agent-7")
		given := bot
		given.AgentID, given.RequestFingerprint, given.IdempotencyKey = "seven", strings.Repeat("f", 64), "abc123-unique-key"
		_, err := first(
			b.svc.Submit(
				b.ctx,
				[]pawl.SubmitCall{
					{Fence: l.Fence(), Result: raw(`1`), Evidence: raw(`{"url":"https://example.com"}`), Notes: "see there", Provenance: &given},
				},
			),
		)
		w.ok(err, "submit")
		p := w.as("user", "ada")
		_, err = first(
			p.svc.ApproveTasks(pawl.WithProvenance(p.ctx, pawl.Provenance{AgentName: "console"}), []pawl.ApproveCall{{TaskID: task.ID}}),
		)
		w.ok(err, "approve")

		rows := w.provenanceOf(task.ID)
		w.same(verbsOf(rows), "create claim submit approve", "the verbs, in order")
		var events []string
		for i, r := range rows {
			es := w.allEvents(pawl.EventFilter{TaskID: task.ID, Event: []string{"proposed", "leased", "submitted", "approved"}[i]})
			w.same(r.EventID, es[0].ID, r.Verb+": its event")
			w.same(r.Data, es[0].Data, r.Verb+": the event's data")
			w.same(r.CreatedAt, es[0].CreatedAt, r.Verb+": the event's time")
			events = append(events, es[0].ID)
		}
		w.same(len(events), 4, "events")
		create, claim, submit, approve := rows[0], rows[1], rows[2], rows[3]
		w.same(
			[]any{
				create.TaskID,
				create.ItemID,
				create.Attempt,
				create.AgentName,
				create.AgentVersion,
				create.Model,
				string(create.Extra),
				len(create.RequestFingerprint),
			},
			[]any{task.ID, "", 0, "research-bot", "1.2.3", "m-1", string(bot.Extra), 64},
			"who created it",
		)
		w.same(
			[]any{claim.ItemID, claim.Attempt, claim.AgentID, claim.Scope},
			[]any{l.ID, 1, "agent-7", "claim:item:" + l.ID},
			"who claimed it: the worker, who has said no other name",
		)
		w.same(
			[]any{submit.AgentID, submit.RequestFingerprint, submit.IdempotencyKey, string(submit.Data)},
			[]any{
				"seven",
				given.RequestFingerprint,
				hashOfKey("abc123-unique-key"),
				`{"evidence":{"url":"https://example.com"},"notes":"see there"}`,
			},
			"who submitted it, in words of his own",
		)
		w.same(
			[]any{approve.AgentID, approve.AgentName, approve.ItemID, approve.Scope},
			[]any{"ada", "console", "", "approve:task:" + task.ID},
			"who approved it",
		)
	}},
	{"the provenance of finalize, complete, fail and reject is stored", func(w *fixture) {
		w.putType(pawl.Type{Name: "a", Approval: pawl.Approval{Mode: pawl.ApprovalManual}, Parts: []pawl.PartRule{{Key: "k"}}})
		b := w.withProvenance(bot)
		task := b.oneItem()
		l := b.claim("w1")
		_, err := first(w.svc.SubmitParts(w.ctx, []pawl.PartCall{{Fence: l.Fence(), Key: "k", Payload: raw(`{"x":1}`)}}))
		w.ok(err, "part")
		_, err = first(w.svc.Finalize(b.ctx, []pawl.FinalizeCall{{Fence: l.Fence()}}))
		w.ok(err, "finalize")
		_, err = first(
			w.svc.RejectTasks(
				b.ctx,
				[]pawl.RejectCall{{TaskID: task.ID, Errors: []pawl.Complaint{{Code: "thin", Message: "more"}}, AllowRework: true}},
			),
		)
		w.ok(err, "reject")
		rows := w.provenanceOf(task.ID)
		w.same(verbsOf(rows), "create claim finalize reject", "of the type with parts")
		w.same(string(rows[3].Data), `{"errors":[{"code":"thin","message":"more"}],"rework":true}`, "why it was rejected")

		plain := w.create(pawl.NewTask{Type: "plain"})
		pl := b.claimItem("w2", w.onlyItem(plain.ID).ID)
		b.failNow(pl, "broken")
		pl = b.claimItem("w2", pl.ID)
		b.complete(pl, `1`)
		rows = w.provenanceOf(plain.ID)
		w.same(verbsOf(rows), "claim fail claim complete", "of a plain type")
		w.same([]any{rows[1].Attempt, rows[2].Attempt, rows[3].Attempt, rows[3].AgentID}, []any{1, 2, 2, "w2"}, "by attempt")
		l2, err := w.svc.ListProvenance(w.ctx, pawl.ProvenanceFilter{ItemID: pl.ID, Page: pawl.Page{Limit: 3}})
		w.ok(err, "of the item")
		w.same(verbsOf(l2.Items), "claim fail claim", "its first page")
		l2, err = w.svc.ListProvenance(w.ctx, pawl.ProvenanceFilter{ItemID: pl.ID, Page: pawl.Page{Limit: 3, Cursor: l2.Next}})
		w.ok(err, "of the item, on")
		w.same([]any{verbsOf(l2.Items), l2.Next}, []any{"complete", ""}, "its last page")
	}},
	{"a call without provenance stores none", func(w *fixture) {
		task := w.oneItem()
		w.complete(w.claim("w1"), `1`)
		w.same(len(w.provenanceOf(task.ID)), 0, "rows")
		_, err := w.svc.ListProvenance(w.ctx, pawl.ProvenanceFilter{TaskID: "tsk_01ARZ3NDEKTSV4RRFFQ69G5FAV"})
		w.refused(err, pawl.CodeNotFound)
		_, err = w.in("other").svc.ListProvenance(w.in("other").ctx, pawl.ProvenanceFilter{TaskID: task.ID})
		w.refused(err, pawl.CodeNotFound)
	}},
	{"a refused call stores only its error", func(w *fixture) {
		w.putType(pawl.Type{Name: "a", Approval: pawl.Approval{Mode: pawl.ApprovalManual}, ResultSchema: raw(`{"type":"object"}`)})
		task := w.oneItem()
		l := w.claim("w1")
		_, err := first(w.svc.Submit(w.withProvenance(bot).ctx, []pawl.SubmitCall{{Fence: l.Fence(), Result: raw(`1`)}}))
		w.refused(err, pawl.CodeInvalid)
		_, err = first(w.svc.ApproveTasks(w.withProvenance(bot).ctx, []pawl.ApproveCall{{TaskID: task.ID}}))
		w.refused(err, pawl.CodeConflict)
		w.same(len(w.provenanceOf(task.ID)), 0, "rows")
		w.withProvenance(bot).noneClaimable()
	}},
	{"a key used again for the same is refused, and nothing is done", func(w *fixture) {
		task := w.manyItems(2)
		keyed := w.withProvenance(pawl.Provenance{IdempotencyKey: "once"})
		l := keyed.claim("w1")
		w.release(l)
		_, err := w.svc.Claim(keyed.ctx, pawl.ClaimRequest{WorkerID: "w1", ItemID: l.ID})
		w.refused(err, pawl.CodeKeyReused)
		w.same([]any{w.item(l.ID).State, w.item(l.ID).Attempt}, []any{pawl.ItemQueued, 1}, "the item")
		again := w.claimItem("w1", l.ID)
		other := keyed.claim("w1") // another item is another scope
		rs, err := w.svc.Fail(w.withProvenance(pawl.Provenance{IdempotencyKey: "f"}).ctx, []pawl.FailCall{
			{
				Fence:        again.Fence(),
				Error:        pawl.Failure{Message: "x"},
				RetryAfterMS: ptr(int64(0)),
			}, {Fence: other.Fence(), Error: pawl.Failure{Message: "x"}, RetryAfterMS: ptr(int64(0))}})
		w.ok(err, "fail both")
		w.same([]any{rs[0].Err, rs[1].Err}, []any{nil, nil}, "the same key in two scopes")
		again, other = w.claimItem("w1", l.ID), w.claimItem("w1", other.ID)
		rs, err = w.svc.Fail(w.ctx, []pawl.FailCall{
			{
				Fence:        again.Fence(),
				Error:        pawl.Failure{Message: "x"},
				RetryAfterMS: ptr(int64(0)),
				Provenance:   &pawl.Provenance{IdempotencyKey: "f"},
			},
			{
				Fence:        other.Fence(),
				Error:        pawl.Failure{Message: "x"},
				RetryAfterMS: ptr(int64(0)),
				Provenance:   &pawl.Provenance{IdempotencyKey: "g"},
			}})
		w.ok(err, "fail both again")
		w.refused(rs[0].Err, pawl.CodeKeyReused)
		w.ok(rs[1].Err, "the other one")
		w.same([]any{w.item(again.ID).State, w.item(other.ID).State}, []any{pawl.ItemLeased, pawl.ItemQueued}, "the items")
		w.same(verbsOf(w.provenanceOf(task.ID)), "claim claim fail fail fail", "the rows")
	}},
	{"a batch has the provenance that each call brings", func(w *fixture) {
		rs, err := w.svc.CreateTasks(
			w.withProvenance(bot).ctx,
			[]pawl.NewTask{
				{Type: "a"},
				{Type: "a", Provenance: &pawl.Provenance{AgentName: "other"}},
				{Type: ""},
				{Type: "a", Dedupe: pawl.Dedupe{All: true}},
				{
					Type:       "a",
					Provenance: &pawl.Provenance{AgentName: strings.Repeat("x", 256), RequestFingerprint: strings.Repeat("x", 65), Extra: raw(`[]`)},
				},
			},
		)
		w.ok(err, "create")
		w.same([]any{w.provenanceOf(rs[0].Value.ID)[0].AgentName, w.provenanceOf(rs[1].Value.ID)[0].AgentName},
			[]any{"research-bot", "other"}, "who")
		w.refused(rs[2].Err, pawl.CodeInvalid)
		w.same(refusals(rs[4].Err)[0], "/provenance/agent_name has 256 characters; at most 255 are allowed", "too long")
		w.same(len(refusals(rs[4].Err)), 3, "all that is wrong")
		again, err := pawl.Create(w.withProvenance(bot).ctx, w.svc, pawl.NewTask{Type: "a", Dedupe: pawl.Dedupe{All: true}})
		w.ok(err, "the same again")
		w.same([]any{again.Deduplicated, len(w.provenanceOf(again.ID))}, []any{true, 1}, "who found a task did not create it")
	}},
	{"a claim with provenance can wait", func(w *fixture) {
		w.withProvenance(bot).noneClaimable()
		done := make(chan []pawl.Lease, 1)
		go func() {
			ls, _ := w.svc.Claim(w.withProvenance(bot).ctx, pawl.ClaimRequest{WorkerID: "w1", WaitSeconds: 60})
			done <- ls
		}()
		time.Sleep(50 * time.Millisecond) // it waits by now, or finds the task at once
		task := w.oneItem()
		ls := <-done
		if len(ls) != 1 || ls[0].TaskID != task.ID {
			w.Fatalf("it took %v", ls)
		}
		w.same(verbsOf(w.provenanceOf(task.ID)), "claim", "rows")
	}},
}}

// hashOfKey returns the hash under which an idempotency key is shown.
func hashOfKey(key string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(key))) }
