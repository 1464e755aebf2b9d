package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl/mcp"
	"github.com/pawl-work/pawl/pawltest"
)

// A call that is carried out past the SDK's transport is answered as by it; what is
// no such call, or not quite, goes there and is refused or carried out there.
func TestCallsPastTheSDKsTransport(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":%ID,"method":"tools/call","params":{"name":"%NAME","arguments":%ARGS%META}}`
	of := func(id, name, args, meta string) string {
		return strings.NewReplacer("%ID", id, "%NAME", name, "%ARGS", args, "%META", meta).Replace(call)
	}
	list := of("1", "work_list", "{}", "")
	for _, c := range []struct {
		what, body string
		past       bool
	}{
		{"a read", list, true},
		{"an id that is a text", of(`"a\u00e9"`, "work_list", "{}", ""), true},
		{"a large id", of("9007199254740991", "work_list", "{}", ""), true},
		{"a refusal", of("2", "work_get", `{"task_id":"tsk_x"}`, ""), true},
		{"arguments that do not fit", of("3", "work_list", `{"colour":"<b>"}`, ""), true},
		{"no arguments", of("4", "work_list", "null", ""), true},
		{"a meta", of("5", "work_list", "{}", `,"_meta":{"progressToken":7,"io.github.pawl-work/provenance":{"model":"m"}}`), true},
		{"a key that is none", of("6", "work_propose", `{"type":"a"}`, `,"_meta":{"io.github.pawl-work/idempotency-key":""}`), true},
		{"a batch", "[" + list + "]", false},
		{"an id that is no integer", of("1.5", "work_list", "{}", ""), false},
		{"no id", strings.Replace(list, `"id":1,`, "", 1), false},
		{"the id null", of("null", "work_list", "{}", ""), false},
		{"another version", strings.Replace(list, "2.0", "1.0", 1), false},
		{"another method", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, false},
		{"a tool that is not there", of("1", "work_steal", "{}", ""), false},
		{"more than a call has", of("1", "work_list", "{}", `,"requestState":"x"`), false},
		{"names in capitals", strings.Replace(list, `"method"`, `"METHOD"`, 1), false},
		{"a meta of the protocol", of("1", "work_list", "{}", `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`), false},
		{"a meta of the protocol, disguised", of("1", "work_list", "{}", `,"_meta":{"io.model\u0063ontextprotocol/protocolVersion":"2026-07-28"}`), false},
		{"something after its end", list + "{}", false},
		{"an end too soon", list[:40], false},
	} {
		past, by := bodies(t, mcp.Options{Log: quiet}, c.body)
		if past.status != by.status || past.message() != by.message() || (past.kind == "application/json" && past.status == 200) != c.past {
			t.Errorf("%s:\n%+v\n%+v", c.what, past, by)
		}
	}
	narrow := mcp.Options{Log: quiet, Tune: func(o *sdk.ServerOptions) { o.SupportedProtocolVersions = []string{"2025-06-18"} }}
	if past, by := bodies(t, narrow, list); past.status != 400 || past != by {
		t.Errorf("a revision that the program leaves out:\n%+v\n%+v", past, by)
	}
}

// What a program of its own puts around calls sees them, and what it says while
// they run comes before the answer.
func TestMiddlewareSeesCallsPastTheTransport(t *testing.T) {
	says := func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if err := req.GetSession().(*sdk.ServerSession).Log(ctx, &sdk.LoggingMessageParams{Level: "warning", Data: method}); err != nil {
				t.Error(err)
			}
			if _, err := req.GetSession().(*sdk.ServerSession).ListRoots(ctx, nil); err == nil {
				t.Error("a client was asked who cannot answer")
			}
			return next(ctx, method, req)
		}
	}
	past, by := bodies(t, mcp.Options{Log: quiet, Tune: func(o *sdk.ServerOptions) { o.Capabilities.Logging = &sdk.LoggingCapabilities{} }},
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work_list","arguments":{}}}`, says)
	if past != by || strings.Count(past.body, "data: ") != 2 || !strings.Contains(past.body, `"data":"tools/call"`) {
		t.Errorf("%+v\n%+v", past, by)
	}
}

type told struct {
	status     int
	kind, body string
}

// message is the JSON of an answer, or its text.
func (a told) message() string {
	_, text, _ := strings.Cut("data: "+a.body, "data: ")
	if _, data, framed := strings.Cut(a.body, "data: "); framed {
		text = data
	}
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return a.body
	}
	out, _ := json.Marshal(v)
	return string(out)
}

// bodies are the answers to a request as clients send it, and to one that the SDK
// is left to: its Accept is written otherwise.
func bodies(t *testing.T, o mcp.Options, body string, around ...sdk.Middleware) (past, by told) {
	t.Helper()
	s := mcp.New(pawltest.Open(t, pawltest.SQLite).Service, o)
	s.SDK().AddReceivingMiddleware(around...)
	post := func(accept string) told {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Content-Type": "application/json", "Accept": accept, "Mcp-Protocol-Version": "2025-11-25"} {
			req.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		s.HTTP().ServeHTTP(w, req)
		return told{w.Code, w.Header().Get("Content-Type"), w.Body.String()}
	}
	return post("application/json, text/event-stream"), post("text/event-stream, application/json")
}
