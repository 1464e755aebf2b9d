// Package agent runs the loop of a model and its tools and streams its output as a
// message. The model answers, its tools run, and the model gets their results, until a
// turn calls no tool. Readers follow the message while it is written, and it can be
// stopped. When the process dies, the next attempt continues from the saved steps: it
// repeats neither a complete turn of the model nor a tool call whose result is saved.
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
	// Name is the model's name in messages: at most 255 characters.
	Name() string
	// Stream requests one turn of the model and passes its parts to emit as they arrive:
	// text and reasoning in pieces, tool calls whole. It returns when ctx ends, or with
	// the error of emit. An error that a retry cannot help is marked with
	// pawl.Permanent, one that should be retried later with pawl.RetryAfter.
	Stream(ctx context.Context, r Request, emit func(Part) error) (End, error)
}

// Request is the input of one turn of the model.
type Request struct {
	System   string // the system prompt; "" = none
	Messages []Message
	Tools    []Tool
}

// Message is one message of a conversation. The results of tools are a message of role
// tool after the message that called them.
type Message struct {
	Role  string `json:"role"` // user, assistant, system, tool
	Parts []Part `json:"parts"`
}

// Part is a piece of a message: a chunk, and the data that the model's provider needs
// back when the conversation continues, for example a signature. Readers of the message
// do not see Provider.
type Part struct {
	pawl.Chunk
	Provider json.RawMessage `json:"provider,omitempty"`
}

// End says how a turn ended.
type End struct {
	Finish string `json:"finish,omitempty"` // the provider's reason: stop, length …
	Usage  Usage  `json:"usage,omitzero"`
}

// Usage is the number of tokens of a turn or message.
type Usage struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
}

// Text returns a message with one text part.
func Text(role, text string) Message {
	return Message{role, []Part{{Chunk: pawl.Chunk{Type: pawl.ChunkText, Text: pawl.Words(text)}}}}
}

// Conversation converts the messages of a thread into a model's input. Abandoned parts
// are left out, and results of tools become messages of their own. Reasoning is left out
// too: the Provider data that it needs is not kept after the message's own task.
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

// chunkType is the chunk type that a message part of this type is made of.
func chunkType(part string) string {
	switch part {
	case "tool-call":
		return pawl.ChunkToolCall
	case "tool-result":
		return pawl.ChunkToolResult
	}
	return part
}
