package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/cost"
	"github.com/pawl-work/pawl/mcp"
	"github.com/pawl-work/pawl/pawltest"
)

const (
	asJSON   = "application/json"
	asStream = "text/event-stream"
	newest   = "2026-07-28"
	stating  = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`
)

// told is an answer: its status, its media type and its messages, of a stream too.
type told struct {
	status   int
	kind     string
	messages []string
}

// tell sends a request to a handler over a connection.
func tell(t *testing.T, url, body string, headers ...string) told {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", asJSON)
	req.Header.Set("Accept", asJSON+", "+asStream)
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
	got := told{status: res.StatusCode, kind: res.Header.Get("Content-Type"), messages: []string{strings.TrimSpace(string(raw))}}
	if got.kind == asStream {
		got.messages = nil
		for event := range strings.SplitSeq(strings.TrimSpace(string(raw)), "\n\n") {
			_, data, _ := strings.Cut(event, "data: ")
			got.messages = append(got.messages, data)
		}
	}
	return got
}

func listen(t *testing.T, h http.Handler) string {
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

func calling(id, params string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":` + params + `}`
}

// Pawl's own transport answers what the SDK's would, and leaves the rest to it.
func TestDirectCallsAreAnsweredAsBySDK(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	o := mcp.Options{Log: quiet, Tools: mcp.ToolsAll}
	own, theirs := listen(t, mcp.New(p.Service, o).HTTP()), listen(t, mcp.New(p.Service, o).LeaveToSDK().HTTP())
	const get = `{"name":"work_get","arguments":{"task_id":"tsk_01ARZ3NDEKTSV4RRFFQ69G5FAV"}}`
	const stated = `{"name":"work_get","arguments":{"task_id":"t"},"_meta":{` + stating + `}}`
	latest := []string{"Mcp-Protocol-Version", newest, "Mcp-Method", "tools/call", "Mcp-Name", "work_get"}
	for _, c := range []struct {
		what, body string
		headers    []string
		direct     bool
	}{
		{"a call", calling("1", get), nil, true},
		{"a text as id", calling(`"a\"b"`, get), nil, true},
		{"an older revision", calling("1", get), []string{"Mcp-Protocol-Version", "2025-06-18"}, true},
		{"the newest revision", calling("1", stated), latest, true},
		{"a media type with a parameter", calling("1", get), []string{"Content-Type", "application/json; charset=utf-8"}, true},
		{"every media type", calling("1", get), []string{"Accept", "*/*"}, true},
		{"arguments that do not fit", calling("1", `{"name":"work_get","arguments":{"task":1}}`), nil, true},
		{"arguments that are a list", calling("1", `{"name":"work_get","arguments":[1]}`), nil, true},
		{"no arguments", calling("1", `{"name":"work_list"}`), nil, true},
		{"capabilities that are none", calling("1", `{"name":"work_get","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"`+
			newest+`"}}`), latest, true},
		{"a revision only in the header", calling("1", get), latest, false},
		{"a revision only in the call", calling("1", stated), nil, false},
		{"two revisions", calling("1", stated), []string{"Mcp-Protocol-Version", "2025-11-25"}, false},
		{"another tool in the header", calling("1", stated), append(latest[:4:4], "Mcp-Name", "work_list"), false},
		{"another method in the header", calling("1", stated), append(latest[:2:2], "Mcp-Method", "tools/list", "Mcp-Name", "work_get"), false},
		{"an unknown revision", calling("1", get), []string{"Mcp-Protocol-Version", "1999-01-01"}, false},
		{"another tool by another case", calling("1", `{"name":"work_get","Name":"work_list","arguments":{"task_id":"t"}}`), nil, true},
		{"a tool that is not there", calling("1", `{"name":"work_steal"}`), nil, false},
		{"a tool that is a task", calling("1", `{"name":"work_run","arguments":1}`), nil, false},
		{"no tool", calling("1", `{}`), nil, false},
		{"no id", `{"jsonrpc":"2.0","method":"tools/call","params":` + get + `}`, nil, false},
		{"an object as id", calling("{}", get), nil, false},
		{"another method", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, nil, false},
		{"a batch", "[" + calling("1", get) + "]", nil, false},
		{"another version", strings.Replace(calling("1", get), "2.0", "1.0", 1), nil, false},
		{"a body that ends too soon", calling("1", get)[:40], nil, false},
		{"no body", "", nil, false},
		{"JSON alone", calling("1", get), []string{"Accept", asJSON}, false},
		{"a stream alone", calling("1", get), []string{"Accept", asStream}, false},
		{"another media type", calling("1", get), []string{"Content-Type", "text/plain"}, false},
		{"another host", calling("1", get), []string{"Host", "evil.example"}, false},
		{"the end of another stream", calling("1", get), []string{"Last-Event-Id", "a_1"}, false},
	} {
		got, want := tell(t, own, c.body, c.headers...), tell(t, theirs, c.body, c.headers...)
		if got.status != want.status || !same(got.messages, want.messages) {
			t.Errorf("%s: %+v\nwant %+v", c.what, got, want)
		}
		if direct := got.kind == asJSON && want.kind == asStream || got.status == http.StatusBadRequest && c.direct; direct != c.direct {
			t.Errorf("%s: %s, and %s of the SDK", c.what, got.kind, want.kind)
		}
	}
}

// same compares messages as JSON, and others as texts.
func same(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		var x, y any
		if json.Unmarshal([]byte(a[i]), &x) != nil || json.Unmarshal([]byte(b[i]), &y) != nil {
			if a[i] != b[i] {
				return false
			}
			continue
		}
		if left, right := plainJSON(x), plainJSON(y); left != right {
			return false
		}
	}
	return true
}

func plainJSON(v any) string {
	raw, _ := json.Marshal(v)
	return string(raw)
}

// An id comes back as it was sent, also one that a float64 cannot hold.
func TestTheIDComesBack(t *testing.T) {
	url := listen(t, mcp.New(pawltest.Open(t, pawltest.SQLite).Service, mcp.Options{Log: quiet}).HTTP())
	for _, id := range []string{"9007199254740993", "-1", `"é\u0000"`, "0"} {
		got := tell(t, url, calling(id, `{"name":"work_list"}`))
		if !strings.HasPrefix(got.messages[0], `{"jsonrpc":"2.0","id":`+id+`,"result":`) {
			t.Errorf("%s: %+v", id, got)
		}
	}
}

// through serves with a middleware around the tools.
func through(t *testing.T, before func(ctx context.Context, call *sdk.CallToolRequest)) string {
	s := mcp.New(pawltest.Open(t, pawltest.SQLite).Service, mcp.Options{Log: quiet})
	s.SDK().AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			before(ctx, req.(*sdk.CallToolRequest))
			return next(ctx, method, req)
		}
	})
	return listen(t, s.HTTP())
}

// An answer is a stream where a notification comes before it.
func TestProgressComesBeforeTheAnswer(t *testing.T) {
	url := through(t, func(ctx context.Context, call *sdk.CallToolRequest) {
		if token := call.Params.GetProgressToken(); token != nil {
			for i := range 2 {
				if err := call.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: float64(i)}); err != nil {
					t.Error(err)
				}
			}
		}
	})
	got := tell(t, url, calling("7", `{"name":"work_list","_meta":{"progressToken":"p"}}`))
	if got.kind != asStream || len(got.messages) != 3 || !strings.Contains(got.messages[1], `"progress":1`) ||
		!strings.Contains(got.messages[2], `"id":7,"result"`) {
		t.Errorf("%+v", got)
	}
	if got := tell(t, url, calling("7", `{"name":"work_list"}`)); got.kind != asJSON || len(got.messages) != 1 {
		t.Errorf("%+v", got)
	}
}

// A tool that asks its client gets an error: the client cannot answer.
func TestNoCallsToTheClient(t *testing.T) {
	url := through(t, func(ctx context.Context, call *sdk.CallToolRequest) {
		_, err := call.Session.ListRoots(ctx, nil) //lint:ignore SA1019 clients of older revisions still have it
		var refused *jsonrpc.Error
		if !errors.As(err, &refused) || refused.Code != jsonrpc.CodeInvalidRequest {
			t.Errorf("it says %v", err)
		}
	})
	if got := tell(t, url, calling("1", `{"name":"work_list"}`)); got.status != http.StatusOK || got.kind != asJSON {
		t.Errorf("%+v", got)
	}
}

// In the newest revision a request that ends cancels its call. In older ones it does not.
func TestTheEndOfARequest(t *testing.T) {
	begun, ended := make(chan bool, 1), make(chan error, 1)
	var goOn chan bool
	url := through(t, func(ctx context.Context, _ *sdk.CallToolRequest) {
		begun <- true
		select {
		case <-ctx.Done():
		case <-goOn:
		}
		ended <- ctx.Err()
	})
	for revision, meta := range map[string]string{newest: stating, "2025-11-25": ""} {
		goOn = make(chan bool)
		ctx, leave := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url,
			strings.NewReader(calling("1", `{"name":"work_list","_meta":{`+meta+`}}`)))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Content-Type": asJSON, "Accept": asJSON + "," + asStream, "Mcp-Protocol-Version": revision,
			"Mcp-Method": "tools/call", "Mcp-Name": "work_list"} {
			req.Header.Set(name, value)
		}
		go func() {
			<-begun
			leave()
		}()
		if res, err := http.DefaultClient.Do(req); err == nil {
			_ = res.Body.Close()
			t.Fatalf("%s: the request was answered", revision)
		}
		select {
		case <-ended:
			if revision != newest {
				t.Error("an older call was cancelled")
			}
		case <-time.After(200 * time.Millisecond):
			if revision == newest {
				if err := <-ended; err == nil {
					t.Error("the call was not cancelled")
				}
				break
			}
			close(goOn)
			if err := <-ended; err != nil {
				t.Errorf("an older call: %v", err)
			}
		}
	}
}

// FuzzDirect sends arbitrary bodies. What Pawl's own transport takes, the SDK reads in the
// same way: the same id, parameters and tool.
func FuzzDirect(f *testing.F) {
	f.Add([]byte(calling("1", `{"name":"work_list","arguments":{"a":[1e400]},"_meta":{`+stating+`}}`)))
	f.Add([]byte(calling(`"a"`, `{"Name":"work_get","name":"work_list"}`)))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1.5,"method":"tools/call","METHOD":"ping","params":{"name":"work_list"}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools\/call","params":{"n\u0061me":"work_list","name":"work_get"}} `))
	f.Add([]byte("[" + calling("null", "{}") + "]"))
	s := mcp.New(pawl.Service(nil), mcp.Options{Log: quiet})
	f.Fuzz(func(t *testing.T, body []byte) {
		var id, params, tool string
		var ok bool
		cost.Check(t, len(body), func() { id, params, tool, ok = s.Direct(body) })
		if !ok {
			return
		}
		msg, err := jsonrpc.DecodeMessage(body)
		if err != nil {
			t.Fatalf("the SDK refuses it: %v\n%q", err, body)
		}
		req, ok := msg.(*jsonrpc.Request)
		if !ok || !req.IsCall() || req.Method != "tools/call" || !bytes.Equal(bytes.TrimSpace(req.Params), []byte(params)) {
			t.Fatalf("%+v of %q", msg, body)
		}
		var members map[string]json.RawMessage
		var name string
		if err := errors.Join(json.Unmarshal(req.Params, &members), json.Unmarshal(members["name"], &name)); err != nil || name != tool {
			t.Fatalf("%s, not %s: %v", name, tool, err)
		}
		if !json.Valid([]byte(id)) || strings.ContainsAny(id, "\r\n") {
			t.Fatalf("the id %q", id)
		}
	})
}
