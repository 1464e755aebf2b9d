package pawl

import (
	"encoding/json"
	"time"
)

// The verbs of a BulkCall.
const (
	BulkRetry  = "retry"
	BulkCancel = "cancel"
	BulkBury   = "bury"
	BulkDelete = "delete"
	BulkUpdate = "update"
)

// BulkCall applies a verb to each task that a filter selects. Only tasks that were created
// before the call count, and never those of TypeBulk.
type BulkCall struct {
	Verb   string     `json:"verb"`             // one of BulkVerbs
	Filter BulkFilter `json:"filter"`           // not empty
	Update *BulkPatch `json:"update,omitempty"` // of the verb update: what changes
	Force  bool       `json:"force,omitempty"`  // of the verb delete: also tasks that have not ended
	Reason string     `json:"reason,omitempty"` // for the events; ≤ 2000 characters
	DryRun bool       `json:"dry_run,omitempty"`
}

// BulkPatch is what a bulk update changes of each task; nil keeps a value. See TaskUpdate.
type BulkPatch struct {
	Title    *string         `json:"title,omitempty"`
	Priority *int            `json:"priority,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// Call returns the patch as the update of a task.
func (p *BulkPatch) Call(taskID string) TaskUpdate {
	return TaskUpdate{TaskID: taskID, Title: p.Title, Priority: p.Priority, Metadata: p.Metadata}
}

// BulkFilter selects tasks by the parameters of a list of tasks, as JSON. A task must meet
// every member.
type BulkFilter struct {
	ID                Texts        `json:"id,omitempty"`
	Type              Texts        `json:"type,omitempty"`
	State             Texts        `json:"state,omitempty"`
	Status            Texts        `json:"status,omitempty"`
	MinPriority       *int         `json:"min_priority,omitempty"`
	MaxPriority       *int         `json:"max_priority,omitempty"`
	Metadata          MemberValues `json:"metadata,omitempty"`
	UpdatedSince      time.Time    `json:"updated_since,omitzero"`
	RequestedBy       string       `json:"requested_by,omitempty"`
	InputHash         string       `json:"input_hash,omitempty"`
	HasAvailableItems *bool        `json:"has_available_items,omitempty"`
	Search            string       `json:"q,omitempty"`
	TitlePrefix       string       `json:"title,omitempty"`
	Error             string       `json:"error,omitempty"`
	// Failure names a group of failures. Retry, cancel and bury then apply only to the items of
	// the group, not to the other items of their tasks.
	Failure string    `json:"failure,omitempty"`
	Since   time.Time `json:"since,omitzero"` // created at or after
	Until   time.Time `json:"until,omitzero"` // created before
}

// Tasks returns the filter as that of a list.
func (f *BulkFilter) Tasks() TaskFilter {
	out := TaskFilter{IDs: f.ID, Types: f.Type, MinPriority: f.MinPriority, MaxPriority: f.MaxPriority, Metadata: f.Metadata,
		Changed: f.UpdatedSince, RequestedBy: f.RequestedBy, InputHash: f.InputHash, Available: f.HasAvailableItems, Since: f.Since,
		Until: f.Until, Search: f.Search, TitlePrefix: f.TitlePrefix, Error: f.Error, Failure: f.Failure}
	for _, s := range f.State {
		out.States = append(out.States, TaskState(s))
	}
	for _, s := range f.Status {
		out.Statuses = append(out.Statuses, Status(s))
	}
	return out
}

// IsEmpty reports whether the filter selects every task.
func (f *BulkFilter) IsEmpty() bool {
	return len(f.ID)+len(f.Type)+len(f.State)+len(f.Status)+len(f.Metadata) == 0 && f.MinPriority == nil && f.MaxPriority == nil &&
		f.UpdatedSince.IsZero() && f.RequestedBy == "" && f.InputHash == "" && f.HasAvailableItems == nil && f.Since.IsZero() &&
		f.Until.IsZero() && f.Search+f.TitlePrefix+f.Error+f.Failure == ""
}

// Texts is a list of texts. In JSON it may be one text.
type Texts []string

// UnmarshalJSON decodes a text or a list of texts.
func (t *Texts) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*t = Texts{""}
		return json.Unmarshal(b, &(*t)[0])
	}
	return json.Unmarshal(b, (*[]string)(t))
}

// MemberValues has members of metadata and their values: a text, or the JSON of a number,
// true or false. In JSON these values may be given as they are.
type MemberValues map[string]string

// UnmarshalJSON decodes an object of texts, numbers, true and false.
func (m *MemberValues) UnmarshalJSON(b []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	*m = make(MemberValues, len(raw))
	for name, v := range raw {
		text := string(v)
		if v[0] == '"' || v[0] == '{' || v[0] == '[' || text == "null" { // what is not a text is refused here
			var s *string
			if err := json.Unmarshal(v, &s); err != nil {
				return err
			}
			if s == nil {
				return &json.UnmarshalTypeError{Value: "null", Field: name}
			}
			text = *s
		}
		(*m)[name] = text
	}
	return nil
}

// MarshalJSON encodes an object of texts.
func (m MemberValues) MarshalJSON() ([]byte, error) { return json.Marshal(map[string]string(m)) }

// BulkResult counts what a bulk call has done. It is the result of its task. Until the task
// ends, the task's metadata has the counts so far.
type BulkResult struct {
	Matched int64 `json:"matched"` // tasks that the filter selected
	Changed int64 `json:"changed"`
	Skipped int64 `json:"skipped"` // in a state that does not allow the verb, gone, or as asked for already
	Failed  int64 `json:"failed"`
	// Errors are those of the first MaxBulkErrors tasks that failed.
	Errors []BulkError `json:"errors,omitempty"`
}

// BulkError says why a bulk call failed for a task.
type BulkError struct {
	TaskID  string `json:"task_id"`
	Code    Code   `json:"code"`
	Message string `json:"message"`
}
