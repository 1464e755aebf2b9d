package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/agent"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/worker"
)

// lookup is a model that asks a tool and says what it has found. The adapters of real models are in contrib.
type lookup struct{}

func (lookup) Name() string { return "lookup" }

func (lookup) Stream(_ context.Context, r agent.Request, emit func(agent.Part) error) (agent.End, error) {
	last := r.Messages[len(r.Messages)-1]
	if last.Role == pawl.RoleUser {
		return agent.End{Finish: "tool_calls"}, emit(agent.Part{Chunk: pawl.Chunk{
			Type: pawl.ChunkToolCall, ToolCallID: "c1", ToolName: "look", Input: json.RawMessage(`"pawl"`),
		}})
	}
	found := agent.OutputText(last.Parts[0].Output)
	return agent.End{Finish: "stop"}, emit(agent.Part{Chunk: pawl.Chunk{Type: pawl.ChunkText, Text: pawl.Words("A pawl is " + found)}})
}

// A worker runs a model and its tools until a turn calls no tool. What is said and what tools return is kept.
func ExampleLoop() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "pawl")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	eng, err := engine.Open(ctx, "sqlite:"+filepath.Join(dir, "work.db"))
	if err != nil {
		panic(err)
	}
	defer eng.Close()
	if _, err := pawl.Create(ctx, eng, pawl.NewTask{Type: "chat", Payload: json.RawMessage(`"What is a pawl?"`)}); err != nil {
		panic(err)
	}
	loop := agent.Loop{Model: lookup{}, Tools: []agent.Tool{
		agent.Func("look", "looks a word up", `{"type":"string"}`, func(context.Context, string) (string, error) {
			return "a part that lets a wheel turn one way.", nil
		}),
	}}
	err = worker.RunWith(ctx, eng, worker.Options{Drain: true, Logger: slog.New(slog.DiscardHandler)},
		worker.Handle("chat", func(ctx context.Context, words string) (agent.Result, error) {
			r, err := loop.Run(ctx, []agent.Message{agent.Text(pawl.RoleUser, words)})
			fmt.Println(r.Text, r.Steps, err)
			return r, err
		}))
	if err != nil {
		panic(err)
	}
	// Output: A pawl is a part that lets a wheel turn one way. 2 <nil>
}

// A tool's input and result are typed values.
func ExampleFunc() {
	double := agent.Func("double", "doubles a number", `{"type":"integer"}`, func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	out, err := double.Run(context.Background(), json.RawMessage(`21`))
	fmt.Println(out, err)
	// Output: 42 <nil>
}

// The messages of a thread are the input of the next turn.
func ExampleConversation() {
	said, err := agent.Conversation([]pawl.Message{
		{Role: pawl.RoleUser, Content: json.RawMessage(`[{"type":"text","text":"Hello"}]`)},
		{Role: pawl.RoleAssistant, Content: json.RawMessage(`[{"type":"text","text":"Good morning."}]`)},
	})
	for _, m := range said {
		fmt.Println(m.Role, m.Parts[0].Text)
	}
	fmt.Println(err)
	// Output:
	// user Hello
	// assistant Good morning.
	// <nil>
}
