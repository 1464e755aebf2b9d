package pawl

import "time"

// Limit is one row of Limits.
type Limit struct {
	Name  string
	Value int64
	Unit  string
	Means string
}

// The bounds and the defaults. Each name says the unit, or Limits and Defaults do.
const (
	// The bounds of docs/contract.md §9. Each name says the unit, or Limits does.
	MaxTypeLen         = 120
	MaxPartKeyLen      = 120
	MaxScopeLen        = 255
	MaxKeyLen          = 255
	MaxIDLen           = 255
	MaxTitleLen        = 200
	MaxFingerprintLen  = 64
	MaxStageLen        = 500
	MaxStepNameLen     = 1024
	MaxReasonLen       = 2000
	MaxPayloadBytes    = 1 << 20
	MaxMetadataBytes   = 16 << 10
	MaxErrorBytes      = 64 << 10
	MaxBodyBytes       = 8 << 20
	MaxBodyValues      = 1_000_000
	MaxDepth           = 500
	MaxDedupePointers  = 16
	MaxConcurrency     = 1_000_000
	MaxRate            = 1_000_000
	MaxRateSeconds     = 31 * 86400
	MaxWeight          = 1000
	MaxWeights         = 1000
	MaxMCPBatch        = 100
	MaxItemsPerCall    = 10_000
	MaxItemsPerTask    = 100_000
	MaxCopyRows        = 100_000
	MaxTraceState      = 512
	MaxClaim           = 1000
	MaxLeaseSeconds    = 86_400
	MaxLockSeconds     = 3600
	MaxSchedules       = 10_000
	MaxWaitSeconds     = 60
	MinReturnSeconds   = 60
	MaxMCPWait         = 50
	MaxMCPAnswer       = 64 << 10
	MaxMCPClaim        = 32
	MaxWorkers         = 10_000
	MaxKnownNames      = 10_000
	MaxPage            = 1000
	MaxPrunable        = 100_000
	MaxAttemptsCeiling = 1000
	MaxRework          = 5
	MaxParts           = 100
	MaxChunksPerCall   = 10_000
	MaxAppendBytes     = 4 << 20
	MaxPageBytes       = 8 << 20
	MaxClaimBytes      = 8 << 20
	MaxAnswerBytes     = 8 << 20
	MaxCallBytes       = 32 << 20
	MaxMessageBytes    = 16 << 20
	MaxGroupBytes      = 8 << 20
	MaxMessages        = 1000
	MaxSteps           = 10_000
	MinBlobBytes       = 4 << 10
	MaxBlobDepth       = 10_000
	MaxBlobPiece       = 256 << 10
	MaxChildren        = 100_000
	MaxChildDepth      = 100
	MaxAwaited         = 10_000
	MaxChildResult     = 64 << 10
	MaxBudgetAmount    = 1_000_000_000_000_000
	MaxBudgetNameLen   = 120
	MaxEffectNameLen   = 200
	MaxEffectSenders   = 100
	MaxReceiptEvents   = 1000
	MaxUnitLen         = 60
	MinPriority        = -32768
	MaxPriority        = 32767
	MaxCronLen         = 255
	MaxJitterSeconds   = 86_400
	MaxCatchUp         = 100
	MaxQueuedFirings   = 100
	FiringsPerRound    = 500
	TicksShown         = 10
	MaxUniqueSeconds   = 366 * 86_400
	MaxDebounceSeconds = 31 * 86_400
	DebounceMaxTimes   = 10
	MaxBulkErrors      = 100
	MaxBulkErrorLen    = 120
	BulkStep           = 1000
	BulksPerEngine     = 4
	MaxSeriesTypes     = 100
	MaxSeriesPoints    = 20_000
	MaxMeasuredEvents  = 20_000
	MaxRepeatEvents    = 20_000
	MaxTries           = 100

	// MaxDelay bounds how far in the future a time may be (run_at, retry_after, until): ten
	// years, which no duration overflows.
	MaxDelay = 10 * 365 * 24 * time.Hour

	// MaxSeriesSpan bounds the time between Since and Until of a SeriesQuery.
	MaxSeriesSpan = 366 * 24 * time.Hour

	// The bounds of appends of checkpoints, and of their rules.
	MaxAppendCheckpoints = 1000
	MaxPrunedCheckpoints = 1000
	MaxPruneRules        = 100
	MaxKeptCheckpoints   = 1_000_000
	MaxRefs              = 1000

	// The defaults of docs/contract.md §10.
	DefaultMaxAttempts     = 3
	DefaultLeaseSeconds    = 300
	DefaultPage            = 100
	HeartbeatsPerLease     = 10
	DefaultHeartbeatMisses = 3
	DefaultStaleBeats      = 4
	DefaultKeyTTL          = 24 * time.Hour
	DefaultKeyLease        = 60 * time.Second
	DefaultSweepInterval   = 60 * time.Second
	DefaultCheckpointsKept = 100
	DefaultBuryAfter       = 48 * time.Hour
	DefaultStaleAfter      = 24 * time.Hour
	DefaultRetainTasks     = 30 * 24 * time.Hour
	DefaultRetainFailed    = 90 * 24 * time.Hour
	DefaultRetainKeys      = 7 * 24 * time.Hour
	DefaultRetainSweeps    = 7 * 24 * time.Hour
	RetainWorkers          = 7 * 24 * time.Hour
	DefaultStopGrace       = 30 * time.Second
	DefaultMaxSteps        = 10
	DefaultFlush           = 100 * time.Millisecond
	MaxFlush               = time.Second
	DefaultRetainChunks    = 24 * time.Hour
	MessageStalls          = time.Minute // without a chunk, an open message that no worker holds is stalled
	DefaultRetainSignals   = 30 * 24 * time.Hour
	DefaultRetainEffects   = 365 * 24 * time.Hour
	DefaultRetainCounters  = 14 * 24 * time.Hour
	RetainBudgetSignals    = 24 * time.Hour

	DefaultInboundTolerance = 5 * time.Minute
	DefaultInboundKept      = 30 * 24 * time.Hour

	DefaultRetainBlobs    = 24 * time.Hour
	DefaultRetainUploads  = time.Hour
	DefaultMaxBlobBytes   = 64 << 20
	DefaultReadTime       = 30 * time.Second
	DefaultReadsPerKey    = 2
	DefaultMaxTypes       = 1000
	QueuesPerType         = 4
	DefaultBodiesInFlight = 64 << 20
	BudgetDetailKept      = 30 * 24 * time.Hour
	BudgetRetry           = time.Minute
	DefaultRetainFirings  = 7 * 24 * time.Hour
	ScheduleGrace         = 60 * time.Second
	ScheduleRecheck       = time.Second
	BackoffBase           = 60 * time.Second
	BackoffMax            = time.Hour
	BackoffJitter         = 0.2
	DefaultTries          = 3
	TriesBase             = time.Second
	TriesMax              = 30 * time.Second
)

// The tables of bounds and of defaults, and two bounds that are no numbers.
var (
	// Limits is the table of bounds, for the documentation and the API description.
	Limits = []Limit{
		{"type", MaxTypeLen, "characters", "name of a type"},
		{"part_key", MaxPartKeyLen, "characters", "key of a part"},
		{"scope", MaxScopeLen, "characters", "scope of an idempotency key"},
		{"key", MaxKeyLen, "characters", "an idempotency key, an item's key, a signal's name and key"},
		{"id", MaxIDLen, "characters", "worker ids, agent names and other ids given by callers"},
		{"title", MaxTitleLen, "characters", "title of a task"},
		{"fingerprint", MaxFingerprintLen, "characters", "an input hash, the fingerprint of a request"},
		{"stage", MaxStageLen, "characters", "stage of an item"},
		{"step_name", MaxStepNameLen, "bytes", "name of a checkpoint"},
		{"reason", MaxReasonLen, "characters", "reason, comment or notes"},
		{"payload", MaxPayloadBytes, "bytes", "payload, input, result, snapshot, part"},
		{"metadata", MaxMetadataBytes, "bytes", "metadata of a task or checkpoint"},
		{"error", MaxErrorBytes, "bytes", "an item's error, detail included"},
		{"body", MaxBodyBytes, "bytes", "body of one HTTP request"},
		{"body_values", MaxBodyValues, "values", "names and values of one HTTP request, payloads and the like not counted"},
		{"depth", MaxDepth, "levels", "nesting of a JSON value"},
		{"dedupe_pointers", MaxDedupePointers, "pointers", "pointers that a dedupe names"},
		{"concurrency", MaxConcurrency, "leases", "at once in a queue, of a worker or of a key: the highest limit that can be set"},
		{"rate", MaxRate, "starts", "limit and burst of a rate"},
		{"rate_seconds", MaxRateSeconds, "s", "of a rate"},
		{"weight", MaxWeight, "items", "that a key has in its turn"},
		{"weights", MaxWeights, "keys", "of a queue that have a weight"},
		{"mcp_batch", MaxMCPBatch, "calls", "calls in one JSON-RPC batch over MCP; each counts towards its key's rate"},
		{"mcp_wait", MaxMCPWait, "seconds", "how long a call over MCP may wait; 25 by default"},
		{"mcp_answer", MaxMCPAnswer, "bytes",
			"JSON of a tool's answer over MCP: pages end early, with a cursor, and the largest values are cut, with a note of how to read them"},
		{"mcp_claim", MaxMCPClaim, "items", "items of one claim over MCP"},
		{"items_per_call", MaxItemsPerCall, "items", "items in one call"},
		{"items_per_task", MaxItemsPerTask, "items", "items of a task when it is created; more by add_items"},
		{"copy_rows", MaxCopyRows, "rows", "items and checkpoints that a batch of clones or forks makes; one clone or fork alone has no bound"},
		{"trace_state", MaxTraceState, "bytes", "a tracestate; of a longer one, members are left out"},
		{"append_checkpoints", MaxAppendCheckpoints, "checkpoints", "in one append; and of one name that an append replaces"},
		{"pruned_checkpoints", MaxPrunedCheckpoints, "checkpoints",
			"that one call prunes; an append that finds more leaves the rest to the next"},
		{"prune_rules", MaxPruneRules, "rules", "of one append or prune"},
		{"kept_checkpoints", MaxKeptCheckpoints, "checkpoints", "that a rule keeps: the highest number"},
		{"refs", MaxRefs, "checkpoints", "names that a checkpoint refers to, and checkpoints read with it"},
		{"claim", MaxClaim, "items", "items of one claim"},
		{"lease_seconds", MaxLeaseSeconds, "seconds", "length of a lease"},
		{"lock_seconds", MaxLockSeconds, "seconds", "how long a run holds an idempotency key without renewing it"},
		{"schedules", MaxSchedules, "schedules", "of a namespace"},
		{"workers", MaxWorkers, "workers", "registered in a namespace; those seen last are kept"},
		{"known_names", MaxKnownNames, "names", "of actors, and of queues, that a process remembers the numbers of"},
		{"wait_seconds", MaxWaitSeconds, "seconds", "how long a claim may wait"},
		{"page", MaxPage, "rows", "rows of one page"},
		{"prunable", MaxPrunable, "tasks", "counted by a dry run of retention"},
		{"page_bytes", MaxPageBytes, "bytes",
			"values of one page, of the event feed too: one that reaches them ends early, with a cursor. Over HTTP and MCP what a resume needs " +
				"has pages too"},
		{"claim_bytes", MaxClaimBytes, "bytes",
			"inputs, errors and reasons of the items of one claim; the item that reaches them is the last, and the next claim returns more"},
		{"answer_bytes", MaxAnswerBytes, "bytes",
			"stored values in the answer to one batch, and reasons of refusals: the calls after the one that reaches them are too_large, and " +
				"not carried out"},
		{"call_bytes", MaxCallBytes, "bytes", "values that one call may store, clones and planned items included; and results read as one"},
		{"max_attempts", MaxAttemptsCeiling, "failures", "budget of an item"},
		{"rework", MaxRework, "times", "how often an item may be sent back for rework"},
		{"parts", MaxParts, "parts", "live parts of an item, and rules for parts of a type"},
		{"chunks", MaxChunksPerCall, "chunks", "chunks of one append; each up to a payload's size"},
		{"append", MaxAppendBytes, "bytes", "chunks of one append together"},
		{"group", MaxGroupBytes, "bytes", "values that one group commit writes; a larger call has its own"},
		{"message", MaxMessageBytes, "bytes", "chunks of one message together, as JSON"},
		{"messages", MaxMessages, "messages", "messages that a task is created with"},
		{"flush", MaxFlush.Milliseconds(), "milliseconds", "longest delay before a worker sends chunks"},
		{"max_steps", MaxSteps, "steps", "highest max_steps of a message"},
		{"blob_min", MinBlobBytes, "bytes", "snapshots from this size on are stored as blobs; others in their checkpoint"},
		{"blob_depth", MaxBlobDepth, "blobs", "that a blob may be based on, one upon the other"},
		{"blob_piece", MaxBlobPiece, "bytes", "pieces in which the database stores an uploaded blob"},
		{"children", MaxChildren, "", "children of a task"},
		{"child_depth", MaxChildDepth, "", "ancestors of a task"},
		{"awaited_children", MaxAwaited, "", "children that an item waits for"},
		{"child_result", MaxChildResult, "bytes", "the result of a child in the resume state; a larger one is read from the child"},
		{"budget_amount", MaxBudgetAmount, "units", "the limit of a budget, and an amount that is reserved or settled"},
		{"budget_name", MaxBudgetNameLen, "characters", "name of a budget"},
		{"effect_name", MaxEffectNameLen, "characters", "name of an effect"},
		{"receipt_events", MaxReceiptEvents, "events", "of one effect, in its receipt"},
		{"effect_senders", MaxEffectSenders, "claims", "that opened an effect and whose reports it takes: the newest"},
		{"budget_unit", MaxUnitLen, "characters", "unit of a budget"},
		{"cron", MaxCronLen, "characters", "a cron expression"},
		{"jitter_seconds", MaxJitterSeconds, "seconds", "jitter of a schedule; it is also shorter than the time to the next tick"},
		{"catch_up", MaxCatchUp, "ticks", "missed ticks of a schedule that are fired or recorded one by one; older ones are one record"},
		{"queued_firings", MaxQueuedFirings, "ticks", "ticks of a schedule that wait for the end of an earlier task; further ones are skipped"},
		{"unique_seconds", MaxUniqueSeconds, "seconds", "window in which a task is unique"},
		{"debounce_seconds", MaxDebounceSeconds, "seconds", "delay of a debounced task; max_seconds is at most 10 times as long"},
		{"priority_min", MinPriority, "", "lowest priority"},
		{"priority_max", MaxPriority, "", "highest priority; higher goes first"},
		{"return", MinReturnSeconds, "seconds", "after a claim, but the first; an item that comes back sooner is behind fresh ones"},
		{"delay", int64(MaxDelay / time.Second), "seconds", "how far ahead a time may lie"},
		{"bulk_errors", MaxBulkErrors, "tasks", "failed ones that the result of a bulk call names"},
		{"series_types", MaxSeriesTypes, "types", "that one question for counters names"},
		{"series_points", MaxSeriesPoints, "points", "of the answer to it, of all types"},
		{"series_span", int64(MaxSeriesSpan / time.Second), "seconds", "that it may cover"},
		{"repeat_events", MaxRepeatEvents, "events", "newest ones of a task among which a repeated call of a worker is recognised"},
		{"measured_events", MaxMeasuredEvents, "events", "newest ones of items that advice about leases is measured from"},
		{"tries", MaxTries, "calls", "of a step's function within one attempt (`Retried`)"},
		{"bulk_error", MaxBulkErrorLen, "characters", "an error in the result of a bulk call"},
	}

	// Defaults is the table of values that apply if the caller gives none.
	Defaults = []Limit{
		{"max_attempts", DefaultMaxAttempts, "failures", "executions of an item that may fail"},
		{"lease", DefaultLeaseSeconds, "seconds", "length of a lease"},
		{"heartbeats_per_lease", HeartbeatsPerLease, "heartbeats", "sent by a worker in the time of one lease"},
		{"heartbeat_misses", DefaultHeartbeatMisses, "heartbeats", "failed in a row after which a worker gives its lease up"},
		{"stale_beats", DefaultStaleBeats, "heartbeats", "missed after which a lease counts as stale in the statistics"},
		{"page", DefaultPage, "rows", "rows of one page"},
		{"key_ttl", int64(DefaultKeyTTL / time.Second), "seconds", "life of an idempotency key"},
		{"key_lease", int64(DefaultKeyLease / time.Second), "seconds", "after which a pending key may be taken over"},
		{"sweep_interval", int64(DefaultSweepInterval / time.Second), "seconds",
			"longest time between sweeps; the next expiry wakes one earlier"},
		{"checkpoints_kept", DefaultCheckpointsKept, "checkpoints", "newest kept per task, in addition to what a resume needs"},
		{"bury_after", int64(DefaultBuryAfter / time.Second), "seconds", "a failed item becomes dead_lettered"},
		{"stale_after", int64(DefaultStaleAfter / time.Second), "seconds", "without a change, a task leaves one event `stale`"},
		{"retain_tasks", int64(DefaultRetainTasks / time.Second), "seconds",
			"tasks in a final state and all that belongs to them, archived first"},
		{"retain_failed", int64(DefaultRetainFailed / time.Second), "seconds", "failed tasks, from their last change; archived first"},
		{"retain_dead_lettered", int64(DefaultRetainFailed / time.Second), "seconds",
			"dead-lettered tasks, from their last change; archived first"},
		{"retain_keys", int64(DefaultRetainKeys / time.Second), "seconds", "completed keys without expiry"},
		{"retain_sweeps", int64(DefaultRetainSweeps / time.Second), "seconds", "sweep statistics"},
		{"retain_workers", int64(RetainWorkers / time.Second), "seconds", "registered workers that were not seen"},
		{"stop_grace", int64(DefaultStopGrace / time.Second), "seconds", "a stopping worker waits for its handlers, then gives its items back"},
		{"max_steps", DefaultMaxSteps, "steps", "steps of a message"},
		{"flush", DefaultFlush.Milliseconds(), "milliseconds", "delay before a worker sends chunks; at most a second"},
		{"message_stalls", int64(MessageStalls / time.Second), "seconds",
			"without a chunk, an open message whose item no worker holds is stalled"},
		{"retain_chunks", int64(DefaultRetainChunks / time.Second), "seconds",
			"chunks of a message, after its end; then a reader gets the whole message at once"},
		{"retain_effects", int64(DefaultRetainEffects / time.Second), "seconds", "keys of effects whose tasks are gone, after they were made"},
		{"retain_signals", int64(DefaultRetainSignals / time.Second), "seconds",
			"sent signals that no item waits for, after they were last sent"},
		{"retain_counters", int64(DefaultRetainCounters / time.Second), "seconds", "counters of queues, a row for each minute and queue"},
		{"retain_budget_signals", int64(RetainBudgetSignals / time.Second), "seconds",
			"the same of the signals pawl.budget and pawl.effect, which the engine sends"},
		{"inbound_tolerance", int64(DefaultInboundTolerance / time.Second), "seconds", "age of a received webhook's signature"},
		{"inbound_kept", int64(DefaultInboundKept / time.Second), "seconds", "a received webhook is known, so that it has no second effect"},
		{"retain_blobs", int64(DefaultRetainBlobs / time.Second), "seconds", "blobs that nothing refers to, after their last use"},
		{"retain_uploads", int64(DefaultRetainUploads / time.Second), "seconds",
			"uploads that were cut off, after their last sign of life; and the bytes of removed blobs, for readers who are reading them"},
		{"max_blob", DefaultMaxBlobBytes, "bytes", "size of an uploaded blob"},
		{"bodies_in_flight", DefaultBodiesInFlight, "bytes",
			"request bodies over 16 KiB of calls in flight at one server, as they arrive; further ones wait " +
				"2 s and are then refused with `limit`. A key " +
				"has as much as is free for the others, callers without a key of a server with keys have an eighth"},
		{"read_time", int64(DefaultReadTime / time.Second), "seconds", "longest read that is not a stream; then it is `unavailable`"},
		{"reads_per_key", DefaultReadsPerKey, "reads", "of one API key at once; further ones wait, and more than 100 are refused with `limit`"},
		{"max_types", DefaultMaxTypes, "types", "with queued work in a namespace; one more is refused with `limit`"},
		{"queues_per_type", QueuesPerType, "pairs",
			"of type and priority that a namespace has queued work of, times `max_types`: 4000; one more is refused with `limit`"},
		{"budget_detail", int64(BudgetDetailKept / time.Second), "seconds",
			"reservations that ended, of items without work left; what they spent stays, without its task"},
		{"budget_retry", int64(BudgetRetry / time.Second), "seconds",
			"longest suspension of an item for a budget that is exhausted only while others have reserved and not settled"},
		{"firings_per_round", FiringsPerRound, "schedules", "schedules that one transaction fires"},
		{"ticks_shown", TicksShown, "ticks", "next ticks that a schedule shows"},
		{"schedule_grace", int64(ScheduleGrace / time.Second), "seconds", "how late a tick may fire before it counts as missed"},
		{"schedule_recheck", int64(ScheduleRecheck / time.Second), "seconds",
			"pause between two looks whether queued ticks of a schedule may go on"},
		{"retain_firings", int64(DefaultRetainFirings / time.Second), "seconds", "what became of the ticks of schedules"},
		{"debounce_max", DebounceMaxTimes, "times", "the delay of a debounced task: the longest that later creates can make it"},
		{"bulk_step", BulkStep, "tasks", "that a bulk call reads at once, and changes in one transaction at most"},
		{"bulk_calls", BulksPerEngine, "calls", "bulk calls that one engine carries out at the same time"},
		{"backoff_base", int64(BackoffBase / time.Second), "seconds", "before the first retry; doubles with each failure"},
		{"backoff_max", int64(BackoffMax / time.Second), "seconds", "longest back-off"},
		{"backoff_jitter", int64(BackoffJitter * 100), "percent", "each back-off is shortened or lengthened by up to this"},
		{"tries", DefaultTries, "calls", "of a step's function that is `Retried`, within one attempt"},
		{"tries_base", int64(TriesBase / time.Second), "seconds", "before the second of these calls; doubles with each"},
		{"tries_max", int64(TriesMax / time.Second), "seconds", "longest delay between them"},
	}

	// TimingBounds are the upper bounds of the buckets of a Timing, in seconds.
	TimingBounds = []float64{0.01, 0.05, 0.25, 1, 5, 15, 60, 300, 900, 3600, 14400}

	// Never is the run_at of items that are no work: they are never claimed. A task that has only such
	// items, besides those that have ended, holds no work. It is there for its checkpoints, and can be
	// deleted without Force.
	Never = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)
