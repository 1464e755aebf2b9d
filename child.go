package pawl

import (
	"context"
	"encoding/json"
	"strconv"
)

// ChildNeed is how many children have to end before an item that waits for them goes on. In
// JSON it is "all", "any" or a number.
type ChildNeed int

// The values of ChildNeed that have names. Others are numbers of children.
const (
	NeedAll ChildNeed = 0
	NeedAny ChildNeed = 1
)

// MarshalJSON encodes "all", "any" or a number.
func (n ChildNeed) MarshalJSON() ([]byte, error) {
	switch n {
	case NeedAll:
		return []byte(`"all"`), nil
	case NeedAny:
		return []byte(`"any"`), nil
	}
	return strconv.AppendInt(nil, int64(n), 10), nil
}

// UnmarshalJSON decodes "all", "any" or a number of at least 1.
func (n *ChildNeed) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case `"all"`:
		*n = NeedAll
		return nil
	case `"any"`:
		*n = NeedAny
		return nil
	}
	var number int
	if err := json.Unmarshal(b, &number); err != nil || number < 1 {
		return Invalid("/need", `must be "all", "any" or a number of children`)
	}
	*n = ChildNeed(number)
	return nil
}

// ChildWait names children of an item's task, and how many of them have to end.
type ChildWait struct {
	Name      string    `json:"name,omitempty"`       // which wait it is, for the caller; AwaitChildren sets its own. ≤ 255
	IDs       []string  `json:"ids" id:"task"`        // ≤ 10,000 children of the item's task
	Need      ChildNeed `json:"need,omitempty"`       // "all" if it is left out
	OnFailure string    `json:"on_failure,omitempty"` // fail (the default), continue or cancel
}

// ChildResult is a child that has ended.
type ChildResult struct {
	ID      string          `json:"id"`
	Key     string          `json:"key,omitempty"`     // under which it was spawned
	State   TaskState       `json:"state"`             // in which it ended first
	Result  json.RawMessage `json:"result,omitempty"`  // of a task of one item that completed, up to 64 KiB
	Omitted bool            `json:"omitted,omitempty"` // it completed, and its result is not in Result: read the task's result
	Error   *Failure        `json:"error,omitempty"`   // why it failed
}

// ChildrenState is the last wait of an item for children.
type ChildrenState struct {
	Name      string        `json:"name,omitempty"`
	Need      int           `json:"need"` // how many had to end
	OnFailure string        `json:"on_failure"`
	Total     int           `json:"total"`
	Ended     int           `json:"ended"`
	Failed    int           `json:"failed"`          // of those that ended
	Over      bool          `json:"over"`            // it waits no more
	Items     []ChildResult `json:"items,omitempty"` // those that have ended, by id
}

// SpawnCall creates a task as a child of the item's task, under the item's lease.
type SpawnCall struct {
	Fence
	// unique among the children of the task: the same key again is the same child. ≤ 255
	Key  string  `json:"key"`
	Task NewTask `json:"task"`
}

// Spawner creates children of items that are worked on.
type Spawner interface {
	// Spawn creates children. The fence is checked in the transaction that creates the task: an
	// attempt that lost its lease creates nothing. If the key has a child already, the result is
	// that child, with Deduplicated set.
	Spawn(ctx context.Context, calls []SpawnCall) ([]Result[Task], error)
}
