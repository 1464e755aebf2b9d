package mcp_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/mcp"
	"github.com/pawl-work/pawl/pawltest"
)

// post sends a body to /mcp, with the query of url, as a client of an older revision does,
// which needs no headers of its own.
func post(t *testing.T, url, body string, headers ...string) (int, string) {
	t.Helper()
	base, query, _ := strings.Cut(url, "?")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/mcp?"+query, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		if req.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			req.Host = headers[i+1]
		}
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
	return res.StatusCode, string(raw)
}

func proposing(arguments string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work_propose","arguments":` + arguments + `}}`
}

// What a well-behaved client would not send.
func TestForeignRequests(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	url := serve(t, p.Service)
	for _, c := range []struct {
		what, body string
		headers    []string
		status     int
		says       string
	}{
		{"a number out of range", proposing(`{"type":"a","priority":1e400}`), nil, 200, `/priority`},
		{"a requester that is a type and a name", proposing(`{"type":"a","requested_by":{"type":"user","id":"user/boss"}}`), nil, 200,
			`/requested_by/id`},
		{"a name twice", proposing(`{"type":"a","type":"b"}`), nil, 400, `is there twice`},
		{"arguments that are no object", proposing(`[1]`), nil, 200, `invalid`},
		{"a body that ends too soon", `{"jsonrpc":"2.0","id":1,"method":`, nil, 400, `ends too soon`},
		{"text that is not UTF-8", proposing(`{"type":"` + "\xff" + `"}`), nil, 400, `invalid`},
		{"a method that is not there", `{"jsonrpc":"2.0","id":1,"method":"work/steal"}`, nil, 400, `unsupported`},
		{"a revision that is not there", proposing(`{"type":"a"}`), []string{"Mcp-Protocol-Version", "1999-01-01"}, 400,
			`nsupported protocol version`},
		{"another host", proposing(`{"type":"a"}`), []string{"Host", "evil.example"}, 403, `does not go by the name`},
		{"another origin", proposing(`{"type":"a"}`), []string{"Origin", "https://evil.example"}, 403, `other origins`},
		{"another page", proposing(`{"type":"a"}`), []string{"Sec-Fetch-Site", "cross-site"}, 403, `other origins`},
		{"another media type", proposing(`{"type":"a"}`), []string{"Content-Type", "text/plain"}, 415, `application/json`},
	} {
		if status, body := post(t, url, c.body, c.headers...); status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s: %d %s\nwant %d … %s …", c.what, status, body, c.status, c.says)
		}
	}
	if l, err := p.Service.ListTasks(t.Context(), pawl.TaskFilter{}); err != nil || len(l.Items) != 0 {
		t.Errorf("it left %v, %v", l.Items, err)
	}
}

// The namespace and the actor of a request are the call's, as in the other interfaces. A
// caller that names no actor is an agent.
func TestCallersAreTheDoors(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	url := serve(t, p.Service)
	for _, c := range []struct{ ns, actor, kind, id string }{{"", "", "agent", ""}, {"blue", "user/eve", "user", "eve"}} {
		status, body := post(t, url, proposing(`{"type":"a"}`), "Pawl-Namespace", c.ns, "Pawl-Actor", c.actor)
		if status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		l, err := p.Service.ListEvents(pawl.As(t.Context(), pawl.Caller{Namespace: c.ns}), pawl.EventFilter{})
		if err != nil || len(l.Items) != 1 || l.Items[0].ActorType != c.kind || l.Items[0].ActorID != c.id {
			t.Errorf("%+v: %+v, %v", c, l.Items, err)
		}
	}
}

// Both revisions are answered by one handler without sessions.
func TestBothRevisions(t *testing.T) {
	url := serve(t, pawltest.Open(t, pawltest.SQLite).Service)
	const info = `"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`
	for revision, body := range map[string]string{
		"2025-11-25": `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		"2026-07-28": `{"jsonrpc":"2.0","id":1,"method":"tools/list",` +
			`"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` + info + `}}}`,
	} {
		status, answer := post(t, url, body, "Mcp-Protocol-Version", revision, "Mcp-Method", "tools/list")
		if status != 200 || strings.Count(answer, `"name":"work_`) != 31 {
			t.Errorf("%s: %d %.300s", revision, status, answer)
		}
		if i := strings.Index(answer, "{"); i >= 0 {
			var m struct {
				Result struct {
					Tools []struct {
						Name                      string
						InputSchema, OutputSchema struct{ Type string }
					}
				}
			}
			if err := json.NewDecoder(strings.NewReader(answer[i:])).Decode(&m); err != nil {
				t.Fatal(err)
			}
			for _, tool := range m.Result.Tools {
				// clients hold a task against its schema
				if tool.InputSchema.Type != "object" || tool.OutputSchema.Type != "object" && tool.Name != "work_run" {
					t.Errorf("%s: %+v", revision, tool)
				}
			}
		}
	}
}

// Clients put the list of tools before their model: it is short. Some cut a description, or
// the instructions, behind 2,048 characters.
func TestTheListIsShort(t *testing.T) {
	url := serve(t, pawltest.Open(t, pawltest.SQLite).Service)
	status, body := post(t, url, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Mcp-Protocol-Version", "2025-11-25")
	if t.Logf("%d bytes", len(body)); status != 200 || !strings.Contains(body, `"work_approve"`) || len(body) > 36_000 {
		t.Errorf("%d, %d bytes: %.300s", status, len(body), body)
	}
	const most = 2048
	a := connect(t, nil, pipe(t, pawltest.Open(t, pawltest.SQLite).Service, mcp.Options{Log: quiet, Tools: mcp.ToolsAll}))
	if said := a.session.InitializeResult().Instructions; said == "" || utf8.RuneCountInString(said) >= most {
		t.Errorf("the instructions have %d characters", utf8.RuneCountInString(said))
	}
	l, err := a.session.ListTools(t.Context(), nil)
	a.must(err)
	for _, tool := range l.Tools {
		if tool.Description == "" || utf8.RuneCountInString(tool.Description) >= most {
			t.Errorf("the description of %s has %d characters", tool.Name, utf8.RuneCountInString(tool.Description))
		}
	}
}
