package engine

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/jsonscan"
)

// checkTask checks the call that creates a task, except for the rules of its type. now
// bounds the times that it names.
func checkTask(t *pawl.NewTask, now time.Time) error {
	var f rules.Fields
	f.Text("/type", t.Type, 1, pawl.MaxTypeLen)
	f.TypeName("/type", t.Type)
	f.Text("/title", t.Title, 0, pawl.MaxTitleLen)
	f.Text("/input_hash", t.InputHash, 0, pawl.MaxFingerprintLen)
	f.Text("/parent_id", t.ParentID, 0, pawl.MaxIDLen)
	f.Number("/priority", t.Priority, pawl.MinPriority, pawl.MaxPriority)
	f.Number("/max_attempts", t.MaxAttempts, 0, pawl.MaxAttemptsCeiling)
	f.JSON("/payload", t.Payload, pawl.MaxPayloadBytes)
	f.Object("/metadata", &t.Metadata, pawl.MaxMetadataBytes)
	f.RunAt("/run_at", t.RunAt, now)
	f.Deadline("/deadline", t.Deadline, now)
	f.Number("/start_to_close_seconds", t.StartToCloseSeconds, 0, rules.MaxDelaySeconds)
	f.Number("/schedule_to_start_seconds", t.ScheduleToStartSeconds, 0, rules.MaxDelaySeconds)
	if n := len(t.Dedupe.Pointers); n > pawl.MaxDedupePointers {
		f.Add("/dedupe", "has %d pointers; at most %d are allowed", n, pawl.MaxDedupePointers)
	}
	if t.RequestedBy != nil {
		f.Text("/requested_by/type", t.RequestedBy.Type, 1, 50)
		f.Text("/requested_by/id", t.RequestedBy.ID, 1, pawl.MaxIDLen)
	}
	if len(t.Items) > pawl.MaxItemsPerTask {
		f.Add("/items", "has %d items; at most %d are allowed", len(t.Items), pawl.MaxItemsPerTask)
		return f.Err("create")
	}
	f.Items("/items", t.Items, now)
	f.Conversation(t)
	f.Unique(t)
	f.Debounce(t)
	return f.Err("create")
}

// inputHash returns the hash by which a task is deduplicated: the hash that the call
// names, or the hash of what its Dedupe selects. It returns "" if the call asks for
// neither.
func inputHash(t *pawl.NewTask) (string, error) {
	if t.InputHash != "" || t.Dedupe.IsZero() {
		return t.InputHash, nil
	}
	if t.Dedupe.All {
		return rules.ContentHash(t)
	}
	var f rules.Fields
	values := map[string]json.RawMessage{}
	for i, v := range jsonscan.Select(t.Payload, t.Dedupe.Pointers) {
		p := t.Dedupe.Pointers[i]
		if v == nil {
			f.Add(fmt.Sprintf("/dedupe/%d", i), "the payload has nothing at %q", p)
		}
		values[p] = v
	}
	if err := f.Err("create"); err != nil {
		return "", err
	}
	return pawl.HashOf(values)
}

// checkTaskCall checks a call that cancels, retries or buries a task or some of its
// items.
func checkTaskCall(verb string, c *pawl.TaskCall) error {
	var f rules.Fields
	f.Text("/task_id", c.TaskID, 1, pawl.MaxIDLen)
	f.Text("/reason", c.Reason, 0, pawl.MaxReasonLen)
	for i, id := range c.ItemIDs {
		f.Text(fmt.Sprintf("/item_ids/%d", i), id, 1, pawl.MaxIDLen)
	}
	return f.Err(verb)
}

// checkAddItems checks the call that adds items to a task, except for the rules of its
// type.
func checkAddItems(c *pawl.AddItems, now time.Time) error {
	var f rules.Fields
	if n := len(c.Items); n == 0 || n > pawl.MaxItemsPerCall {
		f.Add("/items", "has %d items; 1 to %d are allowed", n, pawl.MaxItemsPerCall)
	} else {
		f.Items("/items", c.Items, now)
	}
	return f.Err("add_items")
}

// checkRequester refuses the name of a requester that others could read as a type and a name, as
// that of any actor.
func checkRequester(op string, r *pawl.Requester) error {
	var f rules.Fields
	if r != nil && strings.Contains(r.ID, "/") {
		f.Add("/requested_by/id", "is %q; the name of an actor has no slash", r.ID)
	}
	return f.Err(op)
}

// checkClone checks the call that clones a task.
func checkClone(c *pawl.TaskClone) error {
	var f rules.Fields
	f.Text("/task_id", c.TaskID, 1, pawl.MaxIDLen)
	f.Object("/metadata", &c.Metadata, pawl.MaxMetadataBytes)
	if c.Checkpoints && c.Unique != nil && c.Unique.OnConflict == pawl.OnConflictReplace {
		f.Add("/unique/on_conflict", "must not be replace: a clone with checkpoints does not replace a task")
	}
	if err := f.Err("clone"); err != nil {
		return err
	}
	return checkRequester("clone", c.RequestedBy)
}

// checkFork checks the call that forks a task.
func checkFork(c *pawl.TaskFork) error {
	var f rules.Fields
	f.Text("/task_id", c.TaskID, 1, pawl.MaxIDLen)
	if c.Checkpoint < 0 {
		f.Add("/checkpoint", "is %d; it must be the number of a checkpoint, or 0 to begin anew", c.Checkpoint)
	}
	return f.Err("fork")
}

// checkReserved refuses a new task of a type that Pawl itself makes tasks of.
func checkReserved(op, typ string) error {
	var f rules.Fields
	f.Reserved("/type", typ)
	return f.Err(op)
}
