// Package openai provides models for agent.Loop over OpenAI's Chat Completions API,
// which many other servers offer too. The SDK reads OPENAI_BASE_URL and OPENAI_API_KEY.
//
//	loop := agent.Loop{Model: openai.New(openai.Options{Model: "gpt-5"})}
package openai

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/agent"
)

// Options configure a model. Model is required.
type Options struct {
	Model string // its name, as the server knows it
	// Client are additional options of the SDK's client.
	Client []option.RequestOption
	// Tune changes each request before it is sent; nil = no change.
	Tune func(*openai.ChatCompletionNewParams)
}

// New returns a model. It is safe for concurrent use.
func New(o Options) agent.Model { return &model{o, openai.NewClient(o.Client...)} }

type model struct {
	o      Options
	client openai.Client
}

func (m *model) Name() string { return m.o.Model }

// Provider implements agent.Provided.
func (m *model) Provider() string { return "openai" }

// Stream implements agent.Model.
func (m *model) Stream(ctx context.Context, r agent.Request, emit func(agent.Part) error) (agent.End, error) {
	params, err := request(m.o.Model, r)
	if err != nil {
		return agent.End{}, err
	}
	if m.o.Tune != nil {
		m.o.Tune(&params)
	}
	stream := m.client.Chat.Completions.NewStreaming(ctx, params)
	defer stream.Close()
	h := turnState{emit: emit}
	for stream.Next() {
		if err := h.handle(stream.Current()); err != nil {
			return h.end, err
		}
	}
	if err := stream.Err(); err != nil {
		return h.end, failed(ctx, err)
	}
	if h.end.Finish == "" {
		return h.end, agent.ErrInterrupted
	}
	return h.end, h.calls()
}

// turnState is the state of one streamed turn.
type turnState struct {
	emit  func(agent.Part) error
	end   agent.End
	tools []pawl.Chunk // calls, whose input comes in pieces
}

func (h *turnState) handle(c openai.ChatCompletionChunk) error {
	if c.Usage.TotalTokens > 0 {
		h.end.Usage = agent.Usage{Input: c.Usage.PromptTokens, Output: c.Usage.CompletionTokens}
	}
	if len(c.Choices) == 0 {
		return nil
	}
	choice := c.Choices[0]
	if choice.FinishReason != "" {
		h.end.Finish = choice.FinishReason
	}
	d := choice.Delta
	for _, name := range []string{"reasoning_content", "reasoning"} { // of servers that tell it
		var thought string
		if f, ok := d.JSON.ExtraFields[name]; ok && json.Unmarshal([]byte(f.Raw()), &thought) == nil && thought != "" {
			if err := h.emit(agent.Part{Chunk: pawl.Chunk{Type: pawl.ChunkReasoning, Text: pawl.Words(thought)}}); err != nil {
				return err
			}
			break
		}
	}
	if text := d.Content + d.Refusal; text != "" {
		if err := h.emit(agent.Part{Chunk: pawl.Chunk{Type: pawl.ChunkText, Text: pawl.Words(text)}}); err != nil {
			return err
		}
	}
	for _, t := range d.ToolCalls {
		if t.Index < 0 || t.Index > int64(len(h.tools)) {
			return pawl.Permanent(errors.New("openai: a tool call has no place"))
		}
		if t.Index == int64(len(h.tools)) {
			h.tools = append(h.tools, pawl.Chunk{Type: pawl.ChunkToolCall})
		}
		call := &h.tools[t.Index]
		call.ToolCallID += t.ID
		call.ToolName += t.Function.Name
		call.Input = append(call.Input, t.Function.Arguments...)
	}
	return nil
}

// calls emits the tool calls, which are complete at the end of the turn.
func (h *turnState) calls() error {
	for _, c := range h.tools {
		if err := h.emit(agent.Part{Chunk: c}); err != nil {
			return err
		}
	}
	return nil
}

// request builds the SDK's request.
func request(model string, r agent.Request) (openai.ChatCompletionNewParams, error) {
	p := openai.ChatCompletionNewParams{Model: model, StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}}
	if r.System != "" {
		p.Messages = append(p.Messages, openai.SystemMessage(r.System))
	}
	for _, m := range r.Messages {
		p.Messages = append(p.Messages, message(m)...)
	}
	for _, t := range r.Tools {
		f := shared.FunctionDefinitionParam{Name: t.Name, Description: openai.String(t.Description)}
		if len(t.Schema) > 0 {
			if err := json.Unmarshal(t.Schema, &f.Parameters); err != nil {
				return p, pawl.Permanent(err)
			}
		}
		p.Tools = append(p.Tools, openai.ChatCompletionFunctionTool(f))
	}
	return p, nil
}

func message(m agent.Message) (out []openai.ChatCompletionMessageParamUnion) {
	var words strings.Builder
	var parts []openai.ChatCompletionContentPartUnionParam
	var calls []openai.ChatCompletionMessageToolCallUnionParam
	for _, p := range m.Parts {
		switch p.Type {
		case pawl.ChunkText:
			words.WriteString(string(p.Text))
			parts = append(parts, openai.TextContentPart(string(p.Text)))
		case pawl.ChunkFile:
			parts = append(parts, openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: p.URL}))
		case pawl.ChunkToolCall:
			calls = append(calls, openai.ChatCompletionMessageToolCallUnionParam{OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID: p.ToolCallID, Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: p.ToolName, Arguments: string(p.Input)}}})
		case pawl.ChunkToolResult:
			out = append(out, openai.ToolMessage(agent.OutputText(p.Output), p.ToolCallID))
		}
	}
	switch m.Role {
	case pawl.RoleUser:
		if len(parts) == 1 && words.Len() > 0 {
			return []openai.ChatCompletionMessageParamUnion{openai.UserMessage(words.String())}
		}
		return []openai.ChatCompletionMessageParamUnion{openai.UserMessage(parts)}
	case pawl.RoleSystem:
		return []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(words.String())}
	case pawl.RoleAssistant:
		said := openai.ChatCompletionAssistantMessageParam{ToolCalls: calls}
		if words.Len() > 0 {
			said.Content.OfString = openai.String(words.String())
		}
		return []openai.ChatCompletionMessageParamUnion{{OfAssistant: &said}}
	}
	return out
}

// failed classifies an error as temporary or permanent.
func failed(ctx context.Context, err error) error {
	var e *openai.Error
	if errors.As(err, &e) {
		return agent.ClassifyError(ctx, err, e.Response)
	}
	return agent.ClassifyError(ctx, err, nil)
}
