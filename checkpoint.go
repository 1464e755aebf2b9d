package pawl

import (
	"encoding/json"
	"slices"
	"time"
)

// Checkpoint is one snapshot of a task: append-only, numbered without gaps in commit
// order.
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

	// Refs are checkpoints that this one refers to, if a list asks for them: its metadata has a
	// member refs with a list of at most MaxRefs names. A name that ends with * means all names that
	// begin so. Of each name it is the newest that the task itself has, in order of number.
	Refs []Checkpoint `json:"refs,omitempty"`
	// RefsLeft says that the page had no room for all of them: read them by name.
	RefsLeft bool `json:"refs_left,omitempty"`
}

// The types of checkpoints, and the words of their appends.
const (
	// Types of checkpoints.
	IterationStart   = "iteration_start"
	IterationEnd     = "iteration_end"
	ToolExecuted     = "tool_executed"
	LLMResponse      = "llm_response"
	ApprovalPoint    = "approval_point"
	StateTransition  = "state_transition"
	ManualCheckpoint = "manual_checkpoint"
	ErrorBoundary    = "error_boundary"
	CustomCheckpoint = "custom"

	// What an append does that finds a checkpoint of the task itself with the name of a new one:
	// AppendedCheckpoint.OnConflict.
	NameRefuse  = "refuse"  // nothing is appended; the error has the number of the older one
	NameReplace = "replace" // the older one is removed
	NameKeep    = "keep"    // the older one stays, and the new one is not saved
)

// The lists of these words.
var (
	// CheckpointTypes lists all types of checkpoints. Those of TaskCheckpointTypes can be
	// saved for a task without a lease.
	CheckpointTypes = []string{IterationStart, IterationEnd, ToolExecuted, LLMResponse, ApprovalPoint, StateTransition, ManualCheckpoint,
		ErrorBoundary, CustomCheckpoint}
	TaskCheckpointTypes = []string{ManualCheckpoint, ApprovalPoint, StateTransition, CustomCheckpoint}

	// NameConflicts lists what an append does about a name that is taken. "" allows several
	// checkpoints of one name.
	NameConflicts = []string{NameRefuse, NameReplace, NameKeep}
)

// NewCheckpoint is the content of a checkpoint.
type NewCheckpoint struct {
	Type     string          `json:"type"`
	Name     string          `json:"name,omitempty"`      // of a step: a resume gets the newest checkpoint of each name
	ArgsHash string          `json:"args_hash,omitempty"` // hash of the step's arguments
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

// CheckpointRef is the id and the number of a saved checkpoint.
type CheckpointRef struct {
	ID       string `json:"id"`
	Sequence int64  `json:"sequence"`
}

// CheckpointFilter selects checkpoints, oldest first unless Desc.
type CheckpointFilter struct {
	TaskID string
	// in place of TaskID: the task of this type that has this key by Unique; both or none
	TaskType, TaskKey string
	ItemID            string
	IDs               []string
	Sequences         []int64 // with one of these numbers
	Types             []string
	Names             []string // with one of these names
	// NamePrefix selects names that begin with it.
	NamePrefix string
	Metadata   map[string]string // metadata members and their values: a text, or the JSON of a number, true or false
	Desc       bool              // newest first: with Limit 1, the latest of a type
	Own        bool              // of the task itself, not of an item; read with an index by name
	Brief      bool              // without snapshots, which are then not read
	// Refs reads the checkpoints that those of the page refer to: Checkpoint.Refs.
	Refs bool
	Page
}

// ResumeState is all that the next attempt needs to continue. It can be read in pages:
// the first has the newest checkpoints, the error and the open message; Steps, Parts,
// Messages and Children follow, in this order, on as many pages as necessary. Each signal is on the
// page of its step.
type ResumeState struct {
	ItemID         string                `json:"item_id"`
	TaskID         string                `json:"task_id"`
	Attempt        int                   `json:"attempt"`
	Newest         *Checkpoint           `json:"newest"`
	IterationStart *Checkpoint           `json:"iteration_start"`
	IterationEnd   *Checkpoint           `json:"iteration_end"`
	ErrorBoundary  *Checkpoint           `json:"error_boundary"`
	Steps          map[string]Checkpoint `json:"steps"`           // the newest of each name; of the steps of a message, the newest
	Signals        map[string]SentSignal `json:"signals"`         // sent signals that a step waits for, by the step's name; see Awaited
	Parts          []ItemPart            `json:"parts"`           // the live parts
	Error          *Failure              `json:"error,omitempty"` // the item's last: why an attempt failed or its result was rejected
	OpenMessage    *OpenMessage          `json:"open_message"`    // the message that the next attempt continues
	// all that were said piece by piece since the item was last sent back for rework, oldest first: an ended one is not
	// to be said again
	Messages []MessageRef `json:"messages"`
	// the children of its last wait for children, and their results; nil = it never waited for any
	Children *ChildrenState `json:"children,omitempty"`
	Next     string         `json:"next,omitempty"` // cursor of the next page; "" = the last page, or everything
	Held     bool           `json:"-"`              // held by the caller's API key, which may see the payloads; not sent
}

// Add appends the next page of the same attempt to s. It replaces what was saved or
// submitted again since the earlier pages were read.
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
	if c := page.Children; c != nil {
		if s.Children != nil {
			c.Items = append(s.Children.Items, c.Items...)
		}
		s.Children = c
	}
	s.Held, s.Next = s.Held && page.Held, page.Next
}
