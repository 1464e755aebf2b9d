// Package agent runs the loop of a model and its tools and streams it as a message, in
// steps: the model answers, its tools run, the model gets their results, until it calls
// none. Readers follow the message while it is written, and it can be stopped. When the
// process dies, another continues from the saved steps: it does not repeat a complete
// turn of the model, or a tool whose result is saved.
//
//	loop := agent.Loop{Model: m, Tools: []agent.Tool{search, send}}
//	err := worker.Run(ctx, eng, worker.Handle("chat", func(ctx context.Context, in Question) (agent.Result, error) {
//		return loop.Run(ctx, []agent.Message{agent.Text(pawl.RoleUser, in.Words)})
//	}))
package agent

import (
	"context"
	"encoding/json"

	"github.com/pawl-work/pawl"
)

// Model is a language model. Its adapters are in contrib.
type Model interface {
	// Name is what messages call it, ≤ 255 characters.
	Name() string
	// Stream asks for one turn and hands over its parts as they come: text and
	// reasoning in pieces, tool calls whole. It ends when ctx does, or with the
	// error of say. What cannot succeed later it marks with pawl.Permanent, what
	// should wait with pawl.RetryAfter.
	Stream(ctx context.Context, r Request, say func(Part) error) (End, error)
}

// Request is what a model is asked: to go on with a conversation.
type Request struct {
	System   string // what it is told before all; "" = nothing
	Messages []Message
	Tools    []Tool
}

// Message is one message of a conversation. What tools answered has role tool and
// follows the message that called them.
type Message struct {
	Role  string `json:"role"` // user, assistant, system, tool
	Parts []Part `json:"parts"`
}

// Part is a piece of a message: a chunk, and what the model's provider wants back
// with it when the conversation goes on, for example a signature. Readers of the
// message do not get that.
type Part struct {
	pawl.Chunk
	Provider json.RawMessage `json:"provider,omitempty"`
}

// End says how a turn ended.
type End struct {
	Finish string `json:"finish,omitempty"` // the provider's word for why: stop, length …
	Usage  Usage  `json:"usage,omitzero"`
}

// Usage counts tokens.
type Usage struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
}

// Text is a message of one text.
func Text(role, text string) Message {
	return Message{role, []Part{{Chunk: pawl.Chunk{Type: pawl.ChunkText, Text: pawl.Words(text)}}}}
}

// Conversation reads messages, as lists of a thread give them, for a model:
// without what was abandoned, with tools' answers as messages of their own. What
// a provider wanted back of them is not kept beyond their task, and reasoning
// is left out for that.
func Conversation(messages []pawl.Message) ([]Message, error) {
	var out []Message
	for _, m := range messages {
		parts, err := m.Parts()
		if err != nil {
			return nil, err
		}
		for _, p := range parts {
			c := pawl.Chunk{ToolCallID: p.ToolCallID, ToolName: p.ToolName, Input: p.Input, Output: p.Output, IsError: p.IsError,
				MediaType: p.MediaType, URL: p.URL, Data: p.Data}
			role := m.Role
			switch p.Type {
			case pawl.ChunkText:
				c.Text = pawl.Words(*p.Text)
			case "tool-result":
				role = pawl.RoleTool
			case "tool-call", pawl.ChunkFile, pawl.ChunkData:
			default:
				continue
			}
			if p.Status == pawl.PartAbandoned || p.Type == pawl.ChunkText && c.Text == "" {
				continue
			}
			c.Type = chunkType(p.Type)
			if n := len(out); n == 0 || out[n-1].Role != role || m.Role == pawl.RoleUser {
				out = append(out, Message{Role: role})
			}
			last := &out[len(out)-1]
			last.Parts = append(last.Parts, Part{Chunk: c})
		}
	}
	return out, nil
}

// chunkType is the type of the chunk that a part of a message was made of.
func chunkType(part string) string {
	switch part {
	case "tool-call":
		return pawl.ChunkToolCall
	case "tool-result":
		return pawl.ChunkToolResult
	}
	return part
}
