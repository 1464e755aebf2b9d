package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
)

// The names of questions and answers in a task's checkpoints, and of the answer's
// signal.
const (
	askPrefix    = "ask "
	answerPrefix = "answer "
	waitPrefix   = "wait "
	inputSignal  = "mcp.input"
)

// Ask asks the client of a task's call for input, from a worker's handler. The task
// shows as input_required until tasks/update has answered every question. Like
// pawl.WaitFor it waits without a lease: the first call returns pawl.ErrSuspended, which
// the handler returns. Keys are unique within the task.
func Ask(ctx context.Context, questions map[string]*sdk.ElicitParams) (map[string]*sdk.ElicitResult, error) {
	item, err := pawl.ItemFrom(ctx)
	if err != nil {
		return nil, err
	}
	left, err := pawl.ResumeFrom(ctx)
	if err != nil {
		return nil, err
	}
	fresh := maps.Clone(questions)
	for _, c := range left.Steps {
		for key := range asked(c) {
			delete(fresh, key)
		}
	}
	if names := slices.Sorted(maps.Keys(fresh)); len(names) > 0 { // all at once: a client sees all or none
		if _, err := pawl.Save(ctx, pawl.ApprovalPoint, askPrefix+names[0], fresh); err != nil {
			return nil, err
		}
	}
	keys := slices.Sorted(maps.Keys(questions))
	answers := map[string]*sdk.ElicitResult{}
	for _, key := range keys {
		if answers[key], err = pawl.WaitFor[*sdk.ElicitResult](ctx, waitPrefix+key, inputSignal, item.TaskID+" "+key); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// asked returns the questions of a checkpoint by their keys; none if a checkpoint only
// has the same name.
func asked(c pawl.Checkpoint) sdk.InputRequestMap {
	var questions map[string]*sdk.ElicitParams
	if c.Type != pawl.ApprovalPoint || !strings.HasPrefix(c.Name, askPrefix) || json.Unmarshal(c.Snapshot, &questions) != nil {
		return nil
	}
	out := sdk.InputRequestMap{}
	for key, q := range questions {
		if q != nil && q.Message != "" {
			out[key] = q
		}
	}
	return out
}

// pending returns a task's unanswered questions.
func (s *Server) pending(ctx context.Context, taskID string) (sdk.InputRequestMap, error) {
	open := sdk.InputRequestMap{}
	err := s.checkpoints(ctx, pawl.CheckpointFilter{TaskID: taskID, Types: []string{pawl.ApprovalPoint}, NamePrefix: askPrefix},
		func(c pawl.Checkpoint) { maps.Copy(open, asked(c)) })
	if err != nil || len(open) == 0 {
		return open, err
	}
	return open, s.checkpoints(ctx, pawl.CheckpointFilter{TaskID: taskID, Types: []string{pawl.CustomCheckpoint}, NamePrefix: answerPrefix,
		Own: true, Brief: true},
		func(c pawl.Checkpoint) { delete(open, strings.TrimPrefix(c.Name, answerPrefix)) })
}

// checkpoints calls each with all checkpoints of a filter.
func (s *Server) checkpoints(ctx context.Context, f pawl.CheckpointFilter, each func(pawl.Checkpoint)) error {
	for f.Limit = pawl.MaxPage; ; {
		l, err := s.svc.ListCheckpoints(ctx, f)
		if err != nil {
			return err
		}
		for _, c := range l.Items {
			each(c)
		}
		if f.Cursor = l.Next; l.Next == "" {
			return nil
		}
	}
}

// answer sends an answer to the waiting item and records it in the task's checkpoints,
// so that it is not asked for again. If the second step fails, the client is asked
// again; another answer does no harm.
func (s *Server) answer(ctx context.Context, taskID, key string, raw json.RawMessage) error {
	if _, err := pawl.Signal(ctx, s.svc, inputSignal, taskID+" "+key, raw); err != nil {
		return err
	}
	_, err := one(s.svc.CheckpointTasks(ctx, []pawl.TaskCheckpoint{{TaskID: taskID,
		NewCheckpoint: pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Name: answerPrefix + key, Snapshot: raw}}}))
	if errors.Is(err, pawl.ErrConflict) { // it went on, and has ended
		err = nil
	}
	return err
}
