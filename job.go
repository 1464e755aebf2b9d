package pawl

import (
	"context"
	"encoding/json"
	"strconv"
)

// Job is a type of tasks with the Go types of their payload and of their result. A program names
// it once; it then creates, spawns and schedules its tasks, and reads their results, without JSON.
// worker.Handle takes a Job in place of a type's name.
//
//	var Invoice = pawl.NewJob[InvoiceArgs, InvoiceResult]("invoice")
//
// Its tasks have one item, whose input is the payload and whose result is the task's.
type Job[In, Out any] struct{ name string }

// NewJob returns the job of a type.
func NewJob[In, Out any](typ string) Job[In, Out] { return Job[In, Out]{typ} }

// JobName returns the name of the type.
func (j Job[In, Out]) JobName() string { return j.name }

// Task returns the task with a payload. Each of with may change it, but not its type.
func (j Job[In, Out]) Task(in In, with ...func(*NewTask)) (NewTask, error) {
	payload, err := json.Marshal(in)
	if err != nil {
		return NewTask{}, Invalid("/payload", "of %s cannot be written as JSON: %v", j.name, err)
	}
	t := NewTask{Payload: payload}
	for _, change := range with {
		change(&t)
	}
	t.Type = j.name
	return t, nil
}

// Create creates a task.
func (j Job[In, Out]) Create(ctx context.Context, s TaskMaker, in In, with ...func(*NewTask)) (Task, error) {
	t, err := j.Task(in, with...)
	if err != nil {
		return Task{}, err
	}
	return Create(ctx, s, t)
}

// CreateMany creates a task for each payload, each answered on its own.
func (j Job[In, Out]) CreateMany(ctx context.Context, s TaskMaker, in []In, with ...func(*NewTask)) ([]Result[Task], error) {
	tasks := make([]NewTask, len(in))
	for i := range in {
		var err error
		if tasks[i], err = j.Task(in[i], with...); err != nil {
			return nil, err
		}
	}
	return s.CreateTasks(ctx, tasks)
}

// Spawn creates a child of the handler's task; see the function Spawn.
func (j Job[In, Out]) Spawn(ctx context.Context, key string, in In, with ...func(*NewTask)) (Task, error) {
	t, err := j.Task(in, with...)
	if err != nil {
		return Task{}, err
	}
	return Spawn(ctx, key, t)
}

// SpawnAll creates a child for each payload. Their keys are key/0, key/1 and so on. It returns
// their ids, for AwaitAll.
func (j Job[In, Out]) SpawnAll(ctx context.Context, key string, in []In, with ...func(*NewTask)) ([]string, error) {
	ids := make([]string, len(in))
	for i := range in {
		t, err := j.Spawn(ctx, key+"/"+strconv.Itoa(i), in[i], with...)
		if err != nil {
			return nil, err
		}
		ids[i] = t.ID
	}
	return ids, nil
}

// AwaitAll waits in a handler for children that SpawnAll has made, and returns their results in
// their order; see AwaitChildren, whose name and suspension it has. If one of them comes to
// nothing, the item fails.
//
// A result that is larger than MaxChildResult, or of a task of many items, is read from the child: in each attempt, and
// over HTTP with the role reader. Of many items it is their list, or an object if all have keys; see TaskResult. One that
// cannot be read, because the child is gone or the API key sees no payloads, is an error.
func (j Job[In, Out]) AwaitAll(ctx context.Context, name string, ids []string) ([]Out, error) {
	done, err := AwaitChildren(ctx, name, ChildWait{IDs: ids})
	if err != nil {
		return nil, err
	}
	out := make([]Out, len(done))
	for i := range done {
		result := done[i].Result
		if done[i].Omitted {
			if result, err = omittedResult(ctx, done[i].ID); err != nil {
				return nil, err
			}
		}
		if out[i], err = j.decode(result); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// omittedResult reads the result of a child that has one which is not in its ChildResult.
func omittedResult(ctx context.Context, id string) (json.RawMessage, error) {
	h, err := attemptOf(ctx)
	if err != nil {
		return nil, err
	}
	s, ok := h.Session.(ResultSession)
	if !ok {
		return nil, &Error{Code: CodeInvalid, Op: "result", Message: "the result of " + id + " is left out, and this session reads no results"}
	}
	r, err := s.TaskResult(ctx, id)
	if err != nil {
		return nil, err
	}
	// No result that is left out is null. A key that sees no payloads gets null for each.
	if len(r.Payload) == 0 || string(r.Payload) == "null" {
		return nil, &Error{Code: CodeForbidden, Op: "result", Message: "the result of " + id + " is left out, and hidden from this API key"}
	}
	return r.Payload, nil
}

// Await waits until a task has ended, as the function Await does, and returns its result. If the
// task came to none, the error is a TaskError.
func (j Job[In, Out]) Await(ctx context.Context, s TaskReader, taskID string) (Out, error) {
	if _, err := Await(ctx, s, taskID); err != nil {
		var none Out
		return none, err
	}
	return j.Result(ctx, s, taskID)
}

// Result returns the result of a completed task. If the task came to none, the error is a
// TaskError; one that has not ended is a conflict.
func (j Job[In, Out]) Result(ctx context.Context, s TaskReader, taskID string) (Out, error) {
	var none Out
	r, err := s.TaskResult(ctx, taskID)
	if err == nil {
		return j.decode(r.Payload)
	}
	if CodeOf(err) == CodeConflict {
		if t, failed := s.GetTask(ctx, taskID); failed == nil && t.State.Over() && t.State != TaskCompleted {
			return none, &TaskError{t}
		}
	}
	return none, err
}

func (j Job[In, Out]) decode(raw json.RawMessage) (out Out, err error) {
	if len(raw) == 0 {
		return out, nil
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, &Error{Code: CodeInvalid, Op: "result", Message: "the result of " + j.name + " is of another type: " + err.Error(), Err: err}
	}
	return out, nil
}

// Schedule creates a schedule of the job's tasks, or replaces the definition of the one with its
// name; see ScheduleKeeper.PutSchedule.
func (j Job[In, Out]) Schedule(ctx context.Context, s ScheduleKeeper, when NewSchedule, in In) (Schedule, error) {
	t, err := j.Task(in, func(t *NewTask) {
		payload := t.Payload
		*t = when.Task
		t.Payload = payload
	})
	if err != nil {
		return Schedule{}, err
	}
	when.Task = t
	return s.PutSchedule(ctx, when)
}

// TaskError is the error of a task that came to no result: it failed, or was dead-lettered,
// rejected or cancelled.
type TaskError struct{ Task Task }

// Error says what became of the task.
func (e *TaskError) Error() string {
	out := "task " + e.Task.ID + " of type " + e.Task.Type + " is " + string(e.Task.State)
	if f := e.Task.Error; f != nil {
		out += ": " + f.Message
		if f.Code != "" {
			out += " (" + f.Code + ")"
		}
	}
	return out
}
