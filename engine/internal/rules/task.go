package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/jsonscan"
)

// CheckTask checks the call that creates a task, except for the rules of its type. now
// bounds the times that it names.
func CheckTask(t *pawl.NewTask, now time.Time) error {
	var f Fields
	f.Text("/type", t.Type, 1, pawl.MaxTypeLen)
	f.typeName("/type", t.Type)
	f.Text("/title", t.Title, 0, pawl.MaxTitleLen)
	f.Text("/input_hash", t.InputHash, 0, pawl.MaxFingerprintLen)
	f.Text("/parent_id", t.ParentID, 0, pawl.MaxIDLen)
	f.Number("/priority", t.Priority, pawl.MinPriority, pawl.MaxPriority)
	f.Number("/max_attempts", t.MaxAttempts, 0, pawl.MaxAttemptsCeiling)
	f.JSON("/payload", t.Payload, pawl.MaxPayloadBytes)
	f.Object("/metadata", &t.Metadata, pawl.MaxMetadataBytes)
	f.RunAt("/run_at", t.RunAt, now)
	f.Deadline("/deadline", t.Deadline, now)
	f.Number("/start_to_close_seconds", t.StartToCloseSeconds, 0, maxDelaySeconds)
	f.Number("/schedule_to_start_seconds", t.ScheduleToStartSeconds, 0, maxDelaySeconds)
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
	f.conversation(t)
	f.unique(t)
	f.debounce(t)
	return f.Err("create")
}

// Items checks new items. It stops after about 20 faults.
func (f *Fields) Items(at string, items []pawl.NewItem, now time.Time) {
	for i := range items {
		it, p := &items[i], at+"/"+strconv.Itoa(i)
		f.Text(p+"/type", it.Type, 0, pawl.MaxTypeLen)
		f.typeName(p+"/type", it.Type)
		f.Text(p+"/key", it.Key, 0, pawl.MaxKeyLen)
		for n, key := range it.After {
			f.Text(p+"/after/"+strconv.Itoa(n), key, 1, pawl.MaxKeyLen)
		}
		f.JSON(p+"/input", it.Input, pawl.MaxPayloadBytes)
		f.Number(p+"/max_attempts", it.MaxAttempts, 0, pawl.MaxAttemptsCeiling)
		f.RunAt(p+"/run_at", it.RunAt, now)
		f.Deadline(p+"/deadline", it.Deadline, now)
		if it.Priority != nil {
			f.Number(p+"/priority", *it.Priority, pawl.MinPriority, pawl.MaxPriority)
		}
		if len(*f) > 20 {
			return
		}
	}
}

// InputHash returns the hash by which a task is deduplicated: the hash that the call
// names, or the hash of what its Dedupe selects. It returns "" if the call asks for
// neither.
func InputHash(t *pawl.NewTask) (string, error) {
	if t.InputHash != "" || t.Dedupe.IsZero() {
		return t.InputHash, nil
	}
	if t.Dedupe.All {
		return inputHash(t)
	}
	var f Fields
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

// CheckUpdate checks the call that updates a task.
func CheckUpdate(call *pawl.TaskUpdate) error {
	var f Fields
	f.Text("/task_id", call.TaskID, 1, pawl.MaxIDLen)
	f.Object("/metadata", &call.Metadata, pawl.MaxMetadataBytes)
	if call.Title == nil && call.Priority == nil && len(call.Metadata) == 0 {
		f.Add("", "asks for no change; there are title, priority and metadata")
	}
	if call.Title != nil {
		f.Text("/title", *call.Title, 0, pawl.MaxTitleLen)
	}
	if call.Priority != nil {
		f.Number("/priority", *call.Priority, pawl.MinPriority, pawl.MaxPriority)
	}
	return f.Err("update")
}

// CheckUpdatable refuses an update of a task that has ended, or that has another
// version than the call names.
func CheckUpdatable(t pawl.Task, call *pawl.TaskUpdate) error {
	if call.Version != nil && *call.Version != t.Version {
		return VersionMismatch("update", string(t.State), t.Version, *call.Version)
	}
	if t.State.Ended() {
		return Conflict("update", string(t.State), t.State.Allowed())
	}
	return nil
}

// VersionMismatch returns the refusal of a call that names another version than the
// task has.
func VersionMismatch(verb, state string, has, named int) error {
	return &pawl.Error{Code: pawl.CodePrecondition, Op: verb, State: state, Allowed: pawl.TaskState(state).Allowed(),
		Message: fmt.Sprintf("the task has version %d, not %d: it has changed since you looked", has, named)}
}

// Update returns the task with the changes of a call, and the changed members with
// their old and new values, as JSON; "" if nothing changes.
func Update(t pawl.Task, call *pawl.TaskUpdate) (updated pawl.Task, diff string, err error) {
	type change struct {
		From any `json:"from"`
		To   any `json:"to"`
	}
	changes := map[string]change{}
	if call.Title != nil && *call.Title != t.Title {
		changes["title"] = change{t.Title, *call.Title}
		t.Title = *call.Title
	}
	if call.Priority != nil && *call.Priority != t.Priority {
		changes["priority"] = change{t.Priority, *call.Priority}
		t.Priority = *call.Priority
	}
	if len(call.Metadata) > 0 {
		merged := MergePatch(t.Metadata, call.Metadata)
		var f Fields
		f.Object("/metadata", &merged, pawl.MaxMetadataBytes)
		if err := f.Err("update"); err != nil {
			return t, "", err
		}
		if !bytes.Equal(MergePatch(json.RawMessage("{}"), t.Metadata), merged) {
			changes["metadata"] = change{t.Metadata, merged}
			t.Metadata = merged
		}
	}
	if len(changes) == 0 {
		return t, "", nil
	}
	b, err := json.Marshal(changes)
	return t, string(b), err
}

// MergePatch applies a JSON merge patch (RFC 7396) to an object. The names of the
// result are sorted.
func MergePatch(target, patch json.RawMessage) json.RawMessage {
	var with map[string]json.RawMessage
	if json.Unmarshal(patch, &with) != nil || with == nil {
		return patch
	}
	into := map[string]json.RawMessage{}
	_ = json.Unmarshal(target, &into) // anything but an object is replaced by one
	if into == nil {
		into = map[string]json.RawMessage{}
	}
	for name, value := range with {
		if string(bytes.TrimSpace(value)) == "null" {
			delete(into, name)
			continue
		}
		into[name] = MergePatch(into[name], value)
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for i, name := range slices.Sorted(maps.Keys(into)) {
		if i > 0 {
			b.WriteByte(',')
		}
		key, _ := json.Marshal(name) // a string can always be encoded
		b.Write(append(append(key, ':'), into[name]...))
	}
	b.WriteByte('}')
	return b.Bytes()
}

// CheckTaskCall checks a call that cancels, retries or buries a task or some of its
// items.
func CheckTaskCall(verb string, c *pawl.TaskCall) error {
	var f Fields
	f.Text("/task_id", c.TaskID, 1, pawl.MaxIDLen)
	f.Text("/reason", c.Reason, 0, pawl.MaxReasonLen)
	for i, id := range c.ItemIDs {
		f.Text(fmt.Sprintf("/item_ids/%d", i), id, 1, pawl.MaxIDLen)
	}
	return f.Err(verb)
}

// CheckAddItems checks the call that adds items to a task, except for the rules of its
// type.
func CheckAddItems(c *pawl.AddItems, now time.Time) error {
	var f Fields
	if n := len(c.Items); n == 0 || n > pawl.MaxItemsPerCall {
		f.Add("/items", "has %d items; 1 to %d are allowed", n, pawl.MaxItemsPerCall)
	} else {
		f.Items("/items", c.Items, now)
	}
	return f.Err("add_items")
}

// CheckRequester refuses the name of a requester that others could read as a type and a name, as
// that of any actor.
func CheckRequester(op string, r *pawl.Requester) error {
	var f Fields
	if r != nil && strings.Contains(r.ID, "/") {
		f.Add("/requested_by/id", "is %q; the name of an actor has no slash", r.ID)
	}
	return f.Err(op)
}

// CheckClone checks the call that clones a task.
func CheckClone(c *pawl.TaskClone) error {
	var f Fields
	f.Text("/task_id", c.TaskID, 1, pawl.MaxIDLen)
	f.Object("/metadata", &c.Metadata, pawl.MaxMetadataBytes)
	if c.Checkpoints && c.Unique != nil && c.Unique.OnConflict == pawl.OnConflictReplace {
		f.Add("/unique/on_conflict", "must not be replace: a clone with checkpoints does not replace a task")
	}
	if err := f.Err("clone"); err != nil {
		return err
	}
	return CheckRequester("clone", c.RequestedBy)
}

// CheckFork checks the call that forks a task.
func CheckFork(c *pawl.TaskFork) error {
	var f Fields
	f.Text("/task_id", c.TaskID, 1, pawl.MaxIDLen)
	if c.Checkpoint < 0 {
		f.Add("/checkpoint", "is %d; it must be the number of a checkpoint, or 0 to begin anew", c.Checkpoint)
	}
	return f.Err("fork")
}

// CheckSignal checks the call that sends a signal.
func CheckSignal(c *pawl.SignalCall) error {
	var f Fields
	f.Text("/name", c.Name, 1, pawl.MaxKeyLen)
	f.Text("/key", c.Key, 0, pawl.MaxKeyLen)
	f.JSON("/payload", c.Payload, pawl.MaxPayloadBytes)
	return f.Err("signal")
}
