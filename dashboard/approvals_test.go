package dashboard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/dashboard"
	"github.com/pawl-work/pawl/pawltest"
)

// proposed creates a task that waits for a decision about a change, with evidence.
func (h *fixture) proposed(title string) pawl.Lease {
	h.Helper()
	return h.proposedWith(title, `{"summary":"one line","before":"a\nb","after":"a\nc"}`)
}

func (h *fixture) proposedWith(title, result string) pawl.Lease {
	h.Helper()
	only[pawl.TypeRef](h.T)(h.p.Service.PutTypes(h.Context(), []pawl.Type{{Name: "change", Approval: pawl.Approval{Mode: pawl.ApprovalManual},
		Apply: pawl.Apply{Mode: pawl.ApplyItem}, ResultSchema: json.RawMessage(`{"type":"object","required":["after"]}`)}}))
	h.p.Create(pawl.NewTask{Type: "change", Title: title})
	l := h.claim("change")
	only[pawl.Moved](h.T)(h.p.Service.Submit(h.Context(), []pawl.SubmitCall{{Fence: l.Fence(), Notes: "the old one was wrong",
		Evidence: json.RawMessage(`{"tests":"12 of 12"}`),
		Result:   json.RawMessage(result)}}))
	return l
}

// questionsFirst has a page of questions of budgets before all that waits for a decision.
type questionsFirst struct{ dashboard.Service }

func (q questionsFirst) ListTasks(ctx context.Context, f pawl.TaskFilter) (pawl.List[pawl.Task], error) {
	switch {
	case len(f.Types) == 0 && f.Cursor == "":
		return pawl.List[pawl.Task]{Items: []pawl.Task{{Type: pawl.TypeBudget}}, Next: "more"}, nil
	case f.Cursor == "more":
		f.Cursor = ""
	}
	return q.Service.ListTasks(ctx, f)
}

// A page of approvals is not empty because older tasks are questions of budgets.
func TestAPageOfQuestionsIsPassedOver(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	h := openOver(t, p, questionsFirst{p.Engine}, false, dashboard.Options{})
	h.proposed("change the first")
	h.has(h.get("/ui/approvals"), 200, "change the first")
}

// What waits for a decision is a list, the oldest task first, with one of it in full; a
// decision leads back to the list.
func TestApprovalsAreDecidedFromTheInbox(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, true)
		h.login(pawl.NewAPIKey{Roles: pawl.KeyRoles})
		h.has(h.get("/ui/approvals"), 200, "Nothing waits for a decision")
		first := h.proposed("change the first")
		p.Advance(time.Second)
		second := h.proposed("change the second")
		p.Advance(time.Second)
		third := h.proposed("change the third <script>")
		got := h.get("/ui/approvals")
		h.has(got, 200, "change the first", "change the second", "12 of 12", "the old one was wrong", "w-change", "required",
			`<span class="remove">- b`, `<span class="add">+ c`, "data-keys-help",
			`data-approve="/ui/tasks/`+first.TaskID+`/approve?from=approvals"`)
		h.hasNot(got, "<script>alert", "third <script>")
		if strings.Index(got.text, "change the first") > strings.Index(got.text, "change the second") {
			t.Error("the oldest is not first")
		}
		h.has(h.get("/ui/approvals?task="+second.TaskID), 200, `href="/ui/tasks/`+second.TaskID+`/approve?from=approvals"`)
		h.has(h.get("/ui/approvals?task=tsk_01ARZ3NDEKTSV4RRFFQ69G5FAV"), 404)

		h.has(h.get("/ui/tasks/"+first.TaskID+"/approve?from=approvals"), 200, `name="from" value="approvals"`, "12 of 12")
		got = h.post("/ui/tasks/"+first.TaskID+"/approve", "from", "approvals", "reason", "fine")
		h.has(got, 200, "change the second")
		h.hasNot(got, "change the first")
		got = h.post("/ui/tasks/"+second.TaskID+"/reject", "from", "approvals", "rework", "yes", "reason", "use the other word")
		h.has(got, 200, "change the third")
		h.hasNot(got, "change the second")
		if it, err := p.Service.GetItem(t.Context(), second.ID); err != nil || it.State != pawl.ItemQueued || it.Rework != 1 {
			t.Errorf("after a reject with rework: %s, rework %d, %v", it.State, it.Rework, err)
		}
		h.has(h.post("/ui/tasks/"+third.TaskID+"/reject", "from", "approvals", "reason", "no"), 200, "Nothing waits")
		if it, err := p.Service.GetItem(t.Context(), third.ID); err != nil || it.State != pawl.ItemRejected {
			t.Errorf("after a reject for good: %s, %v", it.State, err)
		}
		h.has(h.post("/ui/tasks/"+third.TaskID+"/approve", "from", "approvals"), 409, "allowed here")
	})
}

// A key without the role approver sees what waits, and no way to decide.
func TestApprovalsAreReadWithoutTheRole(t *testing.T) {
	h := open(t, pawltest.Open(t, pawltest.SQLite), true)
	l := h.proposed("change a line")
	h.login(pawl.NewAPIKey{Roles: []string{"reader"}})
	got := h.get("/ui/approvals")
	h.has(got, 200, "change a line", "does not have the role approver")
	h.hasNot(got, "/approve", "12 of 12")
	h.has(h.post("/ui/tasks/"+l.TaskID+"/approve", "from", "approvals"), 403, "approver")
}

// A question about a budget is answered with a new limit.
func TestABudgetQuestionIsAnswered(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, false)
		b := pawl.NewBudget{Unit: "tokens", Limit: 100, OnExhausted: pawl.ExhaustedAsk}
		if _, err := p.Service.PutBudget(t.Context(), "llm", b); err != nil {
			t.Fatal(err)
		}
		ask := func() pawl.Lease {
			h.p.Create(pawl.NewTask{Type: "agent"})
			l := h.claim("agent")
			_, err := p.Service.ReserveBudget(t.Context(), "llm", pawl.ReserveCall{
				ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt, Amount: 150, Key: "k"})
			if pawl.CodeOf(err) != pawl.CodeBudgetExhausted {
				t.Fatal(err)
			}
			return l
		}
		l := ask()
		got := h.get("/ui/approvals")
		h.has(got, 200, "needs 150 tokens of the budget", "whose limit was 100 with 100 left", l.TaskID)
		list, err := p.Service.ListTasks(t.Context(), pawl.TaskFilter{Types: []string{pawl.TypeBudget}})
		if err != nil || len(list.Items) != 1 {
			t.Fatal(list.Items, err)
		}
		question := "/ui/tasks/" + list.Items[0].ID + "/approve"
		asked := h.get(question + "?from=approvals")
		h.has(asked, 200, `name="limit"`, "The limit of the budget is raised")
		if strings.Contains(asked.text, "results are accepted") {
			t.Error("the page speaks of results")
		}
		h.has(h.get(strings.TrimSuffix(question, "approve")+"reject"), 200, "The limit of the budget stays")
		h.has(asked, 200, "what one item needs, 150 tokens")
		ask()
		h.has(h.get("/ui/approvals"), 200, "2 items, the first of", "need 300 tokens of the budget", l.TaskID)
		h.has(h.get(question), 200, "what 2 items need together, 300 tokens", "all that wait for it go on")
		h.has(h.get(strings.TrimSuffix(question, "approve")+"reject"), 200, "The 2 items are refused when they ask again")
		h.has(h.post(question, "from", "approvals", "limit", "x"), 400, "is not a number")
		h.has(h.post(question, "from", "approvals", "limit", "500"), 200, "Nothing waits")
		if b, err := p.Service.GetBudget(t.Context(), "llm"); err != nil || b.Limit != 500 {
			t.Errorf("limit %d, %v", b.Limit, err)
		}
	})
}

// A message shows where a worker broke off, and who goes on.
func TestAMessageShowsTheCut(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, false)
		l, id := h.withOpenMessage()
		h.has(h.get("/ui/messages/"+id), 200, "attempt 1 by w-chat", "in_progress")
		h.has(h.get("/ui/tasks/"+l.TaskID), 200, "Being written", "secret words", `data-stream="/ui/messages/`+id+`/stream"`, `id="chunks"`)
		p.Advance(61 * time.Second)
		if _, err := p.Service.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		again := h.claim("chat")
		if again.ID != l.ID || again.OpenMessage == nil {
			t.Fatal(again)
		}
		f := pawl.MessageFence{MessageID: id, WorkerID: again.WorkerID, Attempt: again.Attempt}
		only[pawl.Appended](t)(p.Service.Append(t.Context(), []pawl.AppendCall{
			{MessageFence: f, Offset: again.OpenMessage.Offset, Chunks: []pawl.Chunk{{Type: "text", Text: "a second beginning"}}}}))
		got := h.get("/ui/messages/" + id)
		h.has(got, 200, "broke off here", "A later one goes on", "a second beginning", "attempt 2")
		at := func(text string) int { return strings.Index(got.text, text) }
		if at("secret words") > at("broke off here") || at("broke off here") > at("a second beginning") {
			t.Errorf("the cut is not between the attempts: %s", fmt.Sprint(at("secret words"), at("broke off here"), at("a second beginning")))
		}
	})
}

// A result whose diff has many operations, each of which names a large value, is shown in bounded space.
func TestOfManyOperationsTheFirstAreShown(t *testing.T) {
	h := open(t, pawltest.Open(t, pawltest.SQLite), false)
	l := h.proposedWith("many", `{"after":1,"before":"`+strings.Repeat("x", 64<<10)+`","operations":[{"op":"replace","path":"","value":1}`+
		strings.Repeat(`,{}`, 2000)+`]}`)
	if got := h.get("/ui/approvals"); len(got.text) > 1<<20 {
		t.Errorf("the page has %d bytes", len(got.text))
	} else {
		h.has(got, 200, l.TaskID, "There are more operations")
	}
}

// A page that would be very large is refused.
func TestAPageIsBounded(t *testing.T) {
	h := open(t, pawltest.Open(t, pawltest.SQLite), false)
	only[pawl.TypeRef](t)(h.p.Service.PutTypes(t.Context(), []pawl.Type{{Name: "essay", Approval: pawl.Approval{Mode: pawl.ApprovalManual}}}))
	task := h.p.Create(pawl.NewTask{Type: "essay", Items: make([]pawl.NewItem, 7)})
	for range 7 {
		l := h.claim("essay")
		only[pawl.Moved](t)(h.p.Service.Submit(t.Context(), []pawl.SubmitCall{
			{Fence: l.Fence(), Result: json.RawMessage(`"` + strings.Repeat("'", pawl.MaxPayloadBytes-2) + `"`)}}))
	}
	if got := h.get("/ui/approvals"); got.StatusCode != 413 || !strings.Contains(got.text, "the page would have more than") {
		t.Errorf("%s, %d bytes", got.Status, len(got.text))
	}
	h.has(h.get("/ui/tasks/"+task.ID), 200)
}

// The evidence, author and model of an item are shown however many others were handed in.
func TestAReviewOfManyItemsIsWhole(t *testing.T) {
	h := open(t, pawltest.Open(t, pawltest.SQLite), false)
	only[pawl.TypeRef](t)(h.p.Service.PutTypes(t.Context(), []pawl.Type{{Name: "page", Approval: pawl.Approval{Mode: pawl.ApprovalManual}}}))
	const all = 1100 // more than a page of events
	task := h.p.Create(pawl.NewTask{Type: "page", Items: make([]pawl.NewItem, all)})
	place := map[string]int{}
	f := pawl.ItemFilter{TaskID: task.ID, Page: pawl.Page{Limit: 100}}
	last := ""
	for range all / 100 {
		list, err := h.p.Service.ListItems(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		last, f.Cursor = f.Cursor, list.Next
		for _, it := range list.Items {
			place[it.ID] = len(place)
		}
	}
	for range all / 100 {
		var calls []pawl.SubmitCall
		for _, l := range h.p.ClaimN(100, pawl.ClaimRequest{WorkerID: "w", Types: []string{"page"}, Limit: 100}) {
			n := fmt.Sprint(place[l.ID])
			calls = append(calls, pawl.SubmitCall{Fence: l.Fence(), Result: json.RawMessage(`1`), Evidence: json.RawMessage(`"evidence ` + n + `"`),
				Provenance: &pawl.Provenance{Model: "model-" + n}})
		}
		rs, err := h.p.Service.Submit(t.Context(), calls)
		if err != nil || rs[0].Err != nil || len(rs) != 100 {
			t.Fatal(err)
		}
	}
	h.has(h.get("/ui/approvals"), 200, "evidence 0", "model-0<", "evidence 9", "model-9<", "worker/w")
	h.has(h.get("/ui/approvals?items="+url.QueryEscape(last)), 200, "evidence 1000", "model-1000<", "evidence 1009", "model-1009<")
}
