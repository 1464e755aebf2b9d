//lint:file-ignore SA1019 the suite still asks for what revision 2026-07-28 has deprecated

package main

import (
	"context"
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

type obj = map[string]any

// form is a schema for elicitation: an object of some properties.
func form(properties obj, required ...string) obj {
	f := obj{"type": "object", "properties": properties}
	if len(required) > 0 {
		f["required"] = required
	}
	return f
}

func is(kind string) obj { return obj{"type": kind} }

// asks are the tools that ask the client back while the call is under way, as
// clients before 2026-07-28 are asked.
func asks(s *sdk.Server) {
	asksFor := func(name, argument string) *sdk.Tool {
		return &sdk.Tool{Name: name, Description: "asks the client back", InputSchema: form(obj{argument: is("string")}, argument)}
	}
	addTool(s, asksFor("test_sampling", "prompt"), func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var in struct{ Prompt string }
		if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
			return nil, err
		}
		res, err := req.Session.CreateMessage(ctx, &sdk.CreateMessageParams{MaxTokens: 100,
			Messages: []*sdk.SamplingMessage{{Role: "user", Content: text("%s", in.Prompt)}}})
		if err != nil {
			return nil, err
		}
		said, _ := res.Content.(*sdk.TextContent)
		if said == nil {
			said = &sdk.TextContent{}
		}
		return answer(text("LLM response: %s", said.Text)), nil
	})
	addTool(s, asksFor("test_elicitation", "message"), func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var in struct{ Message string }
		if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
			return nil, err
		}
		return elicit(ctx, req, in.Message, form(obj{"username": is("string")}, "username"))
	})
	add(s, "test_elicitation_sep1034_defaults", "asks with defaults",
		func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return elicit(ctx, req, "Are these right?", form(obj{
				"name":     obj{"type": "string", "default": "John Doe"},
				"age":      obj{"type": "integer", "default": 30},
				"score":    obj{"type": "number", "default": 95.5},
				"status":   obj{"type": "string", "enum": []string{"active", "inactive", "pending"}, "default": "active"},
				"verified": obj{"type": "boolean", "default": true},
			}))
		})
	add(s, "test_elicitation_sep1330_enums", "asks with choices",
		func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			titled := []obj{{"const": "value1", "title": "First Option"}, {"const": "value2", "title": "Second Option"},
				{"const": "value3", "title": "Third Option"}}
			return elicit(ctx, req, "Which?", form(obj{
				"untitledSingle": obj{"type": "string", "enum": []string{"option1", "option2", "option3"}},
				"titledSingle":   obj{"type": "string", "oneOf": titled},
				"legacyEnum": obj{"type": "string", "enum": []string{"opt1", "opt2", "opt3"},
					"enumNames": []string{"Option One", "Option Two", "Option Three"}},
				"untitledMulti": obj{"type": "array", "minItems": 1, "maxItems": 3,
					"items": obj{"type": "string", "enum": []string{"option1", "option2", "option3"}}},
				"titledMulti": obj{"type": "array", "minItems": 1, "maxItems": 3, "items": obj{"type": "string", "anyOf": titled}},
			}))
		})
}

func elicit(ctx context.Context, req *sdk.CallToolRequest, message string, schema obj) (*sdk.CallToolResult, error) {
	res, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: message, RequestedSchema: schema})
	if err != nil {
		return nil, err
	}
	return answer(text("Elicitation result: action=%s, content=%v", res.Action, res.Content)), nil
}
