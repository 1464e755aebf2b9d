package pawl

import (
	"encoding/json"
	"slices"
	"time"
)

// Checkpoint is one snapshot in its task's sequence: append-only, numbered
// densely in commit order.
type Checkpoint struct {
	ID        string          `json:"id"`
	TaskID    string          `json:"task_id"`
	ItemID    string          `json:"item_id,omitempty"`
	Attempt   int             `json:"attempt,omitempty"`
	Sequence  int64           `json:"sequence"`
	Type      string          `json:"type"`
	Name      string          `json:"name,omitempty"`
	ArgsHash  string          `json:"args_hash,omitempty"`
	Snapshot  json.RawMessage `json:"snapshot"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
	CreatedAt time.Time       `json:"created_at"`
}

// Types of checkpoints.
const (
	IterationStart   = "iteration_start"
	IterationEnd     = "iteration_end"
	ToolExecuted     = "tool_executed"
	LLMResponse      = "llm_response"
	ApprovalPoint    = "approval_point"
	StateTransition  = "state_transition"
	ManualCheckpoint = "manual_checkpoint"
	ErrorBoundary    = "error_boundary"
	CustomCheckpoint = "custom"
)

// CheckpointTypes is the closed list. Those of TaskCheckpointTypes may be made
// for a task without a lease.
var (
	CheckpointTypes = []string{IterationStart, IterationEnd, ToolExecuted, LLMResponse, ApprovalPoint, StateTransition, ManualCheckpoint,
		ErrorBoundary, CustomCheckpoint}
	TaskCheckpointTypes = []string{ManualCheckpoint, ApprovalPoint, StateTransition, CustomCheckpoint}
)

// NewCheckpoint is what a checkpoint saves.
type NewCheckpoint struct {
	Type     string          `json:"type"`
	Name     string          `json:"name,omitempty"`      // names a step: the newest of a name is what a resume gets
	ArgsHash string          `json:"args_hash,omitempty"` // of the step's arguments
	Snapshot json.RawMessage `json:"snapshot"`            // any JSON ≤ 1 MiB
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// CheckpointCall saves a checkpoint under an item's lease.
type CheckpointCall struct {
	Fence
	NewCheckpoint
}

// TaskCheckpoint saves a checkpoint of the task itself, without a lease.
type TaskCheckpoint struct {
	TaskID string `json:"task_id"`
	NewCheckpoint
}

// CheckpointRef answers with the id and the number given.
type CheckpointRef struct {
	ID       string `json:"id"`
	Sequence int64  `json:"sequence"`
}

// CheckpointFilter selects checkpoints, in order of their number unless Desc.
type CheckpointFilter struct {
	TaskID string
	ItemID string
	Types  []string
	Names  []string // of any of these
	// NamePrefix is how their names begin.
	NamePrefix string
	Metadata   map[string]string // members of its metadata: a text, or the JSON of a number, true or false
	Desc       bool              // newest first: with Limit 1, the latest of a type
	Page
}

// ResumeState is all that the next worker needs to go on. As a page it is a part of
// it: the first has the newest checkpoints, the error and the open message, and
// Steps, Parts and Messages follow in this order on as many pages as they need,
// each signal with its step.
type ResumeState struct {
	ItemID         string                `json:"item_id"`
	TaskID         string                `json:"task_id"`
	Attempt        int                   `json:"attempt"`
	Newest         *Checkpoint           `json:"newest"`
	IterationStart *Checkpoint           `json:"iteration_start"`
	IterationEnd   *Checkpoint           `json:"iteration_end"`
	ErrorBoundary  *Checkpoint           `json:"error_boundary"`
	Steps          map[string]Checkpoint `json:"steps"`           // the newest of each name
	Signals        map[string]SentSignal `json:"signals"`         // sent ones that a step waits for, under its name; see Awaited
	Parts          []ItemPart            `json:"parts"`           // the live ones
	Error          *Failure              `json:"error,omitempty"` // the item's last: why an attempt failed, or its result was sent back
	OpenMessage    *OpenMessage          `json:"open_message"`    // that the next attempt goes on with
	// all that were said piece by piece, oldest first: an ended one is not to be said again
	Messages []MessageRef `json:"messages"`
	Next     string       `json:"next,omitempty"` // the cursor of the next page; "" = this is the last, or the whole
	Held     bool         `json:"-"`              // by the caller's API key, in process only: it may see payloads
}

// Add puts the next page of the same attempt behind s. What s has already is
// replaced by what was saved or submitted again since.
func (s *ResumeState) Add(page ResumeState) {
	if s.Steps == nil {
		s.Steps = map[string]Checkpoint{}
	}
	if s.Signals == nil {
		s.Signals = map[string]SentSignal{}
	}
	for name, c := range page.Steps {
		if old, there := s.Steps[name]; there && old.Sequence > c.Sequence {
			continue
		}
		delete(s.Signals, name)
		s.Steps[name] = c
		if sent, there := page.Signals[name]; there {
			s.Signals[name] = sent
		}
	}
	type place struct {
		key string
		seq int
	}
	at := func(p ItemPart) place {
		if p.Seq == nil {
			return place{p.Key, -1}
		}
		return place{p.Key, *p.Seq}
	}
	later := map[place]bool{}
	for _, p := range page.Parts {
		later[at(p)] = true
	}
	s.Parts = append(slices.DeleteFunc(s.Parts, func(p ItemPart) bool { return later[at(p)] }), page.Parts...)
	s.Messages = append(s.Messages, page.Messages...)
	s.Held, s.Next = s.Held && page.Held, page.Next
}
