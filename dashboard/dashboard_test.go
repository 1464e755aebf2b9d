package dashboard_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/dashboard"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// fixture is a server with a dashboard, and a browser that keeps cookies
// and follows redirects.
type fixture struct {
	*testing.T
	p       *pawltest.Pawl
	srv     *httptest.Server
	browser *http.Client
}

func open(t *testing.T, p *pawltest.Pawl, required bool) *fixture {
	t.Helper()
	return openWith(t, p, required, dashboard.Options{})
}

func openWith(t *testing.T, p *pawltest.Pawl, required bool, o dashboard.Options) *fixture {
	t.Helper()
	return openOver(t, p, p.Engine, required, o)
}

func openOver(t *testing.T, p *pawltest.Pawl, svc dashboard.Service, required bool, o dashboard.Options) *fixture {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	gate := access.New(access.Options{Keys: p.Engine, Required: required, Log: log})
	o.Gate, o.Log, o.Version = gate, log, "v0"
	srv := httptest.NewServer(server.New(p.Service, server.Options{Gate: gate, Log: log, Front: dashboard.New(svc, o)}))
	t.Cleanup(srv.Close)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{t, p, srv, &http.Client{Jar: jar}}
}

type page struct {
	*http.Response
	text string
}

func (h *fixture) send(method, path string, form url.Values, headers ...string) page {
	h.Helper()
	req, err := http.NewRequestWithContext(h.Context(), method, h.srv.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		h.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := h.browser.Do(req)
	if err != nil {
		h.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		h.Fatal(err)
	}
	return page{res, string(raw)}
}

func (h *fixture) get(path string) page { h.Helper(); return h.send("GET", path, nil) }

func (h *fixture) post(path string, fields ...string) page {
	h.Helper()
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return h.send("POST", path, form)
}

// has checks that a page has a status and contains texts.
func (h *fixture) has(p page, status int, texts ...string) {
	h.Helper()
	if p.StatusCode != status {
		h.Errorf("%s %s: %s\n%s", p.Request.Method, p.Request.URL.Path, p.Status, p.text)
	}
	for _, text := range texts {
		if !strings.Contains(html.UnescapeString(p.text), text) && !strings.Contains(p.text, text) {
			h.Errorf("%s does not show %q:\n%s", p.Request.URL.Path, text, p.text)
		}
	}
}

func (h *fixture) hasNot(p page, texts ...string) {
	h.Helper()
	for _, text := range texts {
		if strings.Contains(p.text, text) {
			h.Errorf("%s shows %q:\n%s", p.Request.URL.Path, text, p.text)
		}
	}
}

func only[T any](t *testing.T) func(rs []pawl.Result[T], err error) T {
	return func(rs []pawl.Result[T], err error) T {
		t.Helper()
		if err == nil {
			err = rs[0].Err
		}
		if err != nil {
			t.Fatal(err)
		}
		return rs[0].Value
	}
}

func (h *fixture) claim(typ string) pawl.Lease {
	h.Helper()
	return h.p.ClaimN(1, pawl.ClaimRequest{WorkerID: "w-" + typ, Types: []string{typ}, LeaseSeconds: 60})[0]
}

// failed creates a task whose only attempt failed.
func (h *fixture) failed() pawl.Lease {
	h.Helper()
	h.p.Create(pawl.NewTask{Type: "pdf", Title: "read a book", MaxAttempts: 1, Payload: json.RawMessage(`{"secret":1}`)})
	l := h.claim("pdf")
	only[pawl.Moved](
		h.T,
	)(
		h.p.Service.Fail(
			h.Context(),
			[]pawl.FailCall{{Fence: l.Fence(), Error: pawl.Failure{Code: "torn", Message: "a page is torn", Detail: json.RawMessage(`"secret"`)}}},
		),
	)
	return l
}

// submitted creates a task that waits for a decision.
func (h *fixture) submitted() pawl.Lease {
	h.Helper()
	only[pawl.TypeRef](
		h.T,
	)(
		h.p.Service.PutTypes(
			h.Context(),
			[]pawl.Type{{Name: "edit", Approval: pawl.Approval{Mode: pawl.ApprovalManual}, Apply: pawl.Apply{Mode: pawl.ApplyItem}}},
		),
	)
	h.p.Create(pawl.NewTask{Type: "edit", Title: "change a line"})
	l := h.claim("edit")
	only[pawl.Moved](
		h.T,
	)(
		h.p.Service.Submit(h.Context(), []pawl.SubmitCall{{Fence: l.Fence(), Result: json.RawMessage(`{"secret":"new line"}`)}}),
	)
	return l
}

// withOpenMessage creates an item with a message that is being written.
func (h *fixture) withOpenMessage() (pawl.Lease, string) {
	h.Helper()
	h.p.Create(pawl.NewTask{Type: "chat", Reply: &pawl.Reply{Model: "m1"}})
	l := h.claim("chat")
	f := pawl.MessageFence{MessageID: l.OpenMessage.ID, WorkerID: l.WorkerID, Attempt: l.Attempt}
	only[pawl.Appended](
		h.T,
	)(
		h.p.Service.Append(
			h.Context(),
			[]pawl.AppendCall{
				{
					MessageFence: f,
					Chunks: []pawl.Chunk{
						{Type: "text", Text: "secret words"},
						{Type: "tool_call", ToolCallID: "c", ToolName: "look", Input: json.RawMessage(`{"secret":2}`)},
					},
				},
			},
		),
	)
	return l, f.MessageID
}

// flow makes a queue with limits that is paused, a schedule and a budget.
func (h *fixture) flow() {
	h.Helper()
	ctx, svc := h.Context(), h.p.Service
	_, err := svc.SetQueue(ctx, "idle", pawl.QueuePatch(`{"concurrency":2}`))
	_, paused := svc.PauseQueue(ctx, "idle")
	_, created := pawl.Create(ctx, svc, pawl.NewTask{Type: "idle"})
	_, scheduled := svc.CreateSchedule(ctx, pawl.NewSchedule{Name: "nightly", Cron: "0 3 * * *", Zone: "Europe/Berlin",
		Task: pawl.NewTask{Type: "pdf"}})
	_, budgeted := svc.PutBudget(ctx, "llm", pawl.NewBudget{Unit: "usd_micro", Limit: 1000, Period: pawl.PeriodDay,
		OnExhausted: pawl.ExhaustedSuspend})
	if err := errors.Join(err, paused, created, scheduled, budgeted); err != nil {
		h.Fatal(err)
	}
}

// The buttons of queues and schedules do what they say.
func TestSwitches(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	h := open(t, p, false)
	h.flow()
	for path, has := range map[string]string{"/ui/queues/idle/resume": "allowed", "/ui/schedules/nightly/pause": "<b>paused</b>"} {
		h.has(h.post(path), 200, has)
	}
	h.has(h.post("/ui/schedules/nightly/run"), 200, "created (run by hand)")
	h.has(h.post("/ui/queues/idle/explode"), 404, "To the overview")
	h.has(h.post("/ui/schedules/none/run"), 404, "To the overview")
}

func TestPages(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, false)
		h.has(h.get("/ui/"), 200, "Nothing does.")
		broken, waiting := h.failed(), h.submitted()
		talk, message := h.withOpenMessage()
		h.flow()
		child, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "page", Title: "read on", ParentID: talk.TaskID})
		if err != nil {
			t.Fatal(err)
		}
		only[pawl.CheckpointRef](
			t,
		)(
			p.Service.Checkpoint(
				t.Context(),
				[]pawl.CheckpointCall{
					{
						Fence:         talk.Fence(),
						NewCheckpoint: pawl.NewCheckpoint{Type: pawl.ToolExecuted, Name: "look:1", Snapshot: json.RawMessage(`{"found":3}`)},
					},
				},
			),
		)
		for path, texts := range map[string][]string{
			"/ui/": {"Waiting for approval", waiting.TaskID, broken.ID, "a page is torn", "w-chat",
				"Leases that ran out", talk.ID},
			"/ui/tasks":                       {broken.TaskID, waiting.TaskID, talk.TaskID, "read a book"},
			"/ui/tasks?state=failed&type=pdf": {broken.TaskID, `value="pdf"`, "<option selected>failed"},
			"/ui/tasks?id=" + broken.ID:       {"Attempts", broken.TaskID},
			"/ui/tasks?id=" + message:         {"secret words"},
			"/ui/tasks/" + broken.TaskID: {"read a book", "torn", "a page is torn", `"secret": 1`, "Events", "leased → failed",
				"task open → failed", "error_boundary"},
			"/ui/tasks/" + talk.TaskID:    {"<h2>Children", child.ID, "read on"},
			"/ui/tasks/" + child.ID:       {"child of", talk.TaskID},
			"/ui/tasks/" + waiting.TaskID: {"approve…", "reject…", "cancel…", "What was handed in", `"secret": "new line"`},
			"/ui/items/" + talk.ID:        {"look:1", `"found": 3`, "w-chat", "goes on, lease until", message, "expired"},
			"/ui/items/" + broken.ID:      {"<b>failed</b>", "1 of 1 allowed", "retry…", "bury…"},
			"/ui/messages/" + message:     {"secret words", "tool-call look", "/stream", `data-offset="2"`, "m1"},
			"/ui/workers":                 {"w-pdf", "w-edit", "w-chat"},
			"/ui/types":                   {"edit", "approval manual", "apply item"},
			"/ui/legend":                  {"Legend"},
			"/ui/queues":                  {"pdf", "2 leased at once", "paused"},
			"/ui/queues/idle": {"<b>paused</b> since", "2 leased at once", "resume", "paused: idle",
				"pawl queue get --server=http://127.0.0.1"},
			"/ui/schedules":            {"nightly", "0 3 * * * Europe/Berlin"},
			"/ui/schedules/nightly":    {"run now", "Ticks", "skip, none", "None yet."},
			"/ui/sweeps":               {"Passes, newest first", "recovered"},
			"/ui/relays":               {"pawl serve --relay"},
			"/ui/keys":                 {"pawl key create"},
			"/ui/budgets":              {"llm", "usd_micro", "1000"},
			"/ui/budgets/llm?by=model": {"1,000 usd_micro each day", "Spent by model", "when exhausted", "suspend"},
			"/ui/tasks/" + waiting.TaskID + "/reject": {"Reasons, one a line", "change a line", "No, go back"},
		} {
			if strings.Contains(path, "items/"+talk.ID) || path == "/ui/" {
				p.Advance(2 * time.Minute) // past the lease
			}
			got := h.get(path)
			h.has(got, 200, append(texts, "<h1", `<main id="main"`, "Pawl v0")...)
			for name, want := range map[string]string{"Content-Security-Policy": "default-src 'none'; style-src 'self'",
				"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Content-Type": "text/html; charset=utf-8"} {
				if !strings.HasPrefix(got.Header.Get(name), want) {
					t.Errorf("%s: %s is %q", path, name, got.Header.Get(name))
				}
			}
			h.hasNot(got, "style=", "onclick")
			h.hasNot(page{got.Response, strings.ReplaceAll(got.text, h.srv.URL, "")}, "http://", "https://") // but for its own commands
		}
		ann := pawl.As(t.Context(), pawl.Caller{ActorType: "user", ActorID: "ann"})
		only[string](t)(p.Service.DeleteTasks(ann, []pawl.TaskCall{{TaskID: broken.TaskID, Force: true, Reason: "not needed"}}))
		h.has(h.get("/ui/"), 200, "Tasks last deleted", broken.TaskID, "user ann", "not needed")
		h.has(h.get("/ui/tasks/"+broken.TaskID), 404, "was deleted on", "user ann")
		for path, status := range map[string]int{"/ui/tasks/tsk_none": 404, "/ui/items/itm_none": 404, "/ui/messages/msg_none": 404,
			"/ui/nothing": 404, "/ui/tasks?state=open": 400, "/ui/tasks?cursor=x": 400, "/ui/tasks/" + waiting.TaskID + "/explode": 404,
			"/ui/items/" + talk.ID + "/approve": 404} {
			h.has(h.get(path), status, "To the overview")
		}
		for path, kind := range map[string]string{"style.css": "text/css", "live.js": "text/javascript", "pawl.svg": "image/svg+xml"} {
			if got := h.get("/ui/static/" + path); got.StatusCode != 200 || !strings.HasPrefix(got.Header.Get("Content-Type"), kind) {
				t.Errorf("%s: %s %v", path, got.Status, got.Header)
			}
		}
	})
}

// The approval page shows the whole result, its diff, its author and the model.
func TestTheConfirmationShowsAll(t *testing.T) {
	h := open(t, pawltest.Open(t, pawltest.SQLite), false)
	ctx := t.Context()
	if rs, err := h.p.Service.PutTypes(ctx, []pawl.Type{{Name: "edit", Approval: pawl.Approval{Mode: "manual"}}}); err != nil ||
		rs[0].Err != nil {
		t.Fatal(err)
	}
	task, err := pawl.Create(ctx, h.p.Service, pawl.NewTask{Type: "edit", Title: "Mend the page"})
	if err != nil {
		t.Fatal(err)
	}
	ls, err := h.p.Service.Claim(ctx, pawl.ClaimRequest{WorkerID: "editor"})
	if err != nil || len(ls) != 1 {
		t.Fatal(ls, err)
	}
	call := pawl.SubmitCall{
		Fence:      ls[0].Fence(),
		Notes:      "see the second line",
		Evidence:   json.RawMessage(`{"source":"the log"}`),
		Provenance: &pawl.Provenance{Model: "m-7", AgentName: "scribe"},
		Result: json.RawMessage(
			`{"before":{"title":"Old","text":"one\ntwo\nthree"},"after":{"title":"New","text":"one\n2\nthree"},"operations":[{"op":"replace",` +
				`"path":"/title","value":"New"}]}`,
		),
	}
	if rs, err := h.p.Service.Submit(ctx, []pawl.SubmitCall{call}); err != nil || rs[0].Err != nil {
		t.Fatal(rs, err)
	}
	for _, verb := range []string{"approve", "reject"} {
		h.has(
			h.get("/ui/tasks/"+task.ID+"/"+verb),
			200,
			"worker/editor (scribe",
			"m-7",
			"see the second line",
			`"source": "the log"`,
			"as JSON",
			`<td data-label="path">/title</td><td data-label="old value"><code class="text">&#34;Old&#34;</code></td>`,
			"<code>/text</code>",
			"<span class=\"remove\">- two\n</span>",
			"<span class=\"add\">+ 2\n</span>",
			"<span class=\"\">  three\n</span>",
			`before: </span>Old</pre>`,
			`name="version" value="`,
		)
	}
	if got := h.get("/ui/"); !strings.Contains(got.Header.Get("Content-Security-Policy"), "img-src 'self'") {
		t.Errorf("the icon is not allowed: %v", got.Header)
	}
}

// A message that is being written can be stopped from its page.
func TestAMessageIsStopped(t *testing.T) {
	h := open(t, pawltest.Open(t, pawltest.SQLite), false)
	ctx := t.Context()
	if _, err := pawl.Create(ctx, h.p.Service, pawl.NewTask{Type: "chat", Reply: &pawl.Reply{}}); err != nil {
		t.Fatal(err)
	}
	l, err := h.p.Service.ListMessages(ctx, pawl.MessageFilter{})
	if err != nil || len(l.Items) != 1 {
		t.Fatal(l, err)
	}
	at := "/ui/messages/" + l.Items[0].ID
	h.has(h.get(at), 200, at+"/stop")
	h.has(h.get(at+"/stop"), 200, "stop this message?", l.Items[0].ID)
	h.has(h.send("POST", at+"/stop", url.Values{"reason": {"enough"}}), 200, "stopped")
	h.hasNot(h.get(at), at+"/stop")
	for _, path := range []string{at + "/approve", "/ui/tasks/" + l.Items[0].TaskID + "/stop"} {
		h.has(h.get(path), 404)
	}
}

// Each attempt is shown with its end and its whole error.
func TestAttemptsHaveTheirErrors(t *testing.T) {
	h := open(t, pawltest.Open(t, pawltest.SQLite), false)
	ctx := t.Context()
	if _, err := pawl.Create(ctx, h.p.Service, pawl.NewTask{Type: "a"}); err != nil {
		t.Fatal(err)
	}
	var item string
	for _, why := range []string{"the disk is full", "the net is down"} {
		ls, err := h.p.Service.Claim(ctx, pawl.ClaimRequest{WorkerID: "w"})
		if err != nil || len(ls) != 1 {
			t.Fatal(ls, err)
		}
		item = ls[0].ID
		for n := range 60 { // more events than a page has
			if _, err := h.p.Service.Progress(ctx, []pawl.ProgressCall{{Fence: ls[0].Fence(), Progress: &n}}); err != nil {
				t.Fatal(err)
			}
		}
		fail := pawl.FailCall{
			Fence: ls[0].Fence(),
			Error: pawl.Failure{Code: "io", Message: why, Detail: json.RawMessage(`{"at":"` + why[4:7] + `"}`)},
		}
		if rs, err := h.p.Service.Fail(ctx, []pawl.FailCall{fail}); err != nil || rs[0].Err != nil {
			t.Fatal(rs, err)
		}
		h.p.Advance(time.Hour)
		if _, err := h.p.Engine.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
	}
	p := h.get("/ui/items/" + item)
	_, p.text, _ = strings.Cut(p.text, "Attempts, newest first") // the page shows errors elsewhere too
	p.text, _, _ = strings.Cut(p.text, "</table>")
	h.has(p, 200, "the disk is full", "the net is down", `"at": "dis"`, `"at": "net"`)
}

func TestTheFrontDoor(t *testing.T) {
	h := open(t, pawltest.Open(t, pawltest.SQLite), false)
	if got := h.send("GET", "/", nil, "Accept", "text/html,*/*;q=0.8"); got.Request.URL.Path != "/ui/" || got.StatusCode != 200 {
		t.Errorf("a browser is at %s: %s", got.Request.URL.Path, got.Status)
	}
	if got := h.get("/"); got.StatusCode != 404 || !strings.HasPrefix(got.Header.Get("Content-Type"), "application/problem+json") {
		t.Errorf("a program: %s %s", got.Status, got.text)
	}
	h.has(h.get("/v1/stats"), 200, "items_by_state")
}

func TestListsHavePages(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, false)
		for i := range 60 {
			h.p.Create(pawl.NewTask{Type: "many", Title: fmt.Sprintf("number %d.", i)})
		}
		first := h.get("/ui/tasks?type=many")
		h.has(first, 200, "number 59.", "number 10.", "Older")
		h.hasNot(first, "number 9.")
		_, rest, _ := strings.Cut(first.text, `rel="next" href="`)
		next, _, _ := strings.Cut(rest, `"`)
		second := h.get("/ui/tasks" + html.UnescapeString(next))
		h.has(second, 200, "number 9.", "number 0.", "First page", `value="many"`)
		h.hasNot(second, "Older")
	})
}

// Every action needs a confirmation form, and its event has the actor type user.
func TestActs(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, false)
		broken := h.failed()
		task, item := "/ui/tasks/"+broken.TaskID, "/ui/items/"+broken.ID
		h.has(h.get(task+"/bury"), 200, "bury this task?", `<form class="confirm" method="post">`)
		h.has(h.post(task+"/bury", "reason", "of no use"), 200, "dead_lettered", "of no use", "by user")
		h.has(h.post(item+"/retry", "reason", "it was mended"), 200, "queued", "it was mended")
		h.has(h.post(item+"/retry"), 409, "The state forbids it", "conflict (409)", "queued", "cancel")
		h.has(h.post(item+"/cancel"), 200, "cancelled")
		h.has(h.post(task+"/cancel"), 409, "nothing: it has ended")

		waiting := h.submitted()
		task = "/ui/tasks/" + waiting.TaskID
		h.has(h.post(task+"/reject", "reason", " \n "), 400, "invalid (400)")
		h.has(h.post(task+"/reject", "reason", "too long\n\nno date", "rework", "yes"), 200, "queued", "too long", "no date")
		if l := h.claim("edit"); len(l.Reasons) != 2 || l.Reasons[1].Message != "no date" {
			t.Errorf("the next worker gets %+v", l.Reasons)
		} else {
			only[pawl.Moved](t)(p.Service.Submit(t.Context(), []pawl.SubmitCall{{Fence: l.Fence(), Result: json.RawMessage(`1`)}}))
		}
		h.has(h.post(task+"/approve", "version", "0"), 412, "has changed since you looked", "approve, reject, cancel")
		now, err := p.Service.GetTask(t.Context(), waiting.TaskID)
		if err != nil {
			t.Fatal(err)
		}
		h.has(h.get(task+"/approve"), 200, fmt.Sprintf(`name="version" value="%d"`, now.Version))
		h.has(h.post(task+"/approve", "version", fmt.Sprint(now.Version), "reason", "well done"), 200, "approved", "well done", "by user")
		h.has(h.post(task+"/reject", "reason", "too late"), 409, "decided by")
		l := h.claim("edit.apply")
		only[pawl.Moved](
			t,
		)(
			p.Service.Complete(
				t.Context(),
				[]pawl.CompleteCall{
					{Fence: l.Fence(), Result: json.RawMessage(`{"result":1,"diff":{"summary":"a line","before":{"n":1},"after":{"n":2}}}`)},
				},
			),
		)
		if _, err := p.Service.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.has(h.get(task), 200, "completed", "a line", `<tr class="replace"><td>replace</td><td data-label="path">/n</td>`)
	})
}
