package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-work/pawl"
)

// Items checks new items. It stops after about 20 faults.
func (f *Fields) Items(at string, items []pawl.NewItem, now time.Time) {
	for i := range items {
		it, p := &items[i], at+"/"+strconv.Itoa(i)
		f.Text(p+"/type", it.Type, 0, pawl.MaxTypeLen)
		f.TypeName(p+"/type", it.Type)
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
