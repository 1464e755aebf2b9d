package dashboard_test

import (
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
	"github.com/pawl-work/pawl/access/signin"
	"github.com/pawl-work/pawl/dashboard"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/testidp"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// withProvider opens a server where users log in at an identity provider. Another service on the
// same database makes another server.
func withProvider(t *testing.T, p *pawltest.Pawl, eng *engine.Engine, idp *testidp.Provider) *fixture {
	t.Helper()
	groups, err := access.ParseGroups([]string{"ops=reader,operator,submitter,approver,claimer@*", "billing=reader@billing",
		"mixed=reader@*", "mixed=operator,submitter,approver,claimer"})
	if err != nil {
		t.Fatal(err)
	}
	claims := signin.Claims{Roles: groups}
	var h http.Handler
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r) }))
	t.Cleanup(srv.Close)
	provider, err := signin.NewProvider(signin.ProviderOptions{Issuer: idp.URL, ClientID: "pawl", ClientSecret: "s3cret",
		RedirectURL: srv.URL + signin.CallbackPath, AfterLogout: srv.URL + "/ui/", Claims: claims})
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := signin.NewVerifier(signin.VerifierOptions{Issuers: []string{idp.URL}, Audiences: []string{"pawl"}, Claims: claims})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	gate := access.New(access.Options{Keys: eng, Tokens: tokens, Required: true, Log: log})
	front := dashboard.New(eng, dashboard.Options{Gate: gate, Log: log, SignIn: provider})
	h = server.New(eng, server.Options{Gate: gate, Log: log, Front: front})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{t, p, srv, &http.Client{Jar: jar}}
}

// signIn follows the link of the login page to the provider and back, and stays at the answer.
func (h *fixture) signIn(next string) page {
	h.Helper()
	return h.get("/ui/oidc/login?next=" + url.QueryEscape(next))
}

// begin begins a login and returns the provider's address and the cookie of the login.
func (h *fixture) begin() (*url.URL, *http.Cookie) {
	h.Helper()
	h.browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	defer func() { h.browser.CheckRedirect = nil }()
	got := h.signIn("/ui/tasks")
	to, err := got.Location()
	if err != nil || len(got.Cookies()) != 1 {
		h.Fatal(err, got.Header)
	}
	return to, got.Cookies()[0]
}

func TestSignInAtAProvider(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		idp := testidp.New(t)
		h := withProvider(t, p, p.Engine, idp)
		broken := h.failed()
		h.has(h.get("/ui/tasks"), 401, "Log in at "+strings.TrimPrefix(idp.URL, "http://"), "/ui/oidc/login?next=%2fui%2ftasks")

		idp.Set(func() { idp.User = testidp.Claims{"groups": []string{"unknown"}} })
		h.has(h.signIn("/ui/tasks"), 403, "no role is mapped to the groups of ann")
		h.has(h.get("/ui/tasks"), 401)

		idp.Set(func() { idp.User = testidp.Claims{"groups": []string{"ops"}} })
		to, c := h.begin()
		q := to.Query()
		if q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" || q.Get("nonce") == "" || q.Get("state") == "" ||
			q.Get("scope") != "openid profile email" || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode ||
			strings.Contains(c.Value, q.Get("state")) {
			t.Errorf("begins with %s and %s", to, c)
		}
		in := h.signIn("/ui/tasks?state=failed")
		h.has(in, 200, "Logged in", `content="0; url=/ui/tasks?state=failed"`)
		for _, c := range in.Cookies() {
			if !c.HttpOnly || c.Value != "" && c.SameSite != http.SameSiteStrictMode || strings.Contains(c.Value, "ann") {
				t.Errorf("the cookie is %s", c)
			}
		}
		h.has(h.get("/ui/tasks"), 200, "ann", "Log out")
		if csp := h.get("/ui/").Header.Get("Content-Security-Policy"); !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("the pages may be framed: %s", csp)
		}
		retry := "/ui/tasks/" + broken.TaskID + "/retry"
		h.has(h.send("POST", retry, url.Values{"reason": {"x"}}, "Origin", "https://elsewhere.example"), 403, "other origins")
		h.has(h.post(retry, "reason", "again"), 200)
		events, err := p.Engine.ListEvents(t.Context(), pawl.EventFilter{TaskID: broken.TaskID})
		if err != nil {
			t.Fatal(err)
		}
		var by []string
		for _, e := range events.Items {
			if e.ActorType == pawl.ActorUser {
				by = append(by, e.ActorID+" "+e.KeyID)
			}
		}
		if len(by) == 0 || by[0] != "ann "+idp.URL+"#248289" {
			t.Errorf("the events name %q", by)
		}

		idp.Set(func() { idp.User = testidp.Claims{"groups": []string{}} })
		h.has(h.get("/ui/tasks"), 200) // roles are those of the login
		out := h.post("/ui/logout")
		h.has(out, 200, "Logged out", idp.URL+"/logout?client_id=pawl&id_token_hint=ey",
			"post_logout_redirect_uri="+url.QueryEscape(h.srv.URL+"/ui/"))
		h.has(h.get("/ui/tasks"), 401)
	})
}

// Each attack on a login is refused, and leaves the browser without a session.
func TestLoginsThatAreRefused(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	idp := testidp.New(t)
	idp.User = testidp.Claims{"groups": "ops"}
	h := withProvider(t, p, p.Engine, idp)
	back := func(q url.Values) page { return h.get(signin.CallbackPath + "?" + q.Encode()) }
	code := func(to *url.URL) string { return idp.Code(to.Query()) }
	for what, attack := range map[string]func() page{
		"no login was begun": func() page {
			return back(url.Values{"state": {"x"}, "code": {"x"}})
		},
		"another state": func() page {
			to, _ := h.begin()
			return back(url.Values{"state": {"x"}, "code": {code(to)}})
		},
		"the state of another browser": func() page {
			other := withProvider(t, p, p.Engine, idp)
			to, _ := other.begin()
			h.begin()
			return back(url.Values{"state": {to.Query().Get("state")}, "code": {code(to)}})
		},
		"the code of another login": func() page { // without its verifier
			to, _ := h.begin()
			stolen := code(to)
			to, _ = h.begin()
			return back(url.Values{"state": {to.Query().Get("state")}, "code": {stolen}})
		},
		"a code without PKCE": func() page {
			to, _ := h.begin()
			q := to.Query()
			q.Del("code_challenge")
			return back(url.Values{"state": {q.Get("state")}, "code": {idp.Code(q)}})
		},
		"the code of another client": func() page {
			to, _ := h.begin()
			q := to.Query()
			q.Set("client_id", "shop")
			return back(url.Values{"state": {q.Get("state")}, "code": {idp.Code(q)}})
		},
		"the nonce of another login": func() page {
			to, _ := h.begin()
			q := to.Query()
			q.Set("nonce", "replayed")
			return back(url.Values{"state": {q.Get("state")}, "code": {idp.Code(q)}})
		},
		"another provider": func() page {
			to, _ := h.begin()
			return back(url.Values{"state": {to.Query().Get("state")}, "code": {code(to)}, "iss": {"https://elsewhere.test"}})
		},
		"the provider's refusal": func() page {
			idp.Refuses = "access_denied"
			defer func() { idp.Refuses = "" }()
			return h.signIn("/ui/")
		},
	} {
		got := attack()
		h.has(got, 401, "Log in", `role="alert"`)
		if h.get("/ui/").StatusCode != 401 {
			t.Errorf("%s: a session has begun", what)
		}
	}
	for what, c := range map[string]testidp.Claims{
		"another audience":                  {"aud": "shop"},
		"several audiences without a party": {"aud": []string{"pawl", "shop"}},
		"several audiences for another":     {"aud": []string{"pawl", "shop"}, "azp": "shop"},
		"an issuer in another case":         {"iss": nil, "Iss": idp.URL},
		"another issuer":                    {"iss": "https://elsewhere.test"}, "expired": {"exp": 1}, "for another": {"azp": "shop"},
	} {
		h = withProvider(t, p, p.Engine, idp) // each has its own bound of wrong logins
		idp.Lifts = func(had *testidp.Claims) { *had = idp.With(c) }
		h.has(h.signIn("/ui/"), 401, "Log in", `role="alert"`)
		if h.get("/ui/").StatusCode != 401 {
			t.Errorf("%s: a session has begun", what)
		}
	}
}

// Wrong logins of an address are bounded as wrong keys are.
func TestWrongLoginsAreSlowedDown(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	h := withProvider(t, p, p.Engine, testidp.New(t))
	refused := 0
	for range 30 {
		if got := h.get(signin.CallbackPath + "?state=x&code=x"); got.StatusCode == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused < 5 {
		t.Errorf("%d of 30 wrong logins were refused as too many", refused)
	}
}

// A login ends on one server, whichever; it is finished once.
func TestALoginIsFinishedOnce(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		idp := testidp.New(t)
		idp.User = testidp.Claims{"groups": "ops"}
		h, other := withProvider(t, p, p.Engine, idp), withProvider(t, p, p.Another(engine.Options{}), idp)
		to, c := h.begin()
		path := signin.CallbackPath + "?" + url.Values{"state": {to.Query().Get("state")}, "code": {idp.Code(to.Query())}}.Encode()
		cookie := []string{"Cookie", c.Name + "=" + c.Value}
		// The redirect URL of the provider is the first server's, so the second one finishes the first one's
		// login up to the exchange of the code.
		h.has(h.send("GET", path, nil, cookie...), 200, "Logged in")
		for _, s := range []*fixture{h, other} {
			s.browser.Jar = nil
			s.has(s.send("GET", path, nil, cookie...), 401, "this login was not begun in this browser, or is over")
		}
	})
}

// A page of another site gets no visitor from a login, and a session that was there before is not
// the session after it.
func TestALoginLeadsBackAndBeginsANewSession(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	idp := testidp.New(t)
	idp.User = testidp.Claims{"groups": "ops"}
	h := withProvider(t, p, p.Engine, idp)
	for _, next := range []string{"https://elsewhere.example/ui/", "//elsewhere.example/ui/", "/ui/../x",
		`/ui/..\x`, "javascript:alert(1)", "",
	} {
		h.has(h.signIn(next), 200, `content="0; url=/ui/"`)
	}
	home, _ := url.Parse(h.srv.URL + "/ui/")
	session := func() string {
		for _, c := range h.browser.Jar.Cookies(home) {
			if c.Name == "pawl_session" {
				return c.Value
			}
		}
		return ""
	}
	before := session()
	h.signIn("/ui/")
	if after := session(); after == before || after == "" {
		t.Error("the session of before goes on")
	}
	h.browser.Jar = nil
	h.has(h.send("GET", "/ui/", nil, "Cookie", "pawl_session="+before), 401)
}

// Who asks for work, by the API with a token, may not approve it in the dashboard. A token of the same
// holder holds the lease that another one claimed; another holder's does not.
func TestOneHolderIsOneCaller(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		idp := testidp.New(t)
		idp.User = testidp.Claims{"groups": "ops"}
		h := withProvider(t, p, p.Engine, idp)
		call := func(token, method, path, body string, headers ...string) (int, string) {
			t.Helper()
			req, err := http.NewRequestWithContext(t.Context(), method, h.srv.URL+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+token)
			req.Header.Set("Content-Type", "application/json")
			for i := 0; i < len(headers); i += 2 {
				req.Header.Set(headers[i], headers[i+1])
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			raw := new(strings.Builder)
			_ = res.Write(raw)
			return res.StatusCode, raw.String()
		}
		_, err := p.Engine.PutTypes(t.Context(), []pawl.Type{{Name: "refund", Approval: pawl.Approval{Mode: pawl.ApprovalManual}}})
		if err != nil {
			t.Fatal(err)
		}
		// ann asks, whatever name she gives
		if status, text := call(idp.Token(nil), "POST", "/v1/tasks", `{"type":"refund"}`, "Pawl-Actor", "user/bob"); status != 201 {
			t.Fatal(status, text)
		}
		tasks, err := p.Engine.ListTasks(t.Context(), pawl.TaskFilter{Types: []string{"refund"}})
		if err != nil || len(tasks.Items) != 1 {
			t.Fatal(tasks, err)
		}
		bob := testidp.Claims{"sub": "7", "preferred_username": "bob"}
		status, text := call(idp.Token(nil), "POST", "/v1/claims", `{"worker_id":"w"}`)
		_, id, found := strings.Cut(text, `"id":"`)
		id, _, _ = strings.Cut(id, `"`)
		if !found {
			t.Fatal(status, text)
		}
		done := `{"worker_id":"w","attempt":1,"result":{}}`
		if status, text := call(idp.Token(bob), "POST", "/v1/items/"+id+":submit", done); status != 409 || !strings.Contains(text, "taken") {
			t.Errorf("the lease of another holder: %d %s", status, text)
		}
		if status, text := call(idp.Token(testidp.Claims{"jti": "another token"}), "POST", "/v1/items/"+id+":submit", done); status != 200 {
			t.Errorf("the own lease with another token: %d %s", status, text)
		}
		h.signIn("/ui/")
		approve := "/ui/tasks/" + tasks.Items[0].ID + "/approve"
		h.has(h.post(approve), 403, "forbidden")
		idp.Set(func() { idp.User = testidp.Claims{"groups": "ops", "sub": "7", "preferred_username": "bob"} })
		h.post("/ui/logout")
		h.signIn("/ui/")
		h.has(h.post(approve), 200)
		if task, err := p.Engine.GetTask(t.Context(), tasks.Items[0].ID); err != nil || task.State == pawl.TaskSubmitted {
			t.Error(task.State, err)
		}
	})
}

// What open pages read again is kept for callers with the same rights. A user with a role in one
// namespace does not see what is kept for a user who has it in all of them.
func TestKeptPagesAreForTheirRights(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	idp := testidp.New(t)
	h := withProvider(t, p, p.Engine, idp)
	if _, _, err := p.Engine.CreateAPIKey(t.Context(), pawl.NewAPIKey{Name: "a secret name", Roles: pawl.KeyRoles}); err != nil {
		t.Fatal(err)
	}
	if r, taken, err := p.Engine.TakeRelay(t.Context(), "a secret bus", "nats", "a", time.Minute); err != nil || !taken {
		t.Fatal(r, err)
	}
	idp.Set(func() { idp.User = testidp.Claims{"groups": []string{"ops"}} })
	h.has(h.signIn("/ui/"), 200)
	ops := h.browser.Jar
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	h.browser.Jar = jar
	idp.Set(func() { idp.User = testidp.Claims{"sub": "2", "groups": []string{"mixed"}} })
	h.has(h.signIn("/ui/"), 200)
	for path, shows := range map[string]string{"/ui/keys": "a secret name", "/ui/relays": "a secret bus", "/ui/": "a secret bus"} {
		for range 2 {
			h.browser.Jar = ops
			h.has(h.send("GET", path, nil, "Pawl-Automatic", "1"), 200, shows)
			h.browser.Jar = jar
			for _, again := range []page{h.send("GET", path, nil, "Pawl-Automatic", "1"), h.get(path)} {
				h.hasNot(again, shows)
				if path != "/ui/" && again.StatusCode != http.StatusForbidden {
					t.Errorf("%s: %d", path, again.StatusCode)
				}
			}
		}
	}
}
