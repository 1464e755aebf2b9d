package pawl

import "time"

// SweepOptions are the settings of sweeps and retention. A retention of zero keeps rows
// for ever. Start from DefaultSweepOptions. Engines store those of retention in the database.
type SweepOptions struct {
	ScanIntervalSeconds      int  `json:"scan_interval_seconds"`      // longest pause between passes; an expiry starts one earlier
	CreateCheckpoints        bool `json:"create_checkpoints"`         // save an error_boundary for each expired lease
	CleanupOldCheckpoints    bool `json:"cleanup_old_checkpoints"`    // prune checkpoints beyond the limit below
	CheckpointRetentionLimit int  `json:"checkpoint_retention_limit"` // per task, in addition to what a resume needs

	BuryAfter      time.Duration `json:"-"` // failed → dead_lettered
	StaleAfter     time.Duration `json:"-"` // one event for a task without changes
	RetainTasks    time.Duration `json:"-"` // ended tasks with all their rows
	RetainFailed   time.Duration `json:"-"` // failed tasks, from their last change
	RetainDead     time.Duration `json:"-"` // dead-lettered tasks, from their last change
	RetainKeys     time.Duration `json:"-"` // completed keys without expiry
	RetainSweeps   time.Duration `json:"-"` // sweep statistics
	RetainChunks   time.Duration `json:"-"` // chunks of messages that ended
	RetainSignals  time.Duration `json:"-"` // sent signals that no item waits for
	RetainEffects  time.Duration `json:"-"` // keys of effects whose tasks are gone, after they were made
	RetainCounters time.Duration `json:"-"` // counters of queues by the minute
	ArchiveDir     string        `json:"-"` // "" = next to the database for SQLite; in a table for PostgreSQL
}

// DefaultSweepOptions returns the defaults of docs/contract.md §10.
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
		RetainSignals:            DefaultRetainSignals,
		RetainEffects:            DefaultRetainEffects,
		RetainCounters:           DefaultRetainCounters,
	}
}

// SweepStats are the numbers of one pass.
type SweepStats struct {
	ExpiredFound       int64 `json:"expired_found"`
	Recovered          int64 `json:"recovered"`
	Failed             int64 `json:"failed"`
	CheckpointsCreated int64 `json:"checkpoints_created"`
	Errors             int64 `json:"errors"`
	ScanDurationMS     int64 `json:"scan_duration_ms"`

	Due           int64     `json:"due"`              // scheduled and waiting items that became queued
	GivenUp       int64     `json:"given_up"`         // items whose dependency failed, or whose time passed
	Buried        int64     `json:"buried"`           // items and tasks dead-lettered
	Stale         int64     `json:"stale"`            // tasks marked stale
	TasksPruned   int64     `json:"tasks_pruned"`     // archived and deleted
	KeysPruned    int64     `json:"keys_pruned"`      //
	Checkpoints   int64     `json:"pruned"`           // checkpoints pruned
	SignalsPruned int64     `json:"signals_pruned"`   // sent signals that no item waited for
	StartedAt     time.Time `json:"started_at"`       //
	NextExpiryAt  time.Time `json:"next_at,omitzero"` // the next time that something is due
}

// Did reports whether the pass changed anything or met an error.
func (s SweepStats) Did() bool {
	return s.ExpiredFound+s.Recovered+s.Failed+s.CheckpointsCreated+s.Errors+s.Due+s.GivenUp+s.Buried+s.Stale+
		s.TasksPruned+s.KeysPruned+s.Checkpoints+s.SignalsPruned > 0
}

// Prunable is what a sweep would remove now, in all namespaces. The numbers correspond
// to SweepStats.TasksPruned, KeysPruned and SignalsPruned.
type Prunable struct {
	Tasks   int64    `json:"tasks"`          // tasks to archive and remove; at most MaxPrunable are counted
	TaskIDs []string `json:"task_ids"`       // at most MaxPage of their ids, sorted
	More    bool     `json:"more,omitempty"` // there are more tasks than counted
	Keys    int64    `json:"keys"`           // idempotency keys
	Signals int64    `json:"signals"`        // sent signals that no item waits for
}

// SweepTotals are the sums over all passes, of all servers and restarts.
type SweepTotals struct {
	IsRunning      bool        `json:"is_running"` // in this process, or a server reported within two intervals
	TotalScans     int64       `json:"total_scans"`
	TotalRecovered int64       `json:"total_recovered"`
	TotalFailed    int64       `json:"total_failed"`
	LastScan       *SweepStats `json:"last_scan"`

	Settings map[string]string `json:"settings,omitempty"` // of retention, as they count for all processes
}

// Archive is one archived task: all its rows as compressed JSONL.
type Archive struct {
	TaskID     string     `json:"task_id"`
	Path       string     `json:"path,omitempty"`
	Bytes      int64      `json:"bytes"`
	SHA256     string     `json:"sha256"`
	CreatedAt  time.Time  `json:"created_at"`
	RestoredAt *time.Time `json:"restored_at,omitempty"`
}
