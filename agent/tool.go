package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/schema"
)

// Tool is something that a model may call.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema (2020-12) of its input; nil = any
	// SideEffects marks what must not happen twice. Such a call is recorded before
	// it is made, and when no result of it was saved, because the process died in
	// between, it is not made again: it is asked what became of it (Loop.Ask).
	SideEffects bool
	// Run does it. Its result, any value as JSON (≤ 1 MiB), is saved and told to the
	// model, and so is an error; pawl.Permanent and pawl.RetryAfter fail the item's
	// attempt instead. ctx ends when the message is stopped.
	Run func(ctx context.Context, input json.RawMessage) (any, error)
}

// Func is a tool that takes and gives typed values.
func Func[In, Out any](name, description, schema string, fn func(context.Context, In) (Out, error)) Tool {
	return Tool{
		Name:        name,
		Description: description,
		Schema:      json.RawMessage(schema),
		Run: func(ctx context.Context, input json.RawMessage) (any, error) {
			var in In
			if err := json.Unmarshal(input, &in); err != nil {
				return nil, err
			}
			return fn(ctx, in)
		},
	}
}

// Call is one call of a tool.
type Call struct {
	MessageID string          `json:"message_id"`
	Step      int             `json:"step"`   // of the message, from 1
	Number    int             `json:"number"` // within the step, from 1
	ID        string          `json:"tool_call_id"`
	Name      string          `json:"tool_name"`
	Input     json.RawMessage `json:"input"`
}

// Outcome is what became of a call.
type Outcome struct {
	Output  json.RawMessage `json:"output,omitempty"`
	IsError bool            `json:"is_error,omitempty"`
	Again   bool            `json:"again,omitempty"` // an answer to Ask: it did not happen, make it
}

// kit are tools by name, with their schemas compiled.
type kit map[string]fitted

type fitted struct {
	Tool
	schema *schema.Schema
}

func newKit(tools []Tool) (kit, error) {
	k := kit{}
	for i, t := range tools {
		s, bad := schema.Compile(t.Schema)
		_, twice := k[t.Name]
		switch {
		case bad != nil:
			return nil, pawl.Invalid(fmt.Sprintf("/tools/%d/schema%s", i, bad[0].Pointer), "%s", bad[0].Message)
		case t.Name == "" || t.Run == nil || twice:
			return nil, pawl.Invalid(fmt.Sprintf("/tools/%d", i), "tool %q needs a name of its own and a Run", t.Name)
		}
		k[t.Name] = fitted{t, s}
	}
	return k, nil
}

// refused is the answer to a call that no tool can take.
func (k kit) refused(c Call) (Outcome, bool) {
	t, known := k[c.Name]
	if !known {
		return failed(fmt.Sprintf("there is no tool %q", c.Name)), true
	}
	if bad := t.schema.Check(c.Input); bad != nil {
		return Outcome{Output: raw(map[string]any{"error": "the input does not fit the tool's schema", "fields": bad}), IsError: true}, true
	}
	return Outcome{}, false
}

// run makes a call. Its error says that there is no outcome to save.
func (k kit) run(ctx context.Context, c Call) (Outcome, error) {
	out, err := k[c.Name].Run(ctx, c.Input)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return Outcome{}, errors.Join(context.Cause(ctx), err)
	case steers(err):
		return Outcome{}, err
	default:
		return failed(err.Error()), nil
	}
	b, err := json.Marshal(out)
	switch {
	case err != nil:
		return failed(fmt.Sprintf("the result cannot be written as JSON: %v", err)), nil
	case len(b) > pawl.MaxPayloadBytes-outcomeRoom:
		return failed(fmt.Sprintf("the result has %d bytes, which is too much", len(b))), nil
	}
	return Outcome{Output: b}, nil
}

// outcomeRoom is what a saved outcome has besides its output.
const outcomeRoom = 100

// steers says that an error is about the item, not about the call.
func steers(err error) bool {
	retryable, after := pawl.RetryOf(err)
	return !retryable || after != nil || errors.Is(err, pawl.ErrSuspended) || errors.Is(err, pawl.ErrLeaseLost)
}

func failed(message string) Outcome {
	return Outcome{Output: raw(map[string]string{"error": message}), IsError: true}
}

// raw writes plain values.
func raw(v any) json.RawMessage {
	b, _ := json.Marshal(v)
	return b
}
