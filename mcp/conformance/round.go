//lint:file-ignore SA1019 the suite still asks for what revision 2026-07-28 has deprecated

package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// secret signs the state that goes through the client between two rounds: what
// comes back is the client's word.
var secret = []byte(rand.Text())

func seal(state string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(state))
	return state + "." + hex.EncodeToString(mac.Sum(nil))
}

func unseal(sealed string) (string, error) {
	state, _, _ := strings.Cut(sealed, ".")
	if !hmac.Equal([]byte(seal(state)), []byte(sealed)) {
		return "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the request state is not what this server gave"}
	}
	return state, nil
}

// The questions.
func ask(message, member, kind string) *sdk.ElicitParams {
	return &sdk.ElicitParams{Message: message, RequestedSchema: form(obj{member: is(kind)}, member)}
}

func sample(prompt string) *sdk.CreateMessageParams {
	return &sdk.CreateMessageParams{MaxTokens: 100, Messages: []*sdk.SamplingMessage{{Role: "user", Content: text("%s", prompt)}}}
}

// accepted is a member of an answer that was given, nil if it was not.
func accepted(in sdk.InputResponseMap, key, member string) any {
	if e, ok := in[key].(*sdk.ElicitResult); ok && e != nil && e.Action == "accept" {
		return e.Content[member]
	}
	return nil
}

func sampled(in sdk.InputResponseMap, key string) (string, bool) {
	m, ok := in[key].(*sdk.CreateMessageWithToolsResult)
	if !ok || m == nil {
		return "", false
	}
	for _, c := range m.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			return t.Text, true
		}
	}
	return "", true
}

func wants(in sdk.InputRequestMap, state string) *sdk.CallToolResult {
	if state != "" {
		state = seal(state)
	}
	return &sdk.CallToolResult{InputRequests: in, RequestState: state}
}

// answers are the tools that ask by their result, which the client answers by
// calling again.
func answers(s *sdk.Server) {
	add(s, "test_input_required_result_elicitation", "asks for a name",
		func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if name, _ := accepted(req.Params.InputResponses, "user_name", "name").(string); name != "" {
				return answer(text("Hello, %s!", name)), nil
			}
			return wants(sdk.InputRequestMap{"user_name": ask("What is your name?", "name", "string")}, ""), nil
		})
	add(s, "test_input_required_result_sampling", "asks for a completion",
		func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if said, ok := sampled(req.Params.InputResponses, "capital_question"); ok {
				return answer(text("Sampling response: %s", said)), nil
			}
			return wants(sdk.InputRequestMap{"capital_question": sample("What is the capital of France?")}, ""), nil
		})
	add(s, "test_input_required_result_list_roots", "asks for the roots",
		func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if r, ok := req.Params.InputResponses["client_roots"].(*sdk.ListRootsResult); ok && r != nil {
				return answer(text("the client has %d roots", len(r.Roots))), nil
			}
			return wants(sdk.InputRequestMap{"client_roots": &sdk.ListRootsParams{}}, ""), nil
		})
	add(s, "test_input_required_result_multiple_inputs", "asks for three things at once",
		func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			in := req.Params.InputResponses
			name, _ := accepted(in, "user_name", "name").(string)
			greeting, greeted := sampled(in, "greeting")
			roots, ok := in["client_roots"].(*sdk.ListRootsResult)
			if name != "" && greeted && ok && roots != nil {
				return answer(text("%s %s, %d roots", greeting, name, len(roots.Roots))), nil
			}
			return wants(sdk.InputRequestMap{"user_name": ask("What is your name?", "name", "string"), "greeting": sample("Greet somebody"),
				"client_roots": &sdk.ListRootsParams{}}, "three"), nil
		})
	add(s, "test_input_required_result_capabilities", "asks for what the client can answer",
		func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if len(req.Params.InputResponses) > 0 {
				return answer(text("answered")), nil
			}
			in := sdk.InputRequestMap{}
			if caps := req.ClientCapabilities(); caps != nil {
				if caps.Elicitation != nil {
					in["user_name"] = ask("What is your name?", "name", "string")
				}
				if caps.Sampling != nil {
					in["greeting"] = sample("Greet somebody")
				}
				if caps.RootsV2 != nil || caps.Roots.ListChanged {
					in["client_roots"] = &sdk.ListRootsParams{}
				}
			}
			if len(in) == 0 {
				return answer(text("this client can be asked nothing")), nil
			}
			return wants(in, ""), nil
		})
}

// rounds are those that keep a state between the rounds.
func rounds(s *sdk.Server) {
	confirmed := func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if req.Params.RequestState == "" {
			return wants(sdk.InputRequestMap{"confirm": ask("Is that so?", "ok", "boolean")}, "asked"), nil
		}
		if _, err := unseal(req.Params.RequestState); err != nil {
			return nil, err
		}
		if accepted(req.Params.InputResponses, "confirm", "ok") == nil {
			return wants(sdk.InputRequestMap{"confirm": ask("Is that so?", "ok", "boolean")}, "asked"), nil
		}
		return answer(text("state-ok: the state is the one given, and it is so")), nil
	}
	add(s, "test_input_required_result_request_state", "keeps a state between two rounds", confirmed)
	add(s, "test_input_required_result_tampered_state", "refuses a state that it did not give", confirmed)
	add(s, "test_input_required_result_multi_round", "asks twice",
		func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if req.Params.RequestState == "" {
				return wants(sdk.InputRequestMap{"step1": ask("What is your name?", "name", "string")}, "step1"), nil
			}
			state, err := unseal(req.Params.RequestState)
			if err != nil {
				return nil, err
			}
			if state == "step1" {
				name, _ := accepted(req.Params.InputResponses, "step1", "name").(string)
				return wants(sdk.InputRequestMap{"step2": ask("Which colour?", "color", "string")}, "step2 "+hex.EncodeToString([]byte(name))), nil
			}
			name, err := hex.DecodeString(strings.TrimPrefix(state, "step2 "))
			if err != nil {
				return nil, err
			}
			return answer(text("%s likes %v", name, accepted(req.Params.InputResponses, "step2", "color"))), nil
		})
}
