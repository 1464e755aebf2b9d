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
	Schema      json.RawMessage // JSON Schema (2020-12) of its input; nil = any input
	// SideEffects marks a tool that must not run twice for one call. Such a call is
	// recorded before it is made. If the process dies before its result is saved, the
	// call is not repeated: its outcome is asked for (Loop.Ask).
	SideEffects bool
	// Run executes the tool. Its result (any value, at most 1 MiB as JSON) is saved and
	// given to the model, and so is an error. An error marked with pawl.Permanent or
	// pawl.RetryAfter fails the item's attempt instead. ctx ends when the message is
	// stopped.
	Run func(ctx context.Context, input json.RawMessage) (any, error)
}

// Func returns a tool whose input and result are typed values. schema is the JSON Schema
// of its input; "" = any input.
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

// Outcome is the outcome of a call.
type Outcome struct {
	Output  json.RawMessage `json:"output,omitempty"`
	IsError bool            `json:"is_error,omitempty"`
	Again   bool            `json:"again,omitempty"` // only as an answer to Ask: the call did not happen, make it
}

// toolSet is the tools by name, with compiled schemas.
type toolSet map[string]compiledTool

type compiledTool struct {
	Tool
	schema *schema.Schema
}

func newToolSet(tools []Tool) (toolSet, error) {
	set := toolSet{}
	for i, t := range tools {
		s, bad := schema.Compile(t.Schema)
		_, twice := set[t.Name]
		switch {
		case bad != nil:
			return nil, pawl.Invalid(fmt.Sprintf("/tools/%d/schema%s", i, bad[0].Pointer), "%s", bad[0].Message)
		case t.Name == "" || t.Run == nil || twice:
			return nil, pawl.Invalid(fmt.Sprintf("/tools/%d", i), "tool %q needs a unique name and a Run function", t.Name)
		}
		set[t.Name] = compiledTool{t, s}
	}
	return set, nil
}

// refused returns the answer to a call of an unknown tool or with an unfit input.
func (k toolSet) refused(c Call) (Outcome, bool) {
	t, known := k[c.Name]
	if !known {
		return failed(fmt.Sprintf("there is no tool %q", c.Name)), true
	}
	if bad := t.schema.Check(c.Input); bad != nil {
		return Outcome{Output: raw(map[string]any{"error": "the input does not fit the tool's schema", "fields": bad}), IsError: true}, true
	}
	return Outcome{}, false
}

// run makes a call. It returns an error if there is no outcome to save.
func (k toolSet) run(ctx context.Context, c Call) (Outcome, error) {
	out, err := k[c.Name].Run(ctx, c.Input)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return Outcome{}, errors.Join(context.Cause(ctx), err)
	case concernsItem(err):
		return Outcome{}, err
	default:
		return failed(err.Error()), nil
	}
	b, err := json.Marshal(out)
	switch {
	case err != nil:
		return failed(fmt.Sprintf("the result cannot be written as JSON: %v", err)), nil
	case len(b) > pawl.MaxPayloadBytes-outcomeOverhead:
		return failed(fmt.Sprintf("the result has %d bytes, which is too large", len(b))), nil
	}
	return Outcome{Output: b}, nil
}

// outcomeOverhead is the size of a saved outcome without its output, in bytes.
const outcomeOverhead = 100

// concernsItem reports whether an error concerns the item and not only the call.
func concernsItem(err error) bool {
	retryable, after := pawl.RetryOf(err)
	return !retryable || after != nil || errors.Is(err, pawl.ErrSuspended) || errors.Is(err, pawl.ErrLeaseLost)
}

func failed(message string) Outcome {
	return Outcome{Output: raw(map[string]string{"error": message}), IsError: true}
}

// raw encodes a value that always has a JSON form.
func raw(v any) json.RawMessage {
	b, _ := json.Marshal(v)
	return b
}
