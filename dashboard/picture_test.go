package dashboard_test

import (
	"encoding/json"
	"fmt"
	"html"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// The overview has buttons for what its commands do, failures before charts, and no states without tasks.
func TestTheOverviewActs(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, true)
		p.Create(pawl.NewTask{Type: "mail", Title: "a letter"})
		h.failed()
		if _, err := p.Service.PauseQueue(t.Context(), "mail"); err != nil {
			t.Fatal(err)
		}
		h.login(pawl.NewAPIKey{Roles: []string{"reader"}})
		got := h.get("/ui/")
		h.has(got, 200, "pawl queue resume mail", "1</a></td>", "read a book", "torn")
		h.hasNot(got, "Resume the queue", "retry 1…", ">rejected<", ">approved<")
		if strings.Index(got.text, "a page is torn") > strings.Index(got.text, "Flow by queue") {
			t.Error("failures are behind the charts")
		}
		h.has(h.post("/ui/queues/mail/resume", "next", "/ui/"), 403, "operator")

		h.login(pawl.NewAPIKey{Roles: []string{"reader", "operator"}})
		h.has(h.get("/ui/"), 200, "Resume the queue", "retry 1…", `action="/ui/queues/mail/resume"`)
		back := h.post("/ui/queues/mail/resume", "next", "/ui/")
		h.has(back, 200, "Overview")
		h.hasNot(back, "Resume the queue")
		if q, err := p.Service.GetQueue(t.Context(), "mail"); err != nil || q.Paused {
			t.Errorf("the queue is still paused: %v", err)
		}
		h.has(h.post("/ui/queues/mail/resume", "next", "https://elsewhere.example/"), 200, "Overview")

		h.has(h.post("/ui/namespace/resume", "next", "/ui/queues"), 200, "Queues")
		h.has(h.post("/ui/queues/mail/raise", "concurrency", "7", "next", "/ui/queues/mail"), 200, "7 leased at once")
		h.has(h.post("/ui/queues/mail/raise", "concurrency", "many"), 400, "is not a number")
		if _, err := p.Service.PutBudget(t.Context(), "llm", pawl.NewBudget{
			Unit: "usd_micro", Limit: 1, Period: "day", OnExhausted: "ask"}); err != nil {
			t.Fatal(err)
		}
		h.has(h.post("/ui/budgets/llm/raise", "limit", "2000000"), 200, "2,000,000 usd_micro each day", "ask")
		h.has(h.post("/ui/signals/go/send", "payload", "{}", "next", "/ui/"), 403, "submitter")
	})
}

// A signal is sent by those who may send it, with what the form has.
func TestASignalIsSentFromThePage(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, true)
		p.Create(pawl.NewTask{Type: "work", Title: "waits"})
		l := h.claim("work")
		only[pawl.Moved](t)(p.Service.Suspend(t.Context(), []pawl.SuspendCall{{Fence: l.Fence(), Signal: "go", Key: "42"}}))
		h.login(pawl.NewAPIKey{Roles: []string{"reader", "submitter"}})
		h.has(h.get("/ui/tasks/"+l.TaskID), 200, "Send the signal", `action="/ui/signals/go/send"`, `name="key" value="42"`)
		h.has(h.post("/ui/signals/go/send", "key", "42", "payload", "{no", "next", "/ui/"), 400, "is not JSON")
		h.has(h.post("/ui/signals/go/send", "key", "42", "payload", `{"ok":1}`, "next", "/ui/tasks/"+l.TaskID), 200, "queued")
		h.claim("work")
	})
}

// The longest parts of a run are named first, with what they took.
func TestTheLongestPartsAreFirst(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, false)
		p.Create(pawl.NewTask{Type: "work", Title: "slow", Items: []pawl.NewItem{{Key: "read", Input: json.RawMessage(`1`)}}})
		l := h.claim("work")
		for name, took := range map[string]time.Duration{"download": 35 * time.Second, "parse": 10 * time.Second} {
			p.Advance(took)
			only[pawl.CheckpointRef](t)(p.Service.Checkpoint(t.Context(), []pawl.CheckpointCall{{Fence: l.Fence(), NewCheckpoint: pawl.NewCheckpoint{
				Type: pawl.ToolExecuted, Name: name, ArgsHash: "ab", Snapshot: json.RawMessage(`1`),
				Metadata: json.RawMessage(fmt.Sprintf(`{"took_ms":%d}`, took.Milliseconds()))}}}))
		}
		p.Advance(5 * time.Second)
		only[pawl.CheckpointRef](t)(p.Service.Checkpoint(t.Context(), []pawl.CheckpointCall{{Fence: l.Fence(), NewCheckpoint: pawl.NewCheckpoint{
			Type: pawl.LLMResponse, Name: "summarise", ArgsHash: "ab", Snapshot: json.RawMessage(`1`),
			Metadata: json.RawMessage(`{"took_ms":4000,"model":"m-1","usage":{"input_tokens":10,"output_tokens":5}}`)}}}))
		only[pawl.Moved](t)(p.Service.Complete(t.Context(), []pawl.CompleteCall{{Fence: l.Fence(), Result: json.RawMessage(`1`)}}))
		got := h.get("/ui/tasks/" + l.TaskID)
		h.has(got, 200, "<b>35 s</b>", `<span>70 %</span>`, `step <a href="/ui/items/`+l.ID+`">download</a>`, "of read",
			"model summarise · 4.0 s · m-1, 10 + 5 tokens")
		longest := got.text[strings.Index(got.text, `class="longest"`):]
		if strings.Index(longest, ">download<") > strings.Index(longest, ">parse<") {
			t.Error("the longest step is not the first")
		}
	})
}

// The search finds work by ids, titles, keys, metadata and payloads; the latter for those alone who may read them.
func TestWorkIsFoundByWords(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, true)
		byPayload := p.Create(pawl.NewTask{Type: "a", Title: "first", Payload: json.RawMessage(`{"customer":"Zebra \u0026 Sons"}`)})
		byTitle := p.Create(pawl.NewTask{Type: "a", Title: "about the zebra"})
		byKey := p.Create(pawl.NewTask{Type: "a", Title: "third", Items: []pawl.NewItem{
			{Key: "zebra-1", Input: json.RawMessage(`1`)}, {Key: "b", Input: json.RawMessage(`{"x":"secret okapi"}`)}}})
		p.Create(pawl.NewTask{Type: "a", Title: "fourth"})
		h.login(pawl.NewAPIKey{Roles: []string{"reader", "operator"}})
		h.has(h.get("/ui/search"), 200, "Write what you look for")
		got := h.get("/ui/search?q=ZEBRA")
		h.has(got, 200, byPayload.ID, byTitle.ID, "third · zebra-1", "<b>payload</b>", "<b>title</b>", "<b>key</b>", "Zebra")
		h.hasNot(got, "fourth", "okapi")
		h.has(h.get("/ui/search?q=okapi"), 200, "third · b", "<b>input</b>")
		h.has(h.get("/ui/search?q=zebra+%26"), 200, byPayload.ID)
		h.has(h.get("/ui/search?q=about"), 200, "begins so", byTitle.ID)
		h.has(h.get("/ui/search?q=nothing-at-all"), 200, "None of the")
		h.has(h.get("/ui/search?q="+strings.ToLower(byKey.ID)), 200, "<h1>third")

		h.login(pawl.NewAPIKey{Roles: []string{"reader"}})
		got = h.get("/ui/search?q=zebra")
		h.has(got, 200, byTitle.ID, "third · zebra-1")
		h.hasNot(got, byPayload.ID, "Sons", "<b>payload</b>")
		h.hasNot(h.get("/ui/search?q=okapi"), "third")
		h.login(pawl.NewAPIKey{Roles: []string{"reader", "operator"}, Namespace: "other"})
		h.hasNot(h.get("/ui/search?q=zebra"), byTitle.ID, byKey.ID)
	})
}

// Older work is searched from where the newer ended.
func TestASearchGoesOn(t *testing.T) {
	h := open(t, pawltest.Open(t, pawltest.SQLite), false)
	for n := range 60 {
		h.p.Create(pawl.NewTask{Type: "a", Title: fmt.Sprintf("no %d has the Word", n)})
	}
	first := h.get("/ui/search?q=the+word")
	h.has(first, 200, "no 59 has", "Look at older ones")
	at := first.text[strings.Index(first.text, `rel="next" href="`)+len(`rel="next" href="`):]
	seen := strings.Count(first.text, "has the Word")
	for n := 0; n < 10 && at != ""; n++ {
		next := h.get("/ui/search" + html.UnescapeString(at[:strings.Index(at, `"`)]))
		h.has(next, 200)
		seen += strings.Count(next.text, "has the Word")
		_, at, _ = strings.Cut(next.text, `rel="next" href="`)
	}
	if seen != 60 {
		t.Errorf("%d of 60 were found", seen)
	}
}

// Tasks are listed of some days, and in the order that is asked for; a bulk call keeps the days.
func TestTasksOfDays(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, false)
		first := p.Create(pawl.NewTask{Type: "a", Title: "the first", Priority: 5})
		day := first.CreatedAt.UTC().Format(time.DateOnly)
		p.Advance(48 * time.Hour)
		second := p.Create(pawl.NewTask{Type: "a", Title: "the second"})
		got := h.get("/ui/tasks?to=" + day)
		h.has(got, 200, first.ID, "--until="+first.CreatedAt.UTC().AddDate(0, 0, 1).Format(time.DateOnly)+"T00:00:00Z", "until=")
		h.hasNot(got, second.ID)
		h.hasNot(h.get("/ui/tasks?from="+second.CreatedAt.UTC().Format(time.DateOnly)), first.ID)
		for sort, older := range map[string]bool{"newest": false, "oldest": true, "priority": true, "last+changed": false} {
			got := h.get("/ui/tasks?sort=" + sort)
			h.has(got, 200, first.ID, second.ID)
			if strings.Index(got.text, first.ID) < strings.Index(got.text, second.ID) != older {
				t.Errorf("sort %s has another order", sort)
			}
		}
		h.has(h.get("/ui/tasks?sort=oldest"), 200, "pawl task list --asc", "sort=created_at")
		h.has(h.get("/ui/tasks?sort=colour"), 400, "is none of those")
		h.has(h.get("/ui/tasks?from=tomorrow"), 400, "must be a day")
		h.has(h.get("/ui/tasks?q=the"), 200, "pawl task list --search=the")
		h.has(h.get("/ui/tasks/bulk?verb=cancel&to="+day), 200, "cancel 1 task?", `name="to" value="`+day+`"`)
	})
}

// Messages have a page of their own; those that no worker writes are told first.
func TestMessagesHaveAPage(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, false)
		h.has(h.get("/ui/messages"), 200, "No message matches")
		l, id := h.withOpenMessage()
		h.has(h.get("/ui/messages"), 200, id, "streaming", `<a href="/ui/messages" aria-current="page">`)
		h.hasNot(h.get("/ui/messages?status=completed"), id)
		p.Advance(2 * time.Hour)
		if _, err := p.Service.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.has(h.get("/ui/messages"), 200, "no worker writes them", id)
		h.has(h.get("/ui/messages?stalled=true"), 200, id)
		h.has(h.get("/ui/messages/"+id), 200, l.TaskID, " so far")
	})
}

// Namespaces are chosen from a list, by those who may.
func TestNamespacesAreAList(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, false)
		for _, ns := range []string{"default", "team-a", "team-b"} {
			if _, err := pawl.Create(pawl.As(t.Context(), pawl.Caller{Namespace: ns}), p.Service, pawl.NewTask{Type: "a"}); err != nil {
				t.Fatal(err)
			}
		}
		h.has(h.get("/ui/tasks"), 200, "<option selected>default</option><option>team-a</option><option>team-b</option>")
		h.has(h.post("/ui/namespace", "namespace", "team-b"), 200, "<option selected>team-b</option>")
		bound := open(t, p, true)
		bound.login(pawl.NewAPIKey{Roles: []string{"reader"}, Namespace: "team-a"})
		bound.hasNot(bound.get("/ui/tasks"), "team-b")
	})
}

// Queues say how many of their items failed, spending has the names of tasks, and budgets wait apart from results.
func TestNamesAndNumbers(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, false)
		l := h.failed()
		h.has(h.get("/ui/queues"), 200, `href="/ui/failures?type=pdf">1</a>`)
		h.has(h.get("/ui/failures"), 200, ">read a book</a>")
		h.has(h.get("/ui/items"), 200, ">read a book</a>", l.ID)
		if _, err := p.Service.PutBudget(t.Context(), "llm", pawl.NewBudget{Unit: "usd_micro", Limit: 9_000_000, Period: "day"}); err != nil {
			t.Fatal(err)
		}
		p.Create(pawl.NewTask{Type: "work", Title: "spends much"})
		l = h.claim("work")
		r, err := p.Service.ReserveBudget(t.Context(), "llm", pawl.ReserveCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt,
			Amount: 1_234_567, Key: "draft"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Service.SettleBudget(t.Context(), "llm", pawl.SettleCall{Reservation: r.Reservation, Amount: 1_234_567, ItemID: l.ID,
			WorkerID: l.WorkerID, Attempt: l.Attempt}); err != nil {
			t.Fatal(err)
		}
		for by, want := range map[string]string{"task": ">spends much</a>", "type": ">work<", "key": ">draft<",
			"day": ">" + p.Now().UTC().Format("2006-01-")} {
			h.has(h.get("/ui/budgets/llm?by="+by), 200, want, "1,234,567", "9,000,000", "with past days")
		}
		h.has(h.get("/ui/budgets/llm?by=day&period=all"), 200, "in all periods", "1,234,567")
	})
}
