package mcp

import (
	"context"
	"encoding/json"

	"github.com/pawl-work/pawl"
)

// derivedTools are the tools that explain items, and create tasks that come from others.
func derivedTools() map[string]verb {
	return map[string]verb{
		"work_why":   of(why),
		"work_spawn": of(spawn),
		"work_fork":  of(fork),
	}
}

type whyIn struct {
	ID string `json:"id" id:"item" jsonschema:"of an item, or of a task for the item that tells most about it"`
}

func why(ctx context.Context, s *Server, in whyIn) (pawl.Why, error) {
	return s.svc.Why(ctx, in.ID)
}

type spawnIn struct {
	holding
	Key     string          `json:"key" jsonschema:"names the child among those of the task; the same key again is the same child"`
	Type    string          `json:"type" jsonschema:"the kind of task"`
	Payload json.RawMessage `json:"payload,omitempty" jsonschema:"any JSON that fits the type's payload_schema"`
	Title   string          `json:"title,omitempty" jsonschema:"a line for people"`
	Items   []proposeItem   `json:"items,omitempty" jsonschema:"leave out for one item"`
}

func spawn(ctx context.Context, s *Server, in spawnIn) (taskOut, error) {
	t := proposeIn{Type: in.Type, Payload: in.Payload, Title: in.Title, Items: in.Items}.task()
	task, err := one(s.svc.Spawn(ctx, []pawl.SpawnCall{{Fence: in.fence(), Key: in.Key, Task: t}}))
	return taskOut{task}, err
}

type forkIn struct {
	TaskID     string `json:"task_id"`
	Checkpoint int64  `json:"checkpoint" jsonschema:"the number of the last checkpoint to go on from; 0 = none: from the beginning"`
}

func fork(ctx context.Context, s *Server, in forkIn) (taskOut, error) {
	task, err := one(s.svc.ForkTasks(ctx, []pawl.TaskFork{{TaskID: in.TaskID, Checkpoint: in.Checkpoint}}))
	return taskOut{task}, err
}
