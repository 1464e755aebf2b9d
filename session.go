package pawl

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"
)

// ErrCancelled is the cause of a handler's context when its item was cancelled:
// stop; nothing is handed in.
var ErrCancelled = errors.New("pawl: the item was cancelled")

// ErrStopped says that somebody stopped the message: it is what its writer gets
// from then on, and the cause of its context. A handler that returns it has its
// item completed, without a result.
var ErrStopped = errors.New("pawl: the message was stopped")

// Session is a handler's hold on its item, under one claim. Package worker puts
// one into the context of every handler, package pawltest fakes them; Step,
// Save, Progress, Sleep, WaitFor and StartMessage stand on it. Every write is fenced: once the lease
// is lost it is refused with ErrLeaseLost. Safe for concurrent use.
type Session interface {
	// Lease is the claim; its end as last extended.
	Lease() Lease
	// Now is the database's clock as last told, plus the time since then by the
	// monotonic clock.
	Now() time.Time
	// Resume reads what earlier attempts left. It is asked for at most once.
	Resume(ctx context.Context) (ResumeState, error)
	// Save saves a checkpoint.
	Save(ctx context.Context, c NewCheckpoint) (CheckpointRef, error)
	// Progress reports progress and stage; the session puts in the fence.
	Progress(ctx context.Context, call ProgressCall) error
	// Suspend gives the lease up; the session puts in the fence. After it
	// nothing more is handed in for this claim.
	Suspend(ctx context.Context, call SuspendCall) error
	Speaker
}

// Speaker is the part of a Session that writes messages.
type Speaker interface {
	// BeginMessage begins a message of the item; the session puts in the fence.
	BeginMessage(ctx context.Context, call StartCall) (MessageRef, error)
	// Pen goes on with an open message of the item. A message has one at a time.
	Pen(m MessageRef) Pen
}

// Pen writes one open message under a session's claim. Safe for concurrent use.
type Pen interface {
	// Context is the handler's; it ends with ErrStopped as its cause when the
	// message was stopped.
	Context() context.Context
	// Write takes chunks, which are sent soon and together with others. It waits
	// while too much is waiting. Its error is what became of earlier ones.
	Write(chunks ...Chunk) error
	// Step ends a step when all that was written is accepted.
	Step(ctx context.Context, snapshot json.RawMessage) (CheckpointRef, error)
	// Finish ends the message when all that was written is accepted.
	Finish(ctx context.Context, usage json.RawMessage) error
}

// WithSession returns the context of a handler: all that hangs off it works
// under s. One call stands for one attempt: what its steps save is remembered
// here.
func WithSession(ctx context.Context, s Session) context.Context {
	h := &handling{Session: s, turn: make(chan struct{}, 1), saved: map[string]Checkpoint{}, running: map[string]chan struct{}{}}
	return context.WithValue(ctx, sessionKey{}, h)
}

// ItemFrom is the claim that a handler works under; ErrNoSession elsewhere.
func ItemFrom(ctx context.Context) (Lease, error) {
	h, err := handlingOf(ctx)
	if err != nil {
		return Lease{}, err
	}
	return h.Lease(), nil
}

// ResumeFrom is what earlier attempts of the item left: its newest checkpoints
// by kind and its named steps. It is read once per attempt, and not at all in
// the first, which has nothing to resume.
func ResumeFrom(ctx context.Context) (ResumeState, error) {
	h, err := handlingOf(ctx)
	if err != nil {
		return ResumeState{}, err
	}
	return h.resume(ctx)
}

// Progress reports how far the item is, 0…100 percent, and its stage, a short
// text of where it is (≤ 500). A negative percent and an empty stage leave what
// was reported before. A new stage leaves an event, a bare number does not.
func Progress(ctx context.Context, percent int, stage string) error {
	h, err := handlingOf(ctx)
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

// Save saves a checkpoint of one of CheckpointTypes: any value as JSON, ≤ 1 MiB.
// With a name it is found again under it: the newest of a name is what the next
// attempt reads with ResumeFrom. Names are shared with Step, Sleep and WaitFor.
func Save(ctx context.Context, typ, name string, snapshot any) (CheckpointRef, error) {
	h, err := handlingOf(ctx)
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

// handling is one attempt: its session and what has been saved by name.
type handling struct {
	Session

	turn    chan struct{} // held while resume is read
	mu      sync.Mutex
	resumed *ResumeState             // what earlier attempts left, once read
	saved   map[string]Checkpoint    // by this attempt and, once read, by earlier ones
	running map[string]chan struct{} // steps under way; closed when they end

	speaking sync.Mutex   // held while a message is begun
	begun    []MessageRef // by earlier attempts, and by the task's maker; nil until asked for
	spoken   int          // messages of this attempt
}

func handlingOf(ctx context.Context) (*handling, error) {
	if h, ok := ctx.Value(sessionKey{}).(*handling); ok {
		return h, nil
	}
	return nil, ErrNoSession
}

// resume reads once what earlier attempts left; a failed read is tried again by
// whoever asks next.
func (h *handling) resume(ctx context.Context) (ResumeState, error) {
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
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
	if lease.Attempt > 1 {
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

// lookup finds the newest checkpoint of a name, this attempt's first.
func (h *handling) lookup(ctx context.Context, name string) (Checkpoint, bool, error) {
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

func (h *handling) save(ctx context.Context, c NewCheckpoint) (CheckpointRef, error) {
	ref, err := h.Session.Save(ctx, c)
	if err != nil || c.Name == "" {
		return ref, err
	}
	lease := h.Lease()
	h.mu.Lock()
	defer h.mu.Unlock()
	if older, ok := h.saved[c.Name]; !ok || older.Sequence < ref.Sequence {
		h.saved[c.Name] = Checkpoint{
			ID: ref.ID, TaskID: lease.TaskID, ItemID: lease.ID, Attempt: lease.Attempt, Sequence: ref.Sequence,
			Type: c.Type, Name: c.Name, ArgsHash: c.ArgsHash, Snapshot: c.Snapshot, Metadata: c.Metadata,
		}
	}
	return ref, nil
}
