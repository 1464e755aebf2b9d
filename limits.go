package pawl

import "time"

// Limit is one row of Limits.
type Limit struct {
	Name  string
	Value int64
	Unit  string
	Means string
}

// The bounds of the contract (§9), in the units their names say.
const (
	MaxTypeLen         = 120
	MaxPartKeyLen      = 120
	MaxScopeLen        = 255
	MaxKeyLen          = 255
	MaxIDLen           = 255
	MaxTitleLen        = 200
	MaxStageLen        = 500
	MaxStepNameLen     = 255
	MaxReasonLen       = 2000
	MaxPayloadBytes    = 1 << 20
	MaxMetadataBytes   = 16 << 10
	MaxErrorBytes      = 64 << 10
	MaxBodyBytes       = 8 << 20
	MaxItemsPerCall    = 10_000
	MaxItemsPerTask    = 100_000
	MaxClaim           = 1000
	MaxLeaseSeconds    = 86_400
	MaxWaitSeconds     = 60
	MaxPage            = 1000
	MaxAttemptsCeiling = 1000
	MaxRework          = 5
	MinPriority        = -32768
	MaxPriority        = 32767
)

// MaxDelay bounds every time that lies ahead (run_at, retry_after, until): ten
// years, far from where durations overflow.
const MaxDelay = 10 * 365 * 24 * time.Hour

// The defaults of the contract (§10).
const (
	DefaultMaxAttempts     = 3
	DefaultLeaseSeconds    = 300
	DefaultPage            = 100
	DefaultHeartbeatMisses = 3
	DefaultStaleBeats      = 4
	DefaultKeyTTL          = 24 * time.Hour
	DefaultKeyLease        = 60 * time.Second
	DefaultSweepInterval   = 60 * time.Second
	DefaultCheckpointsKept = 100
	DefaultBuryAfter       = 48 * time.Hour
	DefaultStaleAfter      = 24 * time.Hour
	DefaultRetainTasks     = 30 * 24 * time.Hour
	DefaultRetainKeys      = 7 * 24 * time.Hour
	DefaultRetainSweeps    = 7 * 24 * time.Hour
	DefaultStopGrace       = 30 * time.Second
	BackoffBase            = 60 * time.Second
	BackoffMax             = time.Hour
	BackoffJitter          = 0.2
)

// Limits is the table of bounds, for the documents and the API description.
var Limits = []Limit{
	{"type", MaxTypeLen, "characters", "name of a type"},
	{"part_key", MaxPartKeyLen, "characters", "key of a part"},
	{"scope", MaxScopeLen, "characters", "scope of an idempotency key"},
	{"key", MaxKeyLen, "characters", "an idempotency key, an item's key"},
	{"id", MaxIDLen, "characters", "worker ids, agent names and other ids given by callers"},
	{"title", MaxTitleLen, "characters", "title of a task"},
	{"stage", MaxStageLen, "characters", "stage of an item"},
	{"step_name", MaxStepNameLen, "characters", "name of a checkpoint"},
	{"reason", MaxReasonLen, "characters", "reason, comment or notes"},
	{"payload", MaxPayloadBytes, "bytes", "payload, input, result, snapshot, part"},
	{"metadata", MaxMetadataBytes, "bytes", "metadata of a task or checkpoint"},
	{"error", MaxErrorBytes, "bytes", "an item's error, detail included"},
	{"body", MaxBodyBytes, "bytes", "body of one HTTP request"},
	{"items_per_call", MaxItemsPerCall, "items", "items in one call"},
	{"items_per_task", MaxItemsPerTask, "items", "items of a task when it is created; more by add_items"},
	{"claim", MaxClaim, "items", "items of one claim"},
	{"lease_seconds", MaxLeaseSeconds, "seconds", "length of a lease"},
	{"wait_seconds", MaxWaitSeconds, "seconds", "how long a claim may wait"},
	{"page", MaxPage, "rows", "rows of one page"},
	{"max_attempts", MaxAttemptsCeiling, "failures", "budget of an item"},
	{"delay", int64(MaxDelay / time.Second), "seconds", "how far ahead a time may lie"},
}
