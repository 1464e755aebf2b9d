package access_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

func TestMain(m *testing.M) { pawltest.Main(m) }

// shop is a user's service that accepts calls only for a valid lease. It answers with
// the token's lease.
func shop(t *testing.T, tokens pawl.TokenReader) string {
	t.Helper()
	srv := httptest.NewServer(access.RequireTask(tokens)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		task, ok := access.TaskOf(r.Context())
		if !ok {
			t.Error("the handler does not know whose token it was")
		}
		_ = json.NewEncoder(w).Encode(task)
	})))
	t.Cleanup(srv.Close)
	return srv.URL
}

// order sends a request with headers, given in pairs.
func order(t *testing.T, url string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/orders", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(raw)
}

func bearer(l pawl.Lease) []string { return []string{"Authorization", "Bearer " + l.Token} }

// checkers are who can be asked about tokens.
func checkers(t *testing.T, p *pawltest.Pawl) map[string]pawl.TokenReader {
	t.Helper()
	_, key, err := p.Engine.CreateAPIKey(t.Context(), pawl.NewAPIKey{Name: "shop", Roles: []string{"reader"}})
	if err != nil {
		t.Fatal(err)
	}
	gate := access.New(access.Options{Keys: p.Engine, Required: true})
	srv := httptest.NewServer(server.New(p.Another(engine.Options{}), server.Options{Gate: gate}))
	t.Cleanup(srv.Close)
	return map[string]pawl.TokenReader{"the engine": p.Service, "a client of another server": client.New(srv.URL, key)}
}

// A worker that has lost its lease is refused from the moment the lease ended. The
// worker that holds the item now is accepted.
func TestAZombieIsRefused(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		for who, tokens := range checkers(t, p) {
			url := shop(t, tokens)
			claim := func(worker string) pawl.Lease {
				t.Helper()
				ls, err := p.Service.Claim(t.Context(), pawl.ClaimRequest{WorkerID: worker})
				if err != nil || len(ls) != 1 {
					t.Fatal(ls, err)
				}
				return ls[0]
			}
			refused := func(l pawl.Lease, reason string) {
				t.Helper()
				res, body := order(t, url, bearer(l)...)
				var no api.Problem
				if err := json.Unmarshal([]byte(body), &no); err != nil || res.StatusCode != 403 || no.Code != pawl.CodeForbidden ||
					no.Reason != reason ||
					res.Header.Get("Content-Type") != api.ProblemType {
					t.Errorf("%s: %s %s, want 403 %s", who, res.Status, body, reason)
				}
			}
			passes := func(l pawl.Lease) {
				t.Helper()
				res, body := order(t, url, bearer(l)...)
				var got pawl.TaskToken
				if err := json.Unmarshal([]byte(body), &got); err != nil || res.StatusCode != 200 || got.ItemID != l.ID || got.TaskID != l.TaskID ||
					got.WorkerID != l.WorkerID ||
					got.Attempt != l.Attempt {
					t.Errorf("%s: %s %s", who, res.Status, body)
				}
			}
			if _, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "order.send"}); err != nil {
				t.Fatal(err)
			}
			zombie := claim("ann")
			passes(zombie)
			p.Advance(300 * time.Second)
			refused(zombie, pawl.ReasonExpired)
			if _, err := p.Service.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			heir := claim("bob")
			passes(heir)
			refused(zombie, pawl.ReasonTaken)
			if _, err := pawl.Complete(t.Context(), p.Service, heir.Fence(), nil); err != nil {
				t.Fatal(err)
			}
			refused(heir, "")
		}
	})
}

func TestWhatIsNoTaskToken(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		if _, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a"}); err != nil {
			t.Fatal(err)
		}
		ls, err := p.Service.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w"})
		if err != nil || len(ls) != 1 {
			t.Fatal(ls, err)
		}
		good := ls[0].Token
		for who, tokens := range checkers(t, p) {
			url := shop(t, tokens)
			for what, headers := range map[string][]string{
				"none":            nil,
				"an empty one":    {"Authorization", "Bearer "},
				"another scheme":  {"Authorization", "Basic eDp5"},
				"a changed one":   {"Authorization", "Bearer " + good[:len(good)-1] + "x"},
				"a long one":      {"Authorization", "Bearer " + strings.Repeat("x", 100_000)},
				"two":             {"Authorization", "Bearer " + good, "Authorization", "Bearer x"},
				"one and another": {api.TaskTokenHeader, "x", "Authorization", "Bearer " + good},
			} {
				res, body := order(t, url, headers...)
				if res.StatusCode != 401 || !strings.HasPrefix(res.Header.Get("WWW-Authenticate"), `Bearer realm="pawl task"`) ||
					!strings.Contains(body, `"code":"unauthenticated"`) {
					t.Errorf("%s by %s: %s %v %s", what, who, res.Status, res.Header, body)
				}
			}
			if res, body := order(t, url, api.TaskTokenHeader, good, "Authorization", "Basic of-its-own"); res.StatusCode != 200 {
				t.Errorf("beside the service's own authorization, by %s: %s %s", who, res.Status, body)
			}
		}
	})
}

// A service that cannot check tokens refuses every call, without a reason.
func TestTokensThatCannotBeChecked(t *testing.T) {
	for what, tokens := range map[string]pawl.TokenReader{
		"nobody answers":      client.NewWith("http://127.0.0.1:1", "", client.Options{Tries: 1}),
		"a key without roles": client.New(unguarded(t), "pawl_nobody"),
	} {
		res, body := order(t, shop(t, tokens), "Authorization", "Bearer task_x_1_y")
		if res.StatusCode != 503 || !strings.Contains(body, `"code":"unavailable"`) || strings.Contains(body, "key") {
			t.Errorf("%s: %s %s", what, res.Status, body)
		}
	}
}

func unguarded(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(server.New(pawltest.Open(t, pawltest.SQLite).Service, server.Options{}))
	t.Cleanup(srv.Close)
	return srv.URL
}
