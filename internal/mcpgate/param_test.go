package mcpgate

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A call of a tool whose schema names headers for arguments has these headers: without them its server refuses the call.
func TestArgumentsThatHeadersRepeat(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},
		"count":{"type":"integer","x-mcp-header":"Count"},
		"dry":{"type":"boolean","x-mcp-header":"Dry"},
		"of":{"type":"object","properties":{"city":{"type":"string","x-mcp-header":"City"}}},
		"plain":{"type":"string"}}}`)
	got := ""
	build := func(*http.Request) *sdk.Server {
		srv := sdk.NewServer(&sdk.Implementation{Name: "shop", Version: "1"}, nil)
		srv.AddTool(&sdk.Tool{Name: "ship", InputSchema: schema}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			got = string(r.Params.Arguments)
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "shipped"}}}, nil
		})
		return srv
	}
	srv := httptest.NewServer(sdk.NewStreamableHTTPHandler(build, &sdk.StreamableHTTPOptions{Stateless: true}))
	defer srv.Close()
	c := Remote(t.Context(), srv.URL, nil).(*remote)
	defer c.stop()
	ask := func(method, params string) string {
		m, err := readMessage([]byte(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params +
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
			`"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Send(t.Context(), &m); err != nil {
			t.Fatal(err)
		}
		return string(<-c.got)
	}
	if list := ask("tools/list", ""); !strings.Contains(list, `"ship"`) {
		t.Fatal(list)
	}
	for _, arguments := range []string{
		`{"region":"eu","count":12,"dry":true,"of":{"city":"Bern"},"plain":"p"}`,
		`{"region":" Zürich\n","count":-3,"dry":false,"of":{"city":"=?base64?eA==?="}}`,
		`{"count":9007199254740991}`, `{"region":null,"of":{}}`, `{}`,
	} {
		got = ""
		if answer := ask("tools/call", `"name":"ship","arguments":`+arguments+`,`); !strings.Contains(answer, "shipped") || got != arguments {
			t.Errorf("%s: the server got %q and answered %s", arguments, got, answer)
		}
	}
}

// A name that no header can have is left out: with it no call could be sent.
func TestNamesThatNoHeaderCanHave(t *testing.T) {
	got := paramsOf(json.RawMessage(`{"tools":[{"name":"ship","inputSchema":{"properties":{
		"a":{"x-mcp-header":"a b"},"b":{"x-mcp-header":"b:"},
		"c":{"x-mcp-header":""},"d":{"x-mcp-header":"Straße"},"e":{"x-mcp-header":"E-1"}}}}]}`))
	if len(got["ship"]) != 1 || got["ship"][0].header != "E-1" {
		t.Errorf("%v", got)
	}
}
