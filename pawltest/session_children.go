package pawltest

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawl-work/pawl"
)

// EndChild ends a child that the handler spawned under the key of c. Without a State it has
// completed. A result over pawl.MaxChildResult, or with Omitted, is left out of what
// AwaitChildren returns. A handler that waits for enough children goes on in its Next attempt.
func (s *Session) EndChild(c pawl.ChildResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.Children, func(o pawl.SpawnCall) bool { return o.Key == c.Key })
	if at < 0 {
		panic(fmt.Sprintf("pawltest: the handler has spawned no child with the key %q", c.Key))
	}
	if c.ID = childID(at); c.State == "" {
		c.State = pawl.TaskCompleted
	}
	if s.ended == nil {
		s.ended = map[string]pawl.ChildResult{}
	}
	s.ended[c.ID] = c
}

// TaskResult implements pawl.ResultSession: it reads the result of a child that has ended.
func (s *Session) TaskResult(_ context.Context, id string) (pawl.TaskResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ended := s.ended[id]
	if !ended {
		return pawl.TaskResult{}, pawl.ErrNotFound
	} else if c.State != pawl.TaskCompleted {
		return pawl.TaskResult{}, &pawl.Error{Code: pawl.CodeConflict, Op: "result", State: string(c.State), Message: "it came to no result"}
	}
	return pawl.TaskResult{TaskID: id, Payload: c.Result, CreatedAt: s.Clock}, nil
}

// shown is a child as the database answers it: without a large result.
func shown(c pawl.ChildResult) pawl.ChildResult {
	if c.Omitted || len(c.Result) > pawl.MaxChildResult {
		c.Result, c.Omitted = nil, true
	}
	return c
}

func childID(at int) string { return fmt.Sprint("tsk_c", at+1) }

// SpawnChild implements pawl.ChildSession.
func (s *Session) SpawnChild(_ context.Context, call pawl.SpawnCall) (pawl.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.failed(); err != nil {
		return pawl.Task{}, err
	}
	at := slices.IndexFunc(s.Children, func(o pawl.SpawnCall) bool { return o.Key == call.Key })
	older := at >= 0
	if !older {
		at, s.Children = len(s.Children), append(s.Children, call)
	}
	id := childID(at)
	state := pawl.TaskQueued
	if c, ended := s.ended[id]; ended {
		state = c.State
	}
	return pawl.Task{ID: id, Type: call.Task.Type, ParentID: s.Item.TaskID, State: state, CreatedAt: s.Clock, Deduplicated: older}, nil
}

// childrenState is the last wait of the item for children; nil = it never waited.
func (s *Session) childrenState() *pawl.ChildrenState {
	if s.awaited == nil {
		return nil
	}
	ids := slices.Compact(slices.Sorted(slices.Values(s.awaited.IDs)))
	out := &pawl.ChildrenState{Name: s.awaited.Name, Need: int(s.awaited.Need), OnFailure: s.awaited.OnFailure, Total: len(ids)}
	if s.awaited.Need == pawl.NeedAll {
		out.Need = len(ids)
	}
	for _, id := range ids {
		if c, ended := s.ended[id]; ended {
			if out.Items, out.Ended = append(out.Items, shown(c)), out.Ended+1; c.State != pawl.TaskCompleted {
				out.Failed++
			}
		}
	}
	continues := out.OnFailure == pawl.OnFailureContinue
	out.Over = continues && out.Ended >= out.Need || !continues && (out.Ended-out.Failed >= out.Need || out.Total-out.Failed < out.Need)
	return out
}
