package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
)

// Loop produces messages with a model and its tools. Only Model is required. One Loop
// can serve any number of items at the same time.
type Loop struct {
	Model  Model
	System string // the system prompt; "" = none
	Tools  []Tool
	// MaxSteps bounds the turns of the model. The message's own limit (10 by default)
	// still applies; 0 = only that.
	MaxSteps int
	// Ask returns the outcome of a call with side effects that was started and left no
	// result. Nil = the item is suspended until the signal OutcomeSignal arrives, with
	// the key of OutcomeKey and an Outcome as payload; a checkpoint of type
	// approval_point, and its event, ask for it.
	Ask func(ctx context.Context, c Call) (Outcome, error)
}

// Result is what Loop.Run returns.
type Result struct {
	MessageID string `json:"message_id,omitempty"`
	Text      string `json:"text"`
	Steps     int    `json:"steps"`
	Finish    string `json:"finish,omitempty"` // the provider's reason for the end of the last turn, or one of the constants below
	Usage     Usage  `json:"usage"`
}

// The values of Result.Finish besides the provider's own reasons.
const (
	FinishStopped  = "stopped"   // the message was stopped
	FinishMaxSteps = "max_steps" // the model called tools in the last step
)

// Run continues the message of a handler's item, or starts it, and writes it to its end.
// conversation is what was said before the message; it must be the same in every
// attempt. If the item was sent back for rework, Run adds the reasons as a message of the user,
// and writes a new message. Call Run inside a handler, and return its error unchanged: the item may be
// suspended (pawl.ErrSuspended). A stopped message is not an error.
func (l Loop) Run(ctx context.Context, conversation []Message) (Result, error) {
	tools, err := newToolSet(l.Tools)
	if err != nil {
		return Result{}, pawl.Permanent(err)
	}
	msg, err := pawl.StartMessage(ctx, pawl.Reply{Model: l.Model.Name(), MaxSteps: l.MaxSteps})
	if errors.Is(err, pawl.ErrStopped) {
		return Result{Finish: FinishStopped}, nil
	}
	if err != nil {
		return Result{}, err
	}
	lease, err := pawl.ItemFrom(ctx)
	if err != nil {
		return Result{}, err
	}
	r := run{
		Loop:         l,
		tools:        tools,
		msg:          msg,
		done:         msg.StepNumber(),
		conversation: slices.Concat(conversation, reasonsOf(lease)),
		out:          Result{MessageID: msg.ID()},
	}
	if err = r.steps(msg.Context()); err == nil {
		err = msg.Finish(ctx, r.out.Usage)
	}
	switch {
	case err == nil:
	case errors.Is(err, pawl.ErrStopped) || errors.Is(context.Cause(msg.Context()), pawl.ErrStopped):
		r.out.Finish = FinishStopped
		return r.out, nil
	case ctx.Err() != nil:
		return r.out, context.Cause(ctx)
	}
	return r.out, err
}

// reasonsOf tells the model why an earlier result was rejected.
func reasonsOf(l pawl.Lease) []Message {
	if len(l.Reasons) == 0 {
		return nil
	}
	said := "Your earlier result was sent back:"
	for _, c := range l.Reasons {
		said += "\n- " + strings.TrimPrefix(c.Field+": ", ": ") + c.Message
	}
	return []Message{Text(pawl.RoleUser, said)}
}

// run is one message being made.
type run struct {
	Loop
	tools        toolSet
	msg          *pawl.MessageWriter
	done         int // steps that earlier attempts completed: their chunks are in the message already
	conversation []Message
	out          Result
}

// turn is the output of the model in one step, as it is saved.
type turn struct {
	Parts []Part `json:"parts"`
	End
}

func (r *run) steps(ctx context.Context) error {
	limit := r.msg.MaxSteps()
	if r.MaxSteps > 0 {
		limit = min(limit, r.MaxSteps)
	}
	for n := 1; n <= limit; n++ {
		t, err := r.turn(ctx, n)
		if err != nil {
			return err
		}
		answers, err := r.call(ctx, n, t)
		if err != nil {
			return err
		}
		r.conversation = append(r.conversation, Message{pawl.RoleAssistant, t.Parts})
		if n > r.done {
			if _, err := r.msg.Step(ctx, nil); err != nil {
				return err
			}
		}
		r.out.Steps, r.out.Finish = n, t.Finish
		r.out.Usage.Input += t.Usage.Input
		r.out.Usage.Output += t.Usage.Output
		if len(answers) == 0 {
			return nil
		}
		r.conversation = append(r.conversation, Message{pawl.RoleTool, answers})
	}
	r.out.Finish = FinishMaxSteps
	return nil
}

// stepName is the name under which part of a step is saved; unique within the item.
func (r *run) stepName(what string, n ...int) string {
	position := fmt.Sprint(n[0])
	for _, k := range n[1:] {
		position += fmt.Sprint(".", k)
	}
	return what + ":" + position + "@" + r.msg.ID()
}

// errNotOurs is returned for a message that another program began: its saved steps cannot
// be read.
var errNotOurs = pawl.Permanent(errors.New("agent: the message's earlier steps were not made by this loop"))

// turn runs the model's n-th turn. If an earlier attempt saved it, turn replays the
// saved turn instead.
func (r *run) turn(ctx context.Context, n int) (turn, error) {
	streamed := false
	t, err := pawl.Step(ctx, r.stepName("turn", n), func(ctx context.Context) (turn, error) {
		if n <= r.done {
			return turn{}, errNotOurs
		}
		streamed = true
		var t turn
		var err error
		ctx, end := r.beginTurn(ctx)
		defer func() { end(t.End, err) }()
		t.End, err = r.Model.Stream(ctx, Request{r.System, r.conversation, r.Tools}, func(p Part) error {
			t.add(&p, n)
			return r.emit(p)
		})
		return t, err
	})
	if err != nil || streamed {
		return t, err
	}
	for _, p := range t.Parts {
		if n <= r.done {
			r.out.Text += text(p)
		} else if err := r.emit(p); err != nil {
			return t, err
		}
	}
	return t, nil
}

func text(p Part) string {
	if p.Type == pawl.ChunkText {
		return string(p.Text)
	}
	return ""
}

func (r *run) emit(p Part) error {
	switch p.Type {
	case pawl.ChunkText:
		r.out.Text += text(p)
		return r.msg.Text(string(p.Text))
	case pawl.ChunkReasoning:
		return r.msg.Reasoning(string(p.Text))
	}
	return r.msg.Write(p.Chunk)
}

// add appends a part. The input of a tool call becomes valid JSON, and the call gets an
// id if it has none.
func (t *turn) add(p *Part, step int) {
	if p.Type == pawl.ChunkToolCall {
		switch {
		case len(p.Input) == 0:
			p.Input = json.RawMessage("{}")
		case !json.Valid(p.Input):
			p.Input = raw(string(p.Input))
		}
		if p.ToolCallID == "" {
			p.ToolCallID = fmt.Sprintf("call_%d_%d", step, len(t.Parts))
		}
	}
	if n := len(t.Parts); n > 0 && (p.Type == pawl.ChunkText || p.Type == pawl.ChunkReasoning) && t.Parts[n-1].Type == p.Type &&
		t.Parts[n-1].Provider == nil {
		t.Parts[n-1].Text += p.Text
		t.Parts[n-1].Provider = p.Provider
		return
	}
	t.Parts = append(t.Parts, *p)
}

// call makes the tool calls of a turn, one after another, and returns their results.
func (r *run) call(ctx context.Context, n int, t turn) ([]Part, error) {
	var out []Part
	for _, p := range t.Parts {
		if p.Type != pawl.ChunkToolCall {
			continue
		}
		c := Call{MessageID: r.msg.ID(), Step: n, Number: len(out) + 1, ID: p.ToolCallID, Name: p.ToolName, Input: p.Input}
		o, refused := r.tools.refused(c)
		if !refused {
			var err error
			if o, err = r.callOnce(ctx, c); err != nil {
				return nil, err
			}
		}
		answer := pawl.Chunk{Type: pawl.ChunkToolResult, ToolCallID: c.ID, ToolName: c.Name, Output: o.Output, IsError: o.IsError}
		if n > r.done {
			if err := r.msg.Write(answer); err != nil {
				return nil, err
			}
		}
		out = append(out, Part{Chunk: answer})
	}
	return out, nil
}
