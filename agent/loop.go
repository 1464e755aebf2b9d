package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawl-work/pawl"
)

// Loop makes messages with a model and its tools. The zero value of all but Model
// works; one Loop serves any number of items at a time.
type Loop struct {
	Model    Model
	System   string // what the model is told before all
	Tools    []Tool
	MaxSteps int // turns of the model, at most the message's own; 0 = the message's, which is 10 unless its task says otherwise
	// Ask returns the outcome of a call with side effects that was started and left no
	// result. Nil = the item is suspended until the signal OutcomeSignal arrives, with
	// the key of OutcomeKey and an Outcome as payload; a checkpoint of type
	// approval_point, and its event, ask for it.
	Ask func(ctx context.Context, c Call) (Outcome, error)
}

// Result is what a loop came to.
type Result struct {
	MessageID string `json:"message_id,omitempty"`
	Text      string `json:"text"`
	Steps     int    `json:"steps"`
	Finish    string `json:"finish,omitempty"` // the provider's word for the last turn's end, or one of those below
	Usage     Usage  `json:"usage"`
}

// How a loop ends, besides the words of providers.
const (
	FinishStopped  = "stopped"   // the message was stopped
	FinishMaxSteps = "max_steps" // the model called tools in the last step
)

// Run goes on with the message of a handler's item, or begins it, and makes it to
// its end; conversation is what was said before it, the same in every attempt. It
// is called inside a handler, which returns its error as it is: the item may be
// suspended (pawl.ErrSuspended). A stopped message is no error.
func (l Loop) Run(ctx context.Context, conversation []Message) (Result, error) {
	tools, err := newKit(l.Tools)
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
	r := run{
		Loop: l,
		kit:  tools,
		msg:  msg,
		done: msg.StepNumber(),
		said: append([]Message(nil), conversation...),
		out:  Result{MessageID: msg.ID()},
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

// run is one message being made.
type run struct {
	Loop
	kit  kit
	msg  *pawl.MessageWriter
	done int // steps that earlier attempts ended: they are read, not said
	said []Message
	out  Result
}

// turn is what the model said in one step, as it is saved.
type turn struct {
	Parts []Part `json:"parts"`
	End
}

func (r *run) steps(ctx context.Context) error {
	most := r.msg.MaxSteps()
	if r.MaxSteps > 0 {
		most = min(most, r.MaxSteps)
	}
	for n := 1; n <= most; n++ {
		t, err := r.turn(ctx, n)
		if err != nil {
			return err
		}
		answers, err := r.call(ctx, n, t)
		if err != nil {
			return err
		}
		r.said = append(r.said, Message{pawl.RoleAssistant, t.Parts})
		if n > r.done {
			if err := r.endStep(ctx, n); err != nil {
				return err
			}
		}
		r.out.Steps, r.out.Finish = n, t.Finish
		r.out.Usage.Input += t.Usage.Input
		r.out.Usage.Output += t.Usage.Output
		if len(answers) == 0 {
			return nil
		}
		r.said = append(r.said, Message{pawl.RoleTool, answers})
	}
	r.out.Finish = FinishMaxSteps
	return nil
}

// name is what something of a step is saved under, unique within the item.
func (r *run) name(what string, n ...int) string {
	place := fmt.Sprint(n[0])
	for _, k := range n[1:] {
		place += fmt.Sprint(".", k)
	}
	return what + ":" + place + "@" + r.msg.ID()
}

// errOthers is for a message that another program began: its steps are not ours
// to read.
var errOthers = pawl.Permanent(errors.New("agent: the message's earlier steps were not made by this loop"))

// turn hears the model's n-th turn, or says again what an earlier attempt heard
// to its end.
func (r *run) turn(ctx context.Context, n int) (turn, error) {
	heard := false
	t, err := pawl.Step(ctx, r.name("turn", n), func(ctx context.Context) (turn, error) {
		if n <= r.done {
			return turn{}, errOthers
		}
		heard = true
		var t turn
		var err error
		t.End, err = r.Model.Stream(ctx, Request{r.System, r.said, r.Tools}, func(p Part) error {
			t.add(&p, n)
			return r.say(p)
		})
		return t, err
	})
	if err != nil || heard {
		return t, err
	}
	for _, p := range t.Parts {
		if n <= r.done {
			r.out.Text += text(p)
		} else if err := r.say(p); err != nil {
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

func (r *run) say(p Part) error {
	switch p.Type {
	case pawl.ChunkText:
		r.out.Text += text(p)
		return r.msg.Text(string(p.Text))
	case pawl.ChunkReasoning:
		return r.msg.Reasoning(string(p.Text))
	}
	return r.msg.Write(p.Chunk)
}

// add adds a part as it comes. What a model gives a tool is JSON from here on,
// and its call has an id.
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

// call makes a turn's calls, one after another, and tells what came of them.
func (r *run) call(ctx context.Context, n int, t turn) ([]Part, error) {
	var out []Part
	for _, p := range t.Parts {
		if p.Type != pawl.ChunkToolCall {
			continue
		}
		c := Call{MessageID: r.msg.ID(), Step: n, Number: len(out) + 1, ID: p.ToolCallID, Name: p.ToolName, Input: p.Input}
		o, refused := r.kit.refused(c)
		if !refused {
			var err error
			if o, err = r.settle(ctx, c); err != nil {
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

// endStep saves the step. What is more than one checkpoint holds is in those of
// its turns and calls.
func (r *run) endStep(ctx context.Context, n int) error {
	_, err := r.msg.Step(ctx, nil)
	if errors.Is(err, pawl.ErrInvalid) {
		_, err = r.msg.Step(ctx, map[string]any{"step_number": n, "model": r.msg.Model(), "max_steps": r.msg.MaxSteps()})
	}
	return err
}
