package pawl

import "time"

// SweepOptions are the options of a sweep with their defaults,
// and the ages of retention. A zero age keeps for ever; use DefaultSweepOptions
// as the start.
type SweepOptions struct {
	ScanIntervalSeconds      int  `json:"scan_interval_seconds"`      // upper bound between passes; it is woken for the next expiry
	CreateCheckpoints        bool `json:"create_checkpoints"`         // leave an error_boundary for each expired lease
	CleanupOldCheckpoints    bool `json:"cleanup_old_checkpoints"`    // prune beyond the limit below
	CheckpointRetentionLimit int  `json:"checkpoint_retention_limit"` // per task, besides what a resume needs

	BuryAfter    time.Duration `json:"-"` // failed → dead_lettered
	StaleAfter   time.Duration `json:"-"` // one event for a task that nobody touched
	RetainTasks  time.Duration `json:"-"` // ended tasks and all that hangs on them
	RetainFailed time.Duration `json:"-"` // failed tasks, from their last change
	RetainDead   time.Duration `json:"-"` // dead-lettered tasks, from their last change
	RetainKeys   time.Duration `json:"-"` // completed keys without expiry
	RetainSweeps time.Duration `json:"-"` // sweep statistics
	RetainChunks time.Duration `json:"-"` // chunks of messages that ended
	ArchiveDir   string        `json:"-"` // "" = beside the database for SQLite; PostgreSQL then keeps the archive in its table
}

// DefaultSweepOptions are the defaults of docs/contract.md §10.
func DefaultSweepOptions() SweepOptions {
	return SweepOptions{
		ScanIntervalSeconds:      int(DefaultSweepInterval / time.Second),
		CreateCheckpoints:        true,
		CleanupOldCheckpoints:    true,
		CheckpointRetentionLimit: DefaultCheckpointsKept,
		BuryAfter:                DefaultBuryAfter,
		StaleAfter:               DefaultStaleAfter,
		RetainTasks:              DefaultRetainTasks,
		RetainFailed:             DefaultRetainFailed,
		RetainDead:               DefaultRetainFailed,
		RetainKeys:               DefaultRetainKeys,
		RetainSweeps:             DefaultRetainSweeps,
		RetainChunks:             DefaultRetainChunks,
	}
}

// SweepStats is one pass, what it found and what it did.
type SweepStats struct {
	ExpiredFound       int64 `json:"expired_found"`
	Recovered          int64 `json:"recovered"`
	Failed             int64 `json:"failed"`
	CheckpointsCreated int64 `json:"checkpoints_created"`
	Errors             int64 `json:"errors"`
	ScanDurationMS     int64 `json:"scan_duration_ms"`

	Due          int64     `json:"due"`              // scheduled and waiting items that became queued
	GivenUp      int64     `json:"given_up"`         // items whose dependency failed
	Buried       int64     `json:"buried"`           // items and tasks set aside
	Stale        int64     `json:"stale"`            // tasks marked stale
	TasksPruned  int64     `json:"tasks_pruned"`     // archived and deleted
	KeysPruned   int64     `json:"keys_pruned"`      //
	Checkpoints  int64     `json:"pruned"`           // checkpoints pruned
	StartedAt    time.Time `json:"started_at"`       //
	NextExpiryAt time.Time `json:"next_at,omitzero"` // the next time something falls due
}

// Prunable is what a sweep would remove now, in all namespaces. The numbers are
// those of SweepStats.TasksPruned and KeysPruned.
type Prunable struct {
	Tasks   int64    `json:"tasks"`          // archived and removed; at most MaxPrunable are counted
	TaskIDs []string `json:"task_ids"`       // of at most MaxPage of them, in order of ids
	More    bool     `json:"more,omitempty"` // there are more tasks than were counted
	Keys    int64    `json:"keys"`           // idempotency keys
}

// SweepTotals adds the passes up, over all servers and restarts.
type SweepTotals struct {
	IsRunning      bool        `json:"is_running"` // in this process, or a server reported within two intervals
	TotalScans     int64       `json:"total_scans"`
	TotalRecovered int64       `json:"total_recovered"`
	TotalFailed    int64       `json:"total_failed"`
	LastScan       *SweepStats `json:"last_scan"`
}

// Archive is one archived task: everything that hung on it, as compressed JSONL.
type Archive struct {
	TaskID     string     `json:"task_id"`
	Path       string     `json:"path,omitempty"`
	Bytes      int64      `json:"bytes"`
	SHA256     string     `json:"sha256"`
	CreatedAt  time.Time  `json:"created_at"`
	RestoredAt *time.Time `json:"restored_at,omitempty"`
}
