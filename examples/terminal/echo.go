package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/agent"
)

// echoModel is used without a model: it repeats its input, counts the words with a tool, and writes
// their number.
type echoModel struct{}

func (echoModel) Name() string { return "echo" }

func (echoModel) Stream(ctx context.Context, r agent.Request, say func(agent.Part) error) (agent.End, error) {
	var question string
	var counted json.RawMessage // since the question
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			switch {
			case m.Role == pawl.RoleUser:
				question, counted = string(p.Text), nil
			case p.Type == pawl.ChunkToolResult:
				counted = p.Output
			}
		}
	}
	words := "You said: “" + question + "”. Let me count the words of it, one after another, from the first to the last."
	if counted != nil {
		words = fmt.Sprintf(
			"There are %s of them. Of course I could be wrong, since I can only count as far as I have toes; ask me something else.",
			counted,
		)
	}
	for _, word := range strings.SplitAfter(words, " ") {
		if err := say(agent.Part{Chunk: pawl.Chunk{Type: pawl.ChunkText, Text: pawl.Words(word)}}); err != nil {
			return agent.End{}, err
		}
		select {
		case <-time.After(40 * time.Millisecond):
		case <-ctx.Done():
			return agent.End{}, ctx.Err()
		}
	}
	if counted != nil {
		return agent.End{Finish: "stop"}, nil
	}
	input, err := json.Marshal(map[string]string{"text": question})
	if err != nil {
		return agent.End{}, err
	}
	return agent.End{
			Finish: "tool_calls",
		}, say(
			agent.Part{Chunk: pawl.Chunk{Type: pawl.ChunkToolCall, ToolCallID: "count", ToolName: "count", Input: input}},
		)
}
