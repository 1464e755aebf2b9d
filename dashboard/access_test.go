package dashboard_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/dashboard"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// login logs the browser in with a new key; the browser keeps the cookie.
func (h *fixture) login(n pawl.NewAPIKey) page {
	h.Helper()
	n.Name = "ann"
	_, token, err := h.p.Engine.CreateAPIKey(h.Context(), n)
	if err != nil {
		h.Fatal(err)
	}
	return h.post("/ui/login", "key", " "+token+"\n", "next", "/ui/tasks")
}

func TestLogin(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, true)
		broken := h.failed()
		for _, path := range []string{"/ui/", "/ui/tasks", "/ui/tasks/" + broken.TaskID, "/ui/items/" + broken.ID, "/ui/workers", "/ui/types",
			"/ui/legend", "/ui/tasks/" + broken.TaskID + "/retry"} {
			got := h.get(path)
			h.has(got, 401, "Log in", `value="`+path+`"`)
			h.hasNot(got, "a page is torn", "Workers")
		}
		if got := h.post("/ui/tasks/"+broken.TaskID+"/retry", "reason", "x"); got.StatusCode != 401 {
			t.Errorf("a form without a key: %s", got.Status)
		}
		h.has(h.post("/ui/login", "key", "nonsense"), 401, "Log in", `role="alert"`)
		h.browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		in := h.login(pawl.NewAPIKey{Roles: pawl.KeyRoles})
		if c := in.Cookies(); in.Header.Get("Location") != "/ui/tasks" || len(c) != 1 || !c[0].HttpOnly ||
			c[0].SameSite != http.SameSiteStrictMode ||
			c[0].Path != "/ui/" ||
			c[0].Secure {
			t.Errorf("logging in: %v", in.Header)
		}
		_, token, err := p.Engine.CreateAPIKey(t.Context(), pawl.NewAPIKey{Name: "elsewhere", Roles: pawl.KeyRoles})
		if err != nil {
			t.Fatal(err)
		}
		if got := h.post("/ui/login", "key", token, "next", "https://elsewhere.example/ui/"); got.Header.Get("Location") != "/ui/" {
			t.Errorf("led to %s", got.Header.Get("Location"))
		}
		h.browser.CheckRedirect = nil
		h.has(h.get("/ui/"), 200, "Log out", "elsewhere")
		h.has(h.get("/v1/stats"), 401) // the cookie is the dashboard's
		h.has(h.post("/ui/logout"), 401, "Log in")
		h.has(h.get("/ui/"), 401, "Log in")
	})
}

// With TLS the cookie is sent over TLS only.
func TestTheCookieIsSecureUnderTLS(t *testing.T) {
	h := open(t, pawltest.Open(t, pawltest.SQLite), true)
	_, token, err := h.p.Engine.CreateAPIKey(t.Context(), pawl.NewAPIKey{Name: "ann", Roles: pawl.KeyRoles})
	if err != nil {
		t.Fatal(err)
	}
	h.browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	got := h.send("POST", "/ui/login", map[string][]string{"key": {token}}, "X-Forwarded-Proto", "https")
	if c := got.Cookies(); len(c) != 1 || !c[0].Secure {
		t.Errorf("behind a proxy with TLS: %v", got.Header)
	}
}

func TestARevokedKeyIsLoggedOut(t *testing.T) {
	h := open(t, pawltest.Open(t, pawltest.SQLite), true)
	k, token, err := h.p.Engine.CreateAPIKey(t.Context(), pawl.NewAPIKey{Name: "ann", Roles: pawl.KeyRoles})
	if err != nil {
		t.Fatal(err)
	}
	h.has(h.post("/ui/login", "key", token), 200)
	if _, err := h.p.Engine.RevokeAPIKey(t.Context(), k.ID); err != nil {
		t.Fatal(err)
	}
	got := h.get("/ui/tasks")
	// the server caches a key for a second
	for end := time.Now().Add(time.Minute); got.StatusCode == 200 && time.Now().Before(end); got = h.get("/ui/tasks") {
		time.Sleep(50 * time.Millisecond)
	}
	h.has(got, 401, "Log in", `role="alert"`)
	if c := got.Cookies(); len(c) != 1 || c[0].MaxAge != -1 {
		t.Errorf("the cookie stays: %v", got.Header)
	}
}

// The cookie is a session. It does not contain the key in clear text, it ends when it is not used,
// and a logout ends every copy of it. The automatic reload of a page does not count as use.
func TestASessionEnds(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := openWith(t, p, true, dashboard.Options{SessionIdle: 5 * time.Second})
		h.browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		_, token, err := h.p.Engine.CreateAPIKey(t.Context(), pawl.NewAPIKey{Name: "ann", Roles: pawl.KeyRoles})
		if err != nil {
			t.Fatal(err)
		}
		in := h.post("/ui/login", "key", token)
		copied := in.Cookies()[0]
		if strings.Contains(copied.Value, token) || copied.Name != "pawl_session" {
			t.Errorf("the cookie is %s", copied)
		}
		h.has(h.get("/ui/"), 200)
		for status := 200; status == 200; {
			time.Sleep(100 * time.Millisecond)
			status = h.send("GET", "/ui/", nil, "Pawl-Automatic", "1").StatusCode
		}
		h.has(h.send("GET", "/ui/", nil, "Cookie", copied.String()), 401, "your session has ended")
		copied = h.post("/ui/login", "key", token).Cookies()[0]
		h.post("/ui/logout")
		h.has(h.send("GET", "/ui/", nil, "Cookie", copied.Name+"="+copied.Value), 401, "your session has ended")
		h.has(h.send("GET", "/ui/", nil, "Cookie", "pawl_session="+token), 401, "Log in") // a key is no session
	})
}

// A logout ends the session also on a server that is started afterwards.
func TestALogoutOutlivesARestart(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, true)
		h.browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		_, token, err := p.Engine.CreateAPIKey(t.Context(), pawl.NewAPIKey{Name: "ann", Roles: pawl.KeyRoles})
		if err != nil {
			t.Fatal(err)
		}
		left := h.post("/ui/login", "key", token).Cookies()[0]
		h.post("/ui/logout")
		kept := h.post("/ui/login", "key", token).Cookies()[0]
		again := open(t, p, true)
		again.has(again.send("GET", "/ui/", nil, "Cookie", left.Name+"="+left.Value), 401, "your session has ended")
		again.has(again.send("GET", "/ui/", nil, "Cookie", left.Name+"="+left.Value), 401, "your session has ended")
		again.has(again.send("GET", "/ui/", nil, "Cookie", kept.Name+"="+kept.Value), 200)
	})
}

// Several servers look at the same time whether a session was ended: none ends it.
func TestChecksAtOnceEndNoSession(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		servers := make([]*fixture, 6)
		for i := range servers {
			servers[i] = open(t, p, true)
			servers[i].browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		}
		_, token, err := p.Engine.CreateAPIKey(t.Context(), pawl.NewAPIKey{Name: "ann", Roles: pawl.KeyRoles})
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			c := servers[0].post("/ui/login", "key", token).Cookies()[0]
			var all sync.WaitGroup
			for _, h := range servers {
				all.Go(func() {
					if got := h.send("GET", "/ui/legend", nil, "Cookie", c.Name+"="+c.Value); got.StatusCode != 200 {
						t.Errorf("a check beside others: %s", got.Status)
					}
				})
			}
			all.Wait()
		}
	})
}

// When the namespace of callers that name none was moved to another database, users of others log in and out here, and the
// server is ready.
func TestUsersStayWhenANamespaceMoves(t *testing.T) {
	p := pawltest.OpenNew(t, pawltest.SQLite, engine.Options{})
	h := open(t, p, true)
	to := pawltest.OpenNew(t, pawltest.SQLite, engine.Options{})
	if _, err := p.Engine.Relocate(t.Context(), to.Engine, engine.Move{Namespace: "default"}); err != nil {
		t.Fatal(err)
	}
	h.has(h.get("/readyz"), 200)
	_, token, err := p.Engine.CreateAPIKey(t.Context(), pawl.NewAPIKey{Name: "ann", Roles: pawl.KeyRoles, Namespace: "other"})
	if err != nil {
		t.Fatal(err)
	}
	h.has(h.post("/ui/login", "key", token), 200)
	h.has(h.get("/ui/tasks"), 200)
	address, err := url.Parse(h.srv.URL + "/ui/")
	if err != nil {
		t.Fatal(err)
	}
	left := h.browser.Jar.Cookies(address)[0]
	h.has(h.post("/ui/logout"), 401)
	h.has(h.send("GET", "/ui/tasks", nil, "Cookie", left.Name+"="+left.Value), 401, "your session has ended")
}

// With a key that may only read, pages have no buttons and no payloads, and forms are refused.
func TestAKeyThatOnlyReads(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, true)
		broken, waiting := h.failed(), h.submitted()
		talk, message := h.withOpenMessage()
		h.login(pawl.NewAPIKey{Roles: []string{"reader"}})
		for _, path := range []string{"/ui/", "/ui/tasks", "/ui/tasks/" + broken.TaskID, "/ui/tasks/" + waiting.TaskID,
			"/ui/tasks/" + talk.TaskID, "/ui/items/" + broken.ID, "/ui/items/" + waiting.ID, "/ui/items/" + talk.ID, "/ui/messages/" + message} {
			got := h.get(path)
			h.has(got, 200, "payloads are hidden")
			h.hasNot(got, "secret", "retry…", "approve…", "cancel…", "data-stream", `class="action`)
		}
		for path, role := range map[string]string{"/ui/tasks/" + broken.TaskID + "/retry": "operator",
			"/ui/items/" + broken.ID + "/bury": "operator", "/ui/tasks/" + waiting.TaskID + "/approve": "approver",
			"/ui/tasks/" + waiting.TaskID + "/cancel": "submitter"} {
			h.has(h.get(path), 403, "forbidden", role)
			h.has(h.post(path, "reason", "x"), 403, "forbidden", role)
		}
		if got := h.get("/ui/messages/" + message + "/stream"); got.StatusCode != 403 {
			t.Errorf("the stream: %s", got.Status)
		}
		h.post("/ui/logout")
		h.login(pawl.NewAPIKey{Roles: []string{"claimer"}})
		h.has(h.get("/ui/"), 403, "needs the role reader")
		h.login(pawl.NewAPIKey{Roles: []string{"reader", "approver"}})
		got := h.get("/ui/tasks/" + waiting.TaskID)
		h.has(got, 200, "secret", "approve…", "reject…")
		h.hasNot(got, "cancel…")
		h.has(h.post("/ui/tasks/"+waiting.TaskID+"/approve"), 200, "by api/ann")
	})
}

// No page shows data of another namespace.
func TestWalls(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, true)
		broken := h.failed()
		_, message := h.withOpenMessage()
		h.login(pawl.NewAPIKey{Roles: pawl.KeyRoles, Namespace: "others"})
		h.post("/ui/namespace", "namespace", "default")
		for _, path := range []string{"/ui/tasks/" + broken.TaskID, "/ui/items/" + broken.ID, "/ui/messages/" + message,
			"/ui/messages/" + message + "/stream", "/ui/tasks/" + broken.TaskID + "/retry"} {
			if got := h.get(path); got.StatusCode != 404 || strings.Contains(got.text, "torn") {
				t.Errorf("%s: %s", path, got.Status)
			}
		}
		h.has(h.post("/ui/tasks/"+broken.TaskID+"/retry"), 404)
		for _, path := range []string{"/ui/", "/ui/tasks", "/ui/workers"} {
			got := h.get(path)
			h.has(got, 200, "namespace others")
			h.hasNot(got, broken.TaskID, "w-pdf", ">pdf<", "pdf")
		}
		h.login(pawl.NewAPIKey{Roles: pawl.KeyRoles, Namespace: pawl.AnyNamespace})
		h.has(h.get("/ui/tasks"), 200, broken.TaskID) // the cookie that the other key could not use
		h.has(h.post("/ui/namespace", "namespace", "nobody's"), 200, `<option selected>nobody&#39;s</option>`, "Nothing does.",
			`Others: <button name="namespace" value="default">`)
		h.login(pawl.NewAPIKey{Roles: pawl.KeyRoles, Namespace: "empty"})
		h.hasNot(h.get("/ui/"), "Others:")
	})
}

// Requests from pages of other sites are refused, with and without keys.
func TestForeignFormsAreRefused(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, false)
		broken := h.failed()
		for _, headers := range [][]string{{"Origin", "https://elsewhere.example"}, {"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"},
			{"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "same-origin", "Origin", "https://elsewhere.example"}} {
			for _, path := range []string{"/ui/tasks/" + broken.TaskID + "/retry", "/ui/items/" + broken.ID + "/cancel", "/ui/login", "/ui/logout",
				"/ui/namespace"} {
				if got := h.send("POST", path, map[string][]string{"reason": {"x"}}, headers...); got.StatusCode != 403 {
					t.Errorf("%s with %v: %s", path, headers, got.Status)
				}
			}
		}
		it, err := p.Service.GetItem(t.Context(), broken.ID)
		if err != nil || it.State != pawl.ItemFailed {
			t.Errorf("the item is %+v, %v", it.State, err)
		}
		if got := h.send("POST", "/ui/items/"+broken.ID+"/retry", map[string][]string{}, "Origin", h.srv.URL, "Sec-Fetch-Site",
			"same-origin"); got.StatusCode != 200 {
			t.Errorf("our own form: %s", got.Status)
		}
		if got := h.post("/ui/tasks/"+broken.TaskID+"/cancel", "reason", strings.Repeat("x", 70_000)); got.StatusCode != 413 {
			t.Errorf("a form that is too long: %s", got.Status)
		}
	})
}

// A browser's EventSource follows a message with the key it logged in with.
func TestFollowingAMessage(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, true)
		l, message := h.withOpenMessage()
		if got := h.get("/ui/messages/" + message + "/stream"); got.StatusCode != 401 {
			t.Errorf("without a key: %s", got.Status)
		}
		h.login(pawl.NewAPIKey{Roles: []string{"reader"}, Payloads: true})
		h.has(h.get("/ui/messages/"+message), 200, `data-stream="/ui/messages/`+message+`/stream" data-offset="2"`)
		res, err := h.browser.Get(h.srv.URL + "/ui/messages/" + message + "/stream?after=1")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		f := pawl.MessageFence{MessageID: message, WorkerID: l.WorkerID, Attempt: l.Attempt}
		only[pawl.Appended](
			t,
		)(
			p.Service.Append(t.Context(), []pawl.AppendCall{{MessageFence: f, Offset: 2, Chunks: []pawl.Chunk{{Type: "text", Text: "and more"}}}}),
		)
		only[pawl.Message](t)(p.Service.FinishMessages(t.Context(), []pawl.FinishCall{{MessageFence: f}}))
		var data []string
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				data = append(data, text)
			}
		}
		var frame struct{ Offset int }
		if len(data) < 2 || json.Unmarshal([]byte(data[0]), &frame) != nil || frame.Offset != 2 || !strings.Contains(data[0], "and more") ||
			!strings.Contains(data[len(data)-1], "complete") {
			t.Errorf("%s: %q", res.Status, data)
		}
		ended := h.get("/ui/messages/" + message)
		h.has(ended, 200, "and more", "complete")
		h.hasNot(ended, "data-stream")
	})
}

// The worker of a task cannot approve it: the dashboard says that another approver must.
func TestAWorkerIsRefusedAtTheApproval(t *testing.T) {
	h := open(t, pawltest.Open(t, pawltest.SQLite), true)
	h.login(pawl.NewAPIKey{Roles: pawl.KeyRoles})
	keys, err := h.p.Engine.ListAPIKeys(h.Context())
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	ctx := pawl.As(h.Context(), pawl.Caller{Key: keys[0].ID})
	if _, err := h.p.Engine.PutTypes(ctx, []pawl.Type{{Name: "letter", Approval: pawl.Approval{Mode: pawl.ApprovalManual}}}); err != nil {
		t.Fatal(err)
	}
	task, err := pawl.Create(h.Context(), h.p.Service, pawl.NewTask{Type: "letter"})
	if err != nil {
		t.Fatal(err)
	}
	ls, err := h.p.Service.Claim(ctx, pawl.ClaimRequest{WorkerID: "w"})
	if err != nil || len(ls) != 1 {
		t.Fatal(ls, err)
	}
	if rs, err := h.p.Service.Submit(ctx, []pawl.SubmitCall{{Fence: ls[0].Fence(), Result: []byte("1")}}); err != nil || rs[0].Err != nil {
		t.Fatal(rs, err)
	}
	h.has(h.post("/ui/tasks/"+task.ID+"/approve", "version", "1"), 403, "worked on this task")
	h.has(h.get("/ui/tasks/"+task.ID), 200, "with <code>"+keys[0].ID+"</code>")
}

// An operator ends a lease from the page of its item; the form is about the attempt
// that it showed.
func TestALeaseIsRevokedAtTheDashboard(t *testing.T) {
	h := open(t, pawltest.Open(t, pawltest.SQLite), false)
	if _, err := pawl.Create(h.Context(), h.p.Service, pawl.NewTask{Type: "a"}); err != nil {
		t.Fatal(err)
	}
	ls, err := h.p.Service.Claim(h.Context(), pawl.ClaimRequest{WorkerID: "w"})
	if err != nil || len(ls) != 1 {
		t.Fatal(ls, err)
	}
	at := "/ui/items/" + ls[0].ID
	h.has(h.get(at), 200, `href="`+at+`/revoke_lease"`, "revoke lease")
	h.has(h.get(at+"/revoke_lease"), 200, `name="attempt" value="1"`)
	h.has(h.post(at+"/revoke_lease", "reason", "it hangs", "attempt", "2"), 409)
	h.has(h.post(at+"/revoke_lease", "reason", "it hangs"), 400)
	h.has(h.post(at+"/revoke_lease", "reason", "it hangs", "attempt", "1"), 200, "lease_revoked", "it hangs")
	h.hasNot(h.get(at), at+"/revoke_lease")
}

// A browser remembers its colours and its zone; the address to go back to is one of the pages.
func TestView(t *testing.T) {
	h := open(t, pawltest.Open(t, pawltest.SQLite), false)
	h.has(h.post("/ui/view", "theme", "dark", "next", "/ui/queues?x=1"), 200, `data-theme="dark"`, "<h1>Queues")
	h.has(h.post("/ui/view", "zone", "local", "next", "//evil.example/ui/"), 200, `data-theme="dark"`, `data-zone="local"`, "<h1>Overview")
	h.post("/ui/view", "theme", `"><script>`, "zone", "utc")
	h.hasNot(h.get("/ui/"), "data-theme", "data-zone")
}
