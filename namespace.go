package pawl

import "time"

// NamespaceInfo is a namespace that had work.
type NamespaceInfo struct {
	Namespace      string     `json:"namespace"`
	OpenTasks      int64      `json:"open_tasks"`                 // those that have neither ended nor failed
	Queued         int64      `json:"queued"`                     // items that can be claimed
	OldestQueuedAt *time.Time `json:"oldest_queued_at,omitempty"` // when the oldest of these was created
	Workers        int64      `json:"workers"`                    // seen within WorkerLive
}
