package pawl

// Unique asks that no other task of the type has the same input or key: as long as the older
// one has not ended, and WindowSeconds after its creation. A task that is failed or
// dead-lettered counts as ended. The window is that of the older task.
type Unique struct {
	By            string `json:"by"`                       // UniqueByInput or UniqueByKey
	Key           string `json:"key,omitempty"`            // for UniqueByKey: 1 to 255 characters
	WindowSeconds int    `json:"window_seconds,omitempty"` // 0 = none; at most MaxUniqueSeconds
	OnConflict    string `json:"on_conflict,omitempty"`    // "" = OnConflictReject
}

// Debounce delays a task, and lets later creates of its type with the same key replace it: a
// create that finds the task before it is due moves its run_at to Seconds from now, and replaces
// its payload. The task must have one item.
type Debounce struct {
	Key     string `json:"key"`     // 1 to 255 characters
	Seconds int    `json:"seconds"` // 1 to MaxDebounceSeconds
	// the longest delay, from the first create, whose value counts; 0 = DebounceMaxTimes times
	// Seconds
	MaxSeconds int `json:"max_seconds,omitempty"`
}
