package pawl

import "time"

// Overlap says what a tick of a schedule does while a task of an earlier tick has not ended. A
// task that failed counts as ended.
type Overlap string

// The ways to treat an overlap.
const (
	OverlapSkip    Overlap = "skip"    // it makes no task
	OverlapQueue   Overlap = "queue"   // it makes its task when the earlier one has ended, in order
	OverlapReplace Overlap = "replace" // the earlier task is cancelled
	OverlapAllow   Overlap = "allow"   // it makes its task nevertheless
)

// The lists of the words of schedules.
var (
	// Overlaps lists all of them. The first is the default.
	Overlaps = []Overlap{OverlapSkip, OverlapQueue, OverlapReplace, OverlapAllow}

	// CatchUps lists all of them. The first is the default.
	CatchUps = []CatchUp{CatchUpNone, CatchUpLast, CatchUpAll}

	// FiringOutcomes lists all outcomes.
	FiringOutcomes = []FiringOutcome{FiringCreated, FiringDeduplicated, FiringQueued, FiringSkipped, FiringMissed, FiringFailed}
)

// CatchUp says what happens to ticks that came while no server ran.
type CatchUp string

// The ways to catch up.
const (
	CatchUpNone CatchUp = "none" // they are recorded as missed
	CatchUpLast CatchUp = "last" // the newest is fired, the others are recorded as missed
	CatchUpAll  CatchUp = "all"  // the newest MaxCatchUp are fired, in order; older ones are recorded as missed
)

// NewSchedule defines a schedule. It has exactly one of Cron, EverySeconds and At.
type NewSchedule struct {
	Name         string     `json:"name"`                    // unique in the namespace, ≤ 255 characters
	Cron         string     `json:"cron,omitempty"`          // five fields, six with seconds first, or a name such as @daily
	EverySeconds int        `json:"every_seconds,omitempty"` // counted from the creation of the schedule
	At           *time.Time `json:"at,omitempty"`            // once
	Zone         string     `json:"zone,omitempty"`          // of the IANA database, for Cron; "" = UTC
	// Task is the task that each tick makes. It has no run_at.
	Task          NewTask `json:"task"`
	Overlap       Overlap `json:"overlap,omitempty"`        // "" = skip
	CatchUp       CatchUp `json:"catch_up,omitempty"`       // "" = none
	JitterSeconds int     `json:"jitter_seconds,omitempty"` // each tick fires up to this much later, always the same for one tick
}

// Schedule makes tasks at the times of its rule.
type Schedule struct {
	NewSchedule
	Next       []time.Time `json:"next"`         // the next ten ticks, without jitter; none while it is paused
	LastTick   *time.Time  `json:"last_tick"`    // the newest tick that was fired, skipped or missed
	LastTaskID *string     `json:"last_task_id"` // the newest task that it made; nil = none yet
	Queued     int         `json:"queued"`       // ticks that wait for the end of an earlier task
	Error      *Failure    `json:"error"`        // why the newest tick made no task; nil = it did, or had none to make
	ErrorAt    *time.Time  `json:"error_at"`
	PausedAt   *time.Time  `json:"paused_at"` // nil = it is not paused
	CreatedAt  time.Time   `json:"created_at"`
	UpdatedAt  time.Time   `json:"updated_at"`
	Unchanged  bool        `json:"unchanged,omitempty"` // the call found the same schedule
	Created    bool        `json:"created,omitempty"`   // PutSchedule made it
}

// FiringOutcome says what became of a tick of a schedule.
type FiringOutcome string

// The outcomes of a tick.
const (
	FiringCreated      FiringOutcome = "created"      // it made a task
	FiringDeduplicated FiringOutcome = "deduplicated" // an older task with the same input was there
	FiringQueued       FiringOutcome = "queued"       // it waits for the end of an earlier task
	FiringSkipped      FiringOutcome = "skipped"      // an earlier task had not ended
	FiringMissed       FiringOutcome = "missed"       // it came while no server ran
	FiringFailed       FiringOutcome = "failed"       // its task was refused
)

// Firing is the record of one tick of a schedule, or of one call of RunSchedule.
type Firing struct {
	Schedule string        `json:"schedule"`
	Tick     time.Time     `json:"tick"`  // when it was due, without jitter; of a run, when that was called
	Until    *time.Time    `json:"until"` // of missed ticks: the record is about all ticks from Tick to before Until
	Outcome  FiringOutcome `json:"outcome"`
	Manual   bool          `json:"manual,omitempty"` // RunSchedule made it
	TaskID   string        `json:"task_id,omitempty"`
	Error    *Failure      `json:"error,omitempty"`
	FiredAt  time.Time     `json:"fired_at"` // when this was decided
}

// FiringFilter selects firings of a schedule, newest first.
type FiringFilter struct {
	Schedule string
	Page
}
