package main

import (
	"context"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func said(c ...sdk.Content) *sdk.GetPromptResult {
	res := &sdk.GetPromptResult{}
	for _, one := range c {
		res.Messages = append(res.Messages, &sdk.PromptMessage{Role: "user", Content: one})
	}
	return res
}

// offers are the prompts and resources.
func offers(s *sdk.Server) {
	prompt := func(name string, make func(args map[string]string) *sdk.GetPromptResult, args ...string) {
		p := &sdk.Prompt{Name: name, Title: name, Description: "a prompt of the suite"}
		for _, a := range args {
			p.Arguments = append(p.Arguments, &sdk.PromptArgument{Name: a, Required: true})
		}
		s.AddPrompt(p, func(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return make(req.Params.Arguments), nil
		})
	}
	prompt("test_simple_prompt", func(map[string]string) *sdk.GetPromptResult {
		return said(text("This is a simple prompt for testing."))
	})
	prompt("test_prompt_with_arguments", func(a map[string]string) *sdk.GetPromptResult {
		return said(text("arg1='%s', arg2='%s'", a["arg1"], a["arg2"]))
	}, "arg1", "arg2")
	prompt("test_prompt_with_embedded_resource", func(a map[string]string) *sdk.GetPromptResult {
		return said(embedded(a["resourceUri"]), text("Read what is above."))
	}, "resourceUri")
	prompt("test_prompt_with_image", func(map[string]string) *sdk.GetPromptResult { return said(&dot, text("Look at what is above.")) })
	s.AddPrompt(&sdk.Prompt{Name: "test_input_required_result_prompt", Description: "asks for a context"},
		func(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			if v := accepted(req.Params.InputResponses, "user_context", "context"); v != nil {
				return said(text("Context: %v", v)), nil
			}
			return &sdk.GetPromptResult{InputRequests: sdk.InputRequestMap{"user_context": ask("In which context?", "context", "string")}}, nil
		})

	resource := func(c sdk.ResourceContents) {
		s.AddResource(&sdk.Resource{Name: strings.TrimPrefix(c.URI, "test://"), URI: c.URI, MIMEType: c.MIMEType},
			func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
				return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{&c}}, nil
			})
	}
	resource(sdk.ResourceContents{URI: "test://static-text", MIMEType: "text/plain", Text: "This is the content of the static text resource."})
	resource(sdk.ResourceContents{URI: "test://static-binary", MIMEType: "image/png", Blob: dot.Data})
	resource(sdk.ResourceContents{URI: "test://watched-resource", MIMEType: "text/plain", Text: "what is watched"})
	s.AddResourceTemplate(&sdk.ResourceTemplate{Name: "template", URITemplate: "test://template/{id}/data", MIMEType: "application/json"},
		func(_ context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			id := strings.TrimSuffix(strings.TrimPrefix(req.Params.URI, "test://template/"), "/data")
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: req.Params.URI, MIMEType: "application/json",
				Text: fmt.Sprintf(`{"id": %q, "templateTest": true, "data": "Data for ID: %s"}`, id, id)}}}, nil
		})
}
