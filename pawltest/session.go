package pawltest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
)

// Session is an item in memory, for tests of handlers without a database. Steps, sleeps,
// signals, progress, messages, budgets and children work as they do under a lease.
//
//	s := pawltest.NewSession(pawl.Lease{Type: "report"})
//	out, err := report(s.Context(t.Context()), input)
//
// What the handler did is in the fields; read them after the handler has returned.
type Session struct {
	Item        pawl.Lease        // of the attempt
	Clock       time.Time         // the time that handlers get; it moves only in Next
	Checkpoints []pawl.Checkpoint // saved, oldest first; steps have a name
	Reports     []pawl.ProgressCall
	Suspended   *pawl.SuspendCall // nil unless the attempt was suspended
	Messages    []pawl.MessageRef
	Chunks      [][]pawl.Chunk // of each message
	Fail        error          // the error of the next call, once
	// Budgets by name: set Limit and OnExhausted. Reserve and Settle change the numbers.
	Budgets map[string]*pawl.Budget

	Children []pawl.SpawnCall // the first spawn of each key; the ids of the children are tsk_c1, tsk_c2 and so on

	mu       sync.Mutex
	awaited  *pawl.ChildWait             // the last
	ended    map[string]pawl.ChildResult // children by id
	sent     []pawl.SentSignal
	reserved map[string]*reservation // by budget and key
}

var _ pawl.Session = (*Session)(nil)

// NewSession returns the first attempt of an item. Empty members of the lease get default
// values.
func NewSession(l pawl.Lease) *Session {
	for at, v := range map[*string]string{&l.ID: "itm_1", &l.TaskID: "tsk_1", &l.Type: "test", &l.WorkerID: "worker"} {
		if *at == "" {
			*at = v
		}
	}
	l.Attempt = max(l.Attempt, 1)
	return &Session{Item: l, Clock: time.Date(2026, 1, 29, 10, 0, 0, 0, time.UTC)}
}

// Context returns the context of a handler that works in the session. Each call is a new run
// of the handler: its saved steps are replayed.
func (s *Session) Context(ctx context.Context) context.Context {
	s.Item.Forked = s.Item.Forked || len(s.Checkpoints) > 0
	return pawl.WithSession(ctx, s)
}

// Next starts the item's next attempt, after a failure, a sleep or a signal. A sleep, or a
// wait with a time limit, is over then.
func (s *Session) Next() {
	s.Item.Attempt++
	if s.Suspended != nil && s.Suspended.Until != nil && s.Suspended.Until.After(s.Clock) {
		s.Clock = *s.Suspended.Until
	}
	s.Suspended = nil
}

// Signal sends a signal that the handler waits for, or will wait for.
func (s *Session) Signal(name, key string, payload json.RawMessage) {
	at := s.Clock
	if n := len(s.sent); n > 0 && !at.After(s.sent[n-1].SentAt) {
		at = s.sent[n-1].SentAt.Add(time.Microsecond) // the clock stands still; a signal is later than those before it
	}
	s.sent = append(s.sent, pawl.SentSignal{Name: name, Key: key, Payload: payload, SentAt: at})
}

// taken reports whether a wait that was over before the checkpoint c was saved has the signal, or a later one of its
// name and key: c waits for a new one.
func (s *Session) taken(sig pawl.SentSignal, c pawl.Checkpoint) bool {
	return slices.ContainsFunc(s.Checkpoints, func(t pawl.Checkpoint) bool {
		a, waits := t.Awaits()
		return waits && a.SentAt != nil && t.Sequence < c.Sequence && a.Signal == sig.Name && a.Key == sig.Key && !sig.SentAt.After(*a.SentAt)
	})
}

func (s *Session) failed() error {
	err := s.Fail
	s.Fail = nil
	return err
}

// Lease implements pawl.Session.
func (s *Session) Lease() pawl.Lease { return s.Item }

// Now implements pawl.Session.
func (s *Session) Now() time.Time { return s.Clock }

// Resume implements pawl.Session.
func (s *Session) Resume(context.Context) (pawl.ResumeState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := pawl.ResumeState{ItemID: s.Item.ID, TaskID: s.Item.TaskID, Attempt: s.Item.Attempt, Error: s.Item.Error,
		Steps: map[string]pawl.Checkpoint{}, Signals: map[string]pawl.SentSignal{}, Parts: []pawl.ItemPart{}, Messages: slices.Clone(s.Messages)}
	for i := range s.Checkpoints {
		c := s.Checkpoints[i]
		if out.Newest = &c; c.Name != "" {
			out.Steps[c.Name] = c
		}
	}
	for name, c := range out.Steps {
		if a, waits := c.Awaits(); waits && !a.Over() {
			for _, sig := range s.sent {
				if sig.Name == a.Signal && sig.Key == a.Key && !s.taken(sig, c) {
					out.Signals[name] = sig
				}
			}
		}
	}
	out.Children = s.childrenState()
	return out, s.failed()
}

// Save implements pawl.Session.
func (s *Session) Save(ctx context.Context, c pawl.NewCheckpoint) (pawl.CheckpointRef, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := cmp.Or(ctx.Err(), s.failed()); err != nil {
		return pawl.CheckpointRef{}, err
	}
	if n := len(c.Snapshot); n > pawl.MaxPayloadBytes {
		return pawl.CheckpointRef{}, pawl.Invalid("/snapshot", "has %d bytes; at most %d are allowed", n, pawl.MaxPayloadBytes)
	}
	seq := int64(len(s.Checkpoints) + 1)
	saved := pawl.Checkpoint{ID: fmt.Sprint("chk_", seq), TaskID: s.Item.TaskID, ItemID: s.Item.ID, Attempt: s.Item.Attempt, Sequence: seq,
		Type: c.Type, Name: c.Name, ArgsHash: c.ArgsHash, Snapshot: c.Snapshot, Metadata: c.Metadata, CreatedAt: s.Clock}
	s.Checkpoints = append(s.Checkpoints, saved)
	return pawl.CheckpointRef{ID: saved.ID, Sequence: seq}, nil
}

// Progress implements pawl.Session.
func (s *Session) Progress(_ context.Context, call pawl.ProgressCall) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Reports = append(s.Reports, call)
	return s.failed()
}

// Suspend implements pawl.Session.
func (s *Session) Suspend(_ context.Context, call pawl.SuspendCall) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.failed(); err != nil {
		return err
	}
	if s.Suspended = &call; call.Children != nil {
		s.awaited = call.Children
	}
	return nil
}

// BeginMessage implements pawl.MessageSession.
func (s *Session) BeginMessage(_ context.Context, call pawl.StartCall) (pawl.MessageRef, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ref := pawl.MessageRef{
		ID:       fmt.Sprint("msg_", len(s.Messages)+1),
		Status:   pawl.MessageStreaming,
		Model:    call.Model,
		MaxSteps: cmp.Or(call.MaxSteps, pawl.DefaultMaxSteps),
	}
	s.Messages, s.Chunks = append(s.Messages, ref), append(s.Chunks, nil)
	return ref, s.failed()
}

// ChunkWriter implements pawl.MessageSession.
func (s *Session) ChunkWriter(m pawl.MessageRef) pawl.ChunkWriter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return chunkWriter{s, slices.IndexFunc(s.Messages, func(o pawl.MessageRef) bool { return o.ID == m.ID })}
}

type chunkWriter struct {
	s *Session
	n int // index of the message
}

func (p chunkWriter) Context() context.Context { return context.Background() }

func (p chunkWriter) Write(chunks ...pawl.Chunk) error {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.s.Chunks[p.n] = append(p.s.Chunks[p.n], chunks...)
	p.s.Messages[p.n].Offset += int64(len(chunks))
	return p.s.failed()
}

func (p chunkWriter) Step(ctx context.Context, c pawl.StepCall) (pawl.CheckpointRef, error) {
	p.s.mu.Lock()
	m := p.s.Messages[p.n]
	if m.StepNumber >= m.MaxSteps {
		p.s.mu.Unlock()
		return pawl.CheckpointRef{}, &pawl.Error{Code: pawl.CodeConflict, Op: "step", State: string(m.Status), Allowed: m.Status.Allowed(),
			Message: fmt.Sprintf("the message has made the %d steps that it may: finish it", m.MaxSteps)}
	}
	m.StepNumber++
	name := cmp.Or(c.Name, fmt.Sprint("step:", m.StepNumber))
	metadata := map[string]any{}
	if len(c.Metadata) > 0 {
		if err := json.Unmarshal(c.Metadata, &metadata); err != nil {
			p.s.mu.Unlock()
			return pawl.CheckpointRef{}, err
		}
	}
	metadata["message_id"], metadata["step_number"], metadata["offset"] = m.ID, m.StepNumber, m.Offset
	p.s.mu.Unlock()
	raw, err := json.Marshal(metadata)
	if err != nil {
		return pawl.CheckpointRef{}, err
	}
	ref, err := p.s.Save(ctx,
		pawl.NewCheckpoint{Type: pawl.IterationEnd, Name: name, ArgsHash: c.ArgsHash, Snapshot: c.Snapshot, Metadata: raw})
	if err == nil {
		p.s.mu.Lock()
		defer p.s.mu.Unlock()
		p.s.Messages[p.n].StepNumber = m.StepNumber
	}
	return ref, err
}

func (p chunkWriter) Finish(context.Context, json.RawMessage) error {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.s.Messages[p.n].Status = pawl.MessageComplete
	return p.s.failed()
}
