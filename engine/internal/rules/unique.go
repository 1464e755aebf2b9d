package rules

import (
	"encoding/json"
	"strconv"

	"github.com/pawl-work/pawl"
)

func (f *Fields) unique(t *pawl.NewTask) {
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

func (f *Fields) debounce(t *pawl.NewTask) {
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

// UniqueKey returns the key that a new task asks for by its Unique or Debounce; "" = none.
// Keys of different kinds are never equal.
func UniqueKey(t *pawl.NewTask) (string, error) {
	switch {
	case t.Debounce != nil:
		return "debounce:" + t.Debounce.Key, nil
	case t.Unique == nil:
		return "", nil
	case t.Unique.By == pawl.UniqueByKey:
		return CallersKey(t.Unique.Key), nil
	}
	hash, err := inputHash(t)
	return "input:" + hash, err
}

// CallersKey returns the key of a task that is unique by a key of its caller, as it is stored.
func CallersKey(key string) string { return "key:" + key }

// inputHash returns the hash of a task's payload and items.
func inputHash(t *pawl.NewTask) (string, error) {
	return pawl.HashOf(struct {
		Payload json.RawMessage `json:"payload"`
		Items   []pawl.NewItem  `json:"items"`
	}{json.RawMessage(OrNull(t.Payload)), t.Items})
}

// Live reports whether a task in the state keeps its key for itself.
func Live(s pawl.TaskState) bool {
	return !s.Ended() && s != pawl.TaskFailed && s != pawl.TaskDeadLettered
}
