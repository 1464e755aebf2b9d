package kernel

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
)

// Answers counts the bytes of the values that the answers of one batch have: a short call may be
// answered with a large stored value, and a batch has many such calls.
type Answers struct {
	Op string
	// Unbounded: the answers are not sent, or they have only what the calls gave
	Unbounded bool

	bytes int
}

// Full refuses a call of a batch whose earlier calls have as many bytes as an answer may have. It
// is asked before the call is carried out, so that what is refused has had no effect. The first
// call is never refused.
func (a *Answers) Full() error {
	if a.Unbounded || a.bytes < pawl.MaxAnswerBytes {
		return nil
	}
	return &pawl.Error{Code: pawl.CodeTooLarge, Op: a.Op, Message: fmt.Sprintf(
		"the answers to the calls before it have the %d bytes that the answer to one batch may have; nothing was done: send it in another batch",
		pawl.MaxAnswerBytes)}
}

// Take counts the answer to a call.
func (a *Answers) Take(value any, err error) {
	a.bytes += answerBytes(value)
	var e *pawl.Error
	if errors.As(err, &e) {
		a.bytes += len(e.Message) + 20*len(e.Kept)
		for i := range e.Fields {
			a.bytes += len(e.Fields[i].Pointer) + len(e.Fields[i].Message)
		}
	}
}

// Found counts the answer to a create that found an older task.
func (a *Answers) Found(r pawl.Result[pawl.Task]) {
	if r.Err != nil || r.Value.Deduplicated {
		a.Take(r.Value, r.Err)
	}
}

// answerBytes returns the size of the values of an answer that may be large.
func answerBytes(value any) int {
	switch v := value.(type) {
	case pawl.Task:
		n := len(v.Payload) + len(v.Metadata) + failureBytes(v.Error)
		for i := range v.Planned {
			n += len(v.Planned[i].Input) + plannedBytes
		}
		return n
	case pawl.Key:
		return len(v.Response)
	case pawl.KeyBegun:
		return len(v.Key.Response)
	case pawl.Message:
		return len(v.Content) + len(v.Metadata) + len(v.Usage)
	case pawl.OpenedMessage:
		return answerBytes(v.Message)
	case pawl.ItemPart:
		return len(v.Payload) + len(v.Evidence) + len(v.Notes)
	}
	return 0
}

// plannedBytes is about what a planned item has besides its input.
const plannedBytes = 100

func failureBytes(f *pawl.Failure) int {
	if f == nil {
		return 0
	}
	return len(f.Message) + len(f.Detail)
}

// Each runs the calls of a batch one by one. Each call has its own answer or error. Calls whose
// answers would not fit any more are refused as too_large.
func Each[C, R any](ctx context.Context, op string, calls []C, one func(context.Context, *C) (R, error)) ([]pawl.Result[R], error) {
	return EachIn(ctx, &Answers{Op: op}, calls, one)
}

// EachIn is Each with the room that the answers have.
func EachIn[C, R any](ctx context.Context, room *Answers, calls []C,
	one func(context.Context, *C) (R, error)) ([]pawl.Result[R], error) {
	if err := rules.CheckBatch(room.Op, len(calls)); err != nil {
		return nil, err
	}
	out := make([]pawl.Result[R], len(calls))
	for i := range calls {
		if out[i].Err = room.Full(); out[i].Err != nil {
			continue
		}
		out[i].Value, out[i].Err = one(ctx, &calls[i])
		room.Take(out[i].Value, out[i].Err)
	}
	return out, nil
}
