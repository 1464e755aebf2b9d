package rules

import (
	"encoding/json"
	"strconv"

	"github.com/pawl-work/pawl"
)

// Unique checks the unique key of a task.
func (f *Fields) Unique(t *pawl.NewTask) {
	u := t.Unique
	if u == nil {
		return
	}
	if !t.Dedupe.IsZero() || t.InputHash != "" {
		f.Add("/unique", "cannot be given together with dedupe or input_hash")
	}
	switch u.By {
	case pawl.UniqueByKey:
		f.Text("/unique/key", u.Key, 1, pawl.MaxKeyLen)
	case pawl.UniqueByInput:
		if u.Key != "" {
			f.Add("/unique/key", `is only for by "key"`)
		}
	default:
		f.Add("/unique/by", `is %q; it must be "input" or "key"`, u.By)
	}
	f.Number("/unique/window_seconds", u.WindowSeconds, 0, pawl.MaxUniqueSeconds)
	switch u.OnConflict {
	case "", pawl.OnConflictReject, pawl.OnConflictReturn, pawl.OnConflictReplace:
	default:
		f.Add("/unique/on_conflict", `is %q; it must be "reject", "return" or "replace"`, u.OnConflict)
	}
}

// Debounce checks how a task is debounced.
func (f *Fields) Debounce(t *pawl.NewTask) {
	d := t.Debounce
	if d == nil {
		return
	}
	if t.Unique != nil {
		f.Add("/debounce", "cannot be given together with unique")
	}
	if !t.Dedupe.IsZero() || t.InputHash != "" {
		f.Add("/debounce", "cannot be given together with dedupe or input_hash")
	}
	f.Text("/debounce/key", d.Key, 1, pawl.MaxKeyLen)
	f.Number("/debounce/seconds", d.Seconds, 1, pawl.MaxDebounceSeconds)
	if d.MaxSeconds != 0 {
		f.Number("/debounce/max_seconds", d.MaxSeconds, max(1, d.Seconds), pawl.DebounceMaxTimes*pawl.MaxDebounceSeconds)
	}
	if t.RunAt != nil {
		f.Add("/run_at", "cannot be given together with debounce")
	}
	if len(t.Items) > 1 {
		f.Add("/debounce", "is for tasks of one item; this one has %d", len(t.Items))
	}
	for i := range t.Items {
		if t.Items[i].RunAt != nil {
			f.Add("/items/"+strconv.Itoa(i)+"/run_at", "cannot be given together with debounce")
			break
		}
	}
}

// ContentHash returns the hash of a task's payload and items.
func ContentHash(t *pawl.NewTask) (string, error) {
	return pawl.HashOf(struct {
		Payload json.RawMessage `json:"payload"`
		Items   []pawl.NewItem  `json:"items"`
	}{json.RawMessage(OrNull(t.Payload)), t.Items})
}

// RemovedByRetention is the state of a task in the refusal of KeyTaken.
const RemovedByRetention = "removed by retention"

// KeyTaken is the refusal of a task whose key another task has.
func KeyTaken(older pawl.Task) error {
	return &pawl.Error{Code: pawl.CodeConflict, Op: "create", TaskID: older.ID,
		Message: "the task " + older.ID + " has the same key, and is " + string(older.State)}
}
