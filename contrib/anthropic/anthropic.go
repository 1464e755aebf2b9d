// Package anthropic provides models for agent.Loop over Anthropic's Messages API. The
// SDK reads ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY.
//
//	loop := agent.Loop{Model: anthropic.New(anthropic.Options{Model: "claude-sonnet-4-5"})}
package anthropic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/agent"
)

// Options configure a model. Model is required.
type Options struct {
	Model     string // its name, as the server knows it
	MaxTokens int64  // of one turn; 0 = 8192
	// Client are additional options of the SDK's client.
	Client []option.RequestOption
	// Tune changes each request before it is sent; nil = no change.
	Tune func(*anthropic.MessageNewParams)
}

// New returns a model. It is safe for concurrent use.
func New(o Options) agent.Model { return &model{o, anthropic.NewClient(o.Client...)} }

type model struct {
	o      Options
	client anthropic.Client
}

func (m *model) Name() string { return m.o.Model }

// Provider implements agent.Provided.
func (m *model) Provider() string { return "anthropic" }

const mostTokens = 8192

// reasoningData is what must be sent back with a piece of reasoning.
type reasoningData struct {
	Signature string `json:"signature,omitempty"`
	Redacted  string `json:"redacted,omitempty"`
}

// Stream implements agent.Model.
func (m *model) Stream(ctx context.Context, r agent.Request, emit func(agent.Part) error) (agent.End, error) {
	params, err := request(r)
	if err != nil {
		return agent.End{}, err
	}
	params.Model, params.MaxTokens = m.o.Model, cmp.Or(m.o.MaxTokens, mostTokens)
	if m.o.Tune != nil {
		m.o.Tune(&params)
	}
	stream := m.client.Messages.NewStreaming(ctx, params)
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
	if !h.over {
		return h.end, agent.ErrInterrupted
	}
	return h.end, nil
}

// turnState is the state of one streamed turn.
type turnState struct {
	emit func(agent.Part) error
	end  agent.End
	over bool
	call *pawl.Chunk // of a tool, whose input comes in pieces
}

func (h *turnState) handle(e anthropic.MessageStreamEventUnion) error {
	switch e := e.AsAny().(type) {
	case anthropic.MessageStartEvent:
		u := e.Message.Usage
		h.end.Usage.Input = u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens
	case anthropic.ContentBlockStartEvent:
		switch b := e.ContentBlock; b.Type {
		case "tool_use":
			h.call = &pawl.Chunk{Type: pawl.ChunkToolCall, ToolCallID: b.ID, ToolName: b.Name}
		case "redacted_thinking":
			return h.part(pawl.ChunkReasoning, "", &reasoningData{Redacted: b.Data})
		}
	case anthropic.ContentBlockDeltaEvent:
		switch d := e.Delta; d.Type {
		case "text_delta":
			return h.part(pawl.ChunkText, d.Text, nil)
		case "thinking_delta":
			return h.part(pawl.ChunkReasoning, d.Thinking, nil)
		case "signature_delta":
			return h.part(pawl.ChunkReasoning, "", &reasoningData{Signature: d.Signature})
		case "input_json_delta":
			if h.call != nil {
				h.call.Input = append(h.call.Input, d.PartialJSON...)
			}
		}
	case anthropic.ContentBlockStopEvent:
		if c := h.call; c != nil {
			h.call = nil
			return h.emit(agent.Part{Chunk: *c})
		}
	case anthropic.MessageDeltaEvent:
		h.end.Finish, h.end.Usage.Output = string(e.Delta.StopReason), e.Usage.OutputTokens
	case anthropic.MessageStopEvent:
		h.over = true
	}
	return nil
}

func (h *turnState) part(kind, text string, k *reasoningData) error {
	p := agent.Part{Chunk: pawl.Chunk{Type: kind, Text: pawl.Words(text)}}
	if k != nil {
		var err error
		if p.Provider, err = json.Marshal(k); err != nil {
			return err
		}
	}
	return h.emit(p)
}

// request builds the SDK's request.
func request(r agent.Request) (p anthropic.MessageNewParams, err error) {
	if r.System != "" {
		p.System = []anthropic.TextBlockParam{{Text: r.System}}
	}
	for _, m := range r.Messages {
		blocks, err := blocks(m)
		if err != nil {
			return p, pawl.Permanent(err)
		}
		switch m.Role {
		case pawl.RoleSystem:
			for _, b := range blocks {
				p.System = append(p.System, *b.OfText)
			}
		case pawl.RoleAssistant:
			p.Messages = append(p.Messages, anthropic.NewAssistantMessage(blocks...))
		default:
			p.Messages = append(p.Messages, anthropic.NewUserMessage(blocks...))
		}
	}
	for _, t := range r.Tools {
		tool := anthropic.ToolParam{Name: t.Name, Description: anthropic.String(t.Description)}
		if len(t.Schema) > 0 {
			if err := json.Unmarshal(t.Schema, &tool.InputSchema); err != nil {
				return p, pawl.Permanent(err)
			}
		}
		p.Tools = append(p.Tools, anthropic.ToolUnionParam{OfTool: &tool})
	}
	return p, nil
}

func blocks(m agent.Message) (out []anthropic.ContentBlockParamUnion, err error) {
	for _, p := range m.Parts {
		switch p.Type {
		case pawl.ChunkText:
			out = append(out, anthropic.NewTextBlock(string(p.Text)))
		case pawl.ChunkFile:
			out = append(out, anthropic.NewImageBlock(anthropic.URLImageSourceParam{URL: p.URL}))
		case pawl.ChunkToolCall:
			out = append(out, anthropic.NewToolUseBlock(p.ToolCallID, p.Input, p.ToolName))
		case pawl.ChunkToolResult:
			out = append(out, anthropic.NewToolResultBlock(p.ToolCallID, agent.OutputText(p.Output), p.IsError))
		case pawl.ChunkReasoning:
			var k reasoningData
			if len(p.Provider) == 0 {
				continue // without its signature it is not taken back
			}
			if err := json.Unmarshal(p.Provider, &k); err != nil {
				return nil, err
			}
			if k.Redacted != "" {
				out = append(out, anthropic.NewRedactedThinkingBlock(k.Redacted))
			} else {
				out = append(out, anthropic.NewThinkingBlock(k.Signature, string(p.Text)))
			}
		}
	}
	return out, nil
}

// failed classifies an error as temporary or permanent.
func failed(ctx context.Context, err error) error {
	var e *anthropic.Error
	if errors.As(err, &e) {
		return agent.ClassifyError(ctx, err, e.Response)
	}
	return agent.ClassifyError(ctx, err, nil)
}
