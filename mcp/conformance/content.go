//lint:file-ignore SA1019 the suite still asks for what revision 2026-07-28 has deprecated

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

type handle func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error)

// add adds a tool without arguments of its own.
func add(s *sdk.Server, name, means string, h handle) {
	addTool(s, &sdk.Tool{Name: name, Description: means}, h)
}

func addTool(s *sdk.Server, t *sdk.Tool, h handle) {
	sdk.AddTool(s, t, func(ctx context.Context, req *sdk.CallToolRequest, _ any) (*sdk.CallToolResult, any, error) {
		res, err := h(ctx, req)
		return res, nil, err
	})
}

func answer(c ...sdk.Content) *sdk.CallToolResult { return &sdk.CallToolResult{Content: c} }

func text(format string, args ...any) sdk.Content {
	return &sdk.TextContent{Text: fmt.Sprintf(format, args...)}
}

// always answers every call alike.
func always(c ...sdk.Content) handle {
	return func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return answer(c...), nil }
}

// dot is the smallest PNG there is, silence the shortest WAV.
var (
	dot = sdk.ImageContent{MIMEType: "image/png", Data: unbase64(
		"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==")}
	silence = sdk.AudioContent{MIMEType: "audio/wav", Data: unbase64("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")}
)

func unbase64(s string) (b []byte) {
	if err := json.Unmarshal([]byte(`"`+s+`"`), &b); err != nil {
		panic(err)
	}
	return b
}

func embedded(uri string) sdk.Content {
	return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: uri, MIMEType: "text/plain", Text: "what is embedded"}}
}

// logging is what the suite wants to be declared; the rest follows from what is
// offered.
func logging() *sdk.ServerCapabilities {
	return &sdk.ServerCapabilities{Logging: &sdk.LoggingCapabilities{}}
}

// contents are the tools that answer with each kind of content.
func contents(s *sdk.Server) {
	add(s, "test_simple_text", "answers with a text", always(text("This is a simple text response for testing.")))
	add(s, "test_image_content", "answers with an image", always(&dot))
	add(s, "test_audio_content", "answers with a sound", always(&silence))
	add(s, "test_embedded_resource", "answers with a resource", always(embedded("test://embedded-resource")))
	add(s, "test_multiple_content_types", "answers with three kinds of content",
		always(text("text beside an image and a resource"), &dot, embedded("test://embedded-in-multiple")))
	add(s, "test_error_handling", "fails", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return nil, errors.New("this tool intentionally returns an error for testing")
	})
	add(s, "test_tool_with_logging", "logs while it works", func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for _, what := range []string{"begun", "under way", "done"} {
			if err := req.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: what}); err != nil {
				return nil, err
			}
			time.Sleep(pause)
		}
		return answer(text("logged")), nil
	})
	add(s, "test_tool_with_progress", "reports progress while it works",
		func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			token := req.Params.GetProgressToken()
			for _, done := range []float64{0, 50, 100} {
				if err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: done,
					Total: 100}); err != nil {
					return nil, err
				}
				time.Sleep(pause)
			}
			return answer(text("%v", token)), nil
		})
	add(s, "test_streaming_elicitation", "answers plainly", always(text("nothing but this answer")))
	add(s, "test_logging_tool", "logs, for who asked to hear it",
		func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return answer(text("logged")), req.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: "heard by who asked"})
		})
	add(s, "test_missing_capability", "wants a client that can sample",
		func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if caps := req.ClientCapabilities(); caps != nil && caps.Sampling != nil {
				return answer(text("the client can sample")), nil
			}
			data, err := json.Marshal(
				sdk.MissingRequiredClientCapabilityData{RequiredCapabilities: &sdk.ClientCapabilities{Sampling: &sdk.SamplingCapabilities{}}})
			if err != nil {
				return nil, err
			}
			return nil, &jsonrpc.Error{Code: sdk.CodeMissingRequiredClientCapabilities, Message: "this tool wants a client that can sample",
				Data: data}
		})
	changes(s)
	schemas(s)
}

// pause lies between the notifications of a call.
const pause = 50 * time.Millisecond

// changes are the tools that change the lists of tools and prompts.
func changes(s *sdk.Server) {
	add(s, "test_trigger_tool_change", "changes the list of tools", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		add(s, "test_passing_tool", "comes and goes", always(text("here")))
		return answer(text("changed")), nil
	})
	add(s, "test_trigger_prompt_change", "changes the list of prompts",
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			s.AddPrompt(&sdk.Prompt{Name: "test_passing_prompt", Description: "comes and goes"},
				func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
					return said(text("here")), nil
				})
			return answer(text("changed")), nil
		})
}

// schemas are the tools whose schemas must reach the client as they are.
func schemas(s *sdk.Server) {
	addTool(s, &sdk.Tool{Name: "json_schema_2020_12_tool", Description: "has a schema with all there is in the draft",
		InputSchema: json.RawMessage(`{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
		"$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": ` +
			`"string"}}}},
		"properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}, "contactMethod": {"type": "string", "enum": ` +
			`["phone", "email"]},
			"phone": {"type": "string"}, "email": {"type": "string"}},
		"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
		"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
		"then": {"required": ["phone"]}, "else": {"required": ["email"]}, "additionalProperties": false}`)}, always(text("it fits")))
	addTool(s, &sdk.Tool{Name: "test_x_mcp_header", Description: "has an argument that a header mirrors", InputSchema: json.RawMessage(`{
		"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "level": {"type": ` +
		`"integer"}}}`)}, always(text("both agree")))
}
