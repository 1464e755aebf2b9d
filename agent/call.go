package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawl-work/pawl"
)

// OutcomeSignal is the name of the signal that reports the outcome of a tool call. Its
// payload is an Outcome: {"output": …}, {"output": …, "is_error": true}, or {"again":
// true} if the call did not happen and is to be made.
const OutcomeSignal = "agent.outcome"

// OutcomeKey is the key of the outcome signal for a call. time is 1 when the outcome is
// asked for the first time, and rises by one each time the call was made again.
func OutcomeKey(c Call, time int) string {
	key := fmt.Sprintf("%s/%d.%d", c.MessageID, c.Step, c.Number)
	if time > 1 {
		key += fmt.Sprint("/", time)
	}
	return key
}

// startedCall is saved before a call with side effects is made.
type startedCall struct {
	Call
	Time int `json:"time"` // 1 for the first execution of the call
}

// callOnce makes a call and saves its outcome; later attempts read the saved outcome.
func (r *run) callOnce(ctx context.Context, c Call) (Outcome, error) {
	return pawl.Step(ctx, r.stepName("tool", c.Step, c.Number), func(ctx context.Context) (Outcome, error) {
		if c.Step <= r.done {
			return Outcome{}, errNotOurs
		}
		if !r.tools[c.Name].SideEffects {
			return r.runTool(ctx, c)
		}
		name := r.stepName("begun", c.Step, c.Number)
		earlier, err := pawl.ResumeFrom(ctx)
		if err != nil {
			return Outcome{}, err
		}
		started := startedCall{Call: c, Time: 1}
		if saved, known := earlier.Steps[name]; known {
			started.Input = nil // json.Unmarshal would write into the bytes of c.Input, which the message still uses
			if err := json.Unmarshal(saved.Snapshot, &started); err != nil {
				return Outcome{}, err
			}
			o, err := r.ask(ctx, started, earlier)
			if err != nil || !o.Again {
				return o, err
			}
			started.Time++
		}
		if _, err := pawl.Save(ctx, pawl.StateTransition, name, started); err != nil {
			return Outcome{}, err
		}
		return r.runTool(ctx, c)
	})
}

// runTool makes a call in a span.
func (r *run) runTool(ctx context.Context, c Call) (o Outcome, err error) {
	ctx, end := r.beginTool(ctx, c)
	defer func() { end(o, err) }()
	return r.tools.run(ctx, c)
}

// question is saved when the outcome of a call is asked for.
type question struct {
	Question string `json:"question"`
	Signal   string `json:"signal"`
	Key      string `json:"key"`
	startedCall
}

// ask returns the outcome of a call that was started and left no result.
func (r *run) ask(ctx context.Context, started startedCall, earlier pawl.ResumeState) (Outcome, error) {
	if r.Ask != nil {
		return r.Ask(ctx, started.Call)
	}
	q := question{
		Question:    fmt.Sprintf("Did the call of %s happen, and what was its result?", started.Name),
		Signal:      OutcomeSignal,
		Key:         OutcomeKey(started.Call, started.Time),
		startedCall: started,
	}
	name := r.stepName("question", started.Step, started.Number, started.Time)
	if _, asked := earlier.Steps[name]; !asked {
		if _, err := pawl.Save(ctx, pawl.ApprovalPoint, name, q); err != nil {
			return Outcome{}, err
		}
	}
	return pawl.WaitFor[Outcome](ctx, r.stepName("ask", started.Step, started.Number, started.Time), q.Signal, q.Key)
}
