package pawl

import (
	"context"
	"encoding/json"
	"sync"
	"time"
)

// Session is a handler's access to its item, under one claim. Package worker puts one
// into the context of every handler, and package pawltest provides fakes. Step, Save,
// Progress, Sleep, WaitFor and StartMessage use it. Every write is fenced: when the
// lease is lost, it is refused with ErrLeaseLost. A Session is safe for concurrent use.
type Session interface {
	// Lease returns the claim, with its end as last extended.
	Lease() Lease
	// Now is the database's clock: the last time that the database sent, plus the time
	// since then by the monotonic clock.
	Now() time.Time
	// Resume reads what earlier attempts left. It is called at most once.
	Resume(ctx context.Context) (ResumeState, error)
	// Save saves a checkpoint.
	Save(ctx context.Context, c NewCheckpoint) (CheckpointRef, error)
	// Progress reports progress and stage; the session adds the fence.
	Progress(ctx context.Context, call ProgressCall) error
	// Suspend gives the lease up; the session adds the fence. After it, no result is
	// reported for this claim.
	Suspend(ctx context.Context, call SuspendCall) error
	MessageSession
	BudgetSession
	ChildSession
}

// ChildSession is the part of a Session that creates children; the session adds the fence.
type ChildSession interface {
	SpawnChild(ctx context.Context, call SpawnCall) (Task, error)
}

// BudgetSession is the part of a Session that reserves and settles amounts of budgets; the
// session adds the fence.
type BudgetSession interface {
	ReserveBudget(ctx context.Context, budget string, call ReserveCall) (Reserved, error)
	SettleBudget(ctx context.Context, budget string, call SettleCall) (Settled, error)
}

// StepSession is what a Session may implement too, to follow the steps of its attempt, for
// example to trace them.
type StepSession interface {
	// BeginStep is called before the function of a step runs, which gets the context that is
	// returned. end is called when the function has failed or its result is saved.
	BeginStep(ctx context.Context, name string) (_ context.Context, end func(error))
	// ReplayedStep is called when the saved result of a step is returned.
	ReplayedStep(ctx context.Context, name string)
}

// ResultSession is what a Session implements too if its handler may read the results of other tasks. Job.AwaitAll reads
// those with it that a ChildResult leaves out.
type ResultSession interface {
	// TaskResult returns the result of a completed task.
	TaskResult(ctx context.Context, taskID string) (TaskResult, error)
}

// MessageSession is the part of a Session that writes messages.
type MessageSession interface {
	// BeginMessage starts a message of the item; the session adds the fence.
	BeginMessage(ctx context.Context, call StartCall) (MessageRef, error)
	// ChunkWriter returns the writer of an open message. A message has one writer at a time.
	ChunkWriter(m MessageRef) ChunkWriter
}

// ChunkWriter writes one open message under a session's claim. It is safe for concurrent use.
type ChunkWriter interface {
	// Context is derived from the handler's context. When the message is stopped it
	// ends, with ErrStopped as its cause.
	Context() context.Context
	// Write buffers chunks, which are sent soon and in batches. It blocks while the
	// buffer is full. It returns the error of an earlier chunk.
	Write(chunks ...Chunk) error
	// Step ends a step after all written chunks are accepted; the writer adds the fence.
	Step(ctx context.Context, call StepCall) (CheckpointRef, error)
	// Finish ends the message after all written chunks are accepted.
	Finish(ctx context.Context, usage json.RawMessage) error
}

// WithSession returns the context of a handler that works under s. Call it once for each
// attempt: it caches what the attempt's steps save.
func WithSession(ctx context.Context, s Session) context.Context {
	h := &attemptState{Session: s, resumeLock: make(chan struct{}, 1), saved: map[string]Checkpoint{}, running: map[string]chan struct{}{},
		reserved: map[string]map[string]int{}, settled: map[string]bool{}}
	h.steps, _ = s.(StepSession)
	return context.WithValue(ctx, sessionKey{}, h)
}

// ItemFrom returns the claim of a handler; ErrNoSession in other contexts.
func ItemFrom(ctx context.Context) (Lease, error) {
	h, err := attemptOf(ctx)
	if err != nil {
		return Lease{}, err
	}
	return h.Lease(), nil
}

// ResumeFrom returns what earlier attempts of the item left: the newest checkpoints by
// type and the named steps. It is read once per attempt, and not at all in the first
// attempt, unless its task is a fork.
func ResumeFrom(ctx context.Context) (ResumeState, error) {
	h, err := attemptOf(ctx)
	if err != nil {
		return ResumeState{}, err
	}
	return h.resume(ctx)
}

// Progress reports how far the item is, 0…100 percent, and its stage, a short text (≤
// 500 characters). A negative percent and an empty stage keep the previous value. A new
// stage leaves an event; a new percentage alone does not.
func Progress(ctx context.Context, percent int, stage string) error {
	h, err := attemptOf(ctx)
	if err != nil {
		return err
	}
	var call ProgressCall
	if percent >= 0 {
		call.Progress = &percent
	}
	if stage != "" {
		call.Stage = &stage
	}
	return h.Session.Progress(ctx, call)
}

// Save saves a checkpoint of one of CheckpointTypes. The snapshot is any value, at most
// 1 MiB as JSON. The next attempt reads the newest checkpoint of each name with
// ResumeFrom. Names are shared with Step, Sleep and WaitFor.
func Save(ctx context.Context, typ, name string, snapshot any) (CheckpointRef, error) {
	h, err := attemptOf(ctx)
	if err != nil {
		return CheckpointRef{}, err
	}
	raw, err := json.Marshal(snapshot)
	if err != nil {
		return CheckpointRef{}, Invalid("/snapshot", "cannot be written as JSON: %v", err)
	}
	return h.save(ctx, NewCheckpoint{Type: typ, Name: name, Snapshot: raw})
}

type sessionKey struct{}

// attemptState is one attempt: its session and what was saved by name.
type attemptState struct {
	Session

	steps      StepSession   // nil = nothing follows the steps
	resumeLock chan struct{} // held while the resume state is read
	mu         sync.Mutex
	resumed    *ResumeState              // what earlier attempts left, once read
	saved      map[string]Checkpoint     // by this attempt and, once read, by earlier ones
	running    map[string]chan struct{}  // running steps; closed when they end
	reserved   map[string]map[string]int // number of reservations by step and budget, in the step's present run
	settled    map[string]bool           // keys of reservations that Reserve named, after their budgets

	startMu sync.Mutex   // held while a message is started
	earlier []MessageRef // messages of earlier attempts and of the task's creator; nil until read
	started int          // number of messages started in this attempt
}

func attemptOf(ctx context.Context) (*attemptState, error) {
	if h, ok := ctx.Value(sessionKey{}).(*attemptState); ok {
		return h, nil
	}
	return nil, ErrNoSession
}

// resume reads once what earlier attempts left. After an error, the next call reads
// again.
func (h *attemptState) resume(ctx context.Context) (ResumeState, error) {
	select {
	case h.resumeLock <- struct{}{}:
		defer func() { <-h.resumeLock }()
	case <-ctx.Done():
		return ResumeState{}, context.Cause(ctx)
	}
	h.mu.Lock()
	known := h.resumed
	h.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	lease := h.Lease()
	state := ResumeState{ItemID: lease.ID, TaskID: lease.TaskID, Attempt: lease.Attempt}
	if lease.Resumes() {
		var err error
		if state, err = h.Session.Resume(ctx); err != nil {
			return ResumeState{}, err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.resumed = &state
	for name, c := range state.Steps {
		if _, newer := h.saved[name]; !newer {
			h.saved[name] = c
		}
	}
	return state, nil
}

// lookup returns the newest checkpoint of a name, preferring this attempt's.
func (h *attemptState) lookup(ctx context.Context, name string) (Checkpoint, bool, error) {
	h.mu.Lock()
	c, ok := h.saved[name]
	h.mu.Unlock()
	if ok {
		return c, true, nil
	}
	if _, err := h.resume(ctx); err != nil {
		return Checkpoint{}, false, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	c, ok = h.saved[name]
	return c, ok, nil
}

func (h *attemptState) save(ctx context.Context, c NewCheckpoint) (CheckpointRef, error) {
	ref, err := h.Session.Save(ctx, c)
	if err == nil && c.Name != "" {
		h.remember(ref, c)
	}
	return ref, err
}

// remember keeps a saved checkpoint for later calls of its name.
func (h *attemptState) remember(ref CheckpointRef, c NewCheckpoint) {
	lease := h.Lease()
	h.mu.Lock()
	defer h.mu.Unlock()
	if older, ok := h.saved[c.Name]; !ok || older.Sequence < ref.Sequence {
		h.saved[c.Name] = Checkpoint{
			ID: ref.ID, TaskID: lease.TaskID, ItemID: lease.ID, Attempt: lease.Attempt, Sequence: ref.Sequence,
			Type: c.Type, Name: c.Name, ArgsHash: c.ArgsHash, Snapshot: c.Snapshot, Metadata: c.Metadata,
		}
	}
}
