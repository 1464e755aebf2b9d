package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// Sizes of a writer's buffer.
const (
	flushBytes     = 32 << 10  // bytes that are sent without waiting for FlushEvery
	maxBuffered    = 1 << 20   // buffered bytes before Write blocks
	maxChunkText   = 128 << 10 // bytes of text in one chunk
	maxAppendBytes = 1 << 20   // bytes of one append; the last chunk may exceed it
)

// messageWriter buffers the chunks that a handler writes to one message. flushLoop
// sends them. The runner's mu guards it.
type messageWriter struct {
	session *session
	ref     pawl.MessageRef
	ctx     context.Context
	cancel  context.CancelCauseFunc

	sending []pawl.Chunk // in flight
	waiting []pawl.Chunk
	size    int // bytes of waiting
	urgent  bool
	due     time.Time // when waiting is sent
	tries   int       // consecutive failures
	err     error     // why no more chunks are accepted
	changed chan struct{}
}

// errFinished is the error of writes to a finished message.
var errFinished = &pawl.Error{
	Code:    pawl.CodeConflict,
	Op:      "write",
	State:   string(pawl.MessageComplete),
	Allowed: []string{},
	Message: "the message is finished",
}

// ChunkWriter implements pawl.MessageSession.
func (s *session) ChunkWriter(m pawl.MessageRef) pawl.ChunkWriter {
	p := &messageWriter{session: s, ref: m, changed: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancelCause(s.j.ctx)
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.j.state != jobRunning {
		p.end(errClaimOver)
	}
	s.j.writers = append(s.j.writers, p)
	return p
}

var errClaimOver = &pawl.Error{Code: pawl.CodeLeaseLost, Op: "write", Message: "the claim is over"}

// BeginMessage implements pawl.MessageSession. A try whose answer was lost may have started
// a message; the next try finds and uses it.
func (s *session) BeginMessage(ctx context.Context, call pawl.StartCall) (ref pawl.MessageRef, err error) {
	call.Fence = s.j.fence
	tried := false
	err = s.messageCall(ctx, func(ctx context.Context) error {
		if tried {
			state, err := s.w.claimer.Resume(ctx, s.j.fence.ItemID)
			if err != nil {
				return err
			}
			if n := len(state.Messages); n > 0 && state.Messages[n-1].Status == pawl.MessageStreaming {
				ref = state.Messages[n-1]
				return nil
			}
		}
		tried = true
		m, err := onlyResult(s.w.claimer.StartMessages(ctx, []pawl.StartCall{call}))
		ref = pawl.MessageRef{ID: m.ID, Status: m.Status, Model: m.Model, MaxSteps: m.MaxSteps}
		return err
	})
	return ref, err
}

// messageCall is retryUntilLost for the verbs of messages: a message that has ended
// does not end the claim.
func (s *session) messageCall(ctx context.Context, do func(context.Context) error) error {
	var ended error
	_, err := s.retryUntilLost(ctx, func(ctx context.Context) error {
		err := do(ctx)
		if ended = messageEnd(err); ended != nil {
			return nil
		}
		return err
	})
	return cmp.Or(err, ended)
}

// messageEnd returns an error if the refusal means that the message has ended.
func messageEnd(err error) error {
	var e *pawl.Error
	if !errors.As(err, &e) || e.Code != pawl.CodeConflict {
		return nil
	}
	switch pawl.MessageState(e.State) {
	case pawl.MessageStopped:
		return pawl.ErrStopped
	case pawl.MessageStreaming, pawl.MessageComplete, pawl.MessageError:
		return err
	}
	return nil
}

// Context implements pawl.ChunkWriter.
func (p *messageWriter) Context() context.Context { return p.ctx }

// Write implements pawl.ChunkWriter. It joins consecutive texts of one type and splits long
// ones.
func (p *messageWriter) Write(chunks ...pawl.Chunk) error {
	w := p.session.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range chunks {
		for rest := chunks[i]; ; {
			c := rest
			if n := cut(string(c.Text)); n < len(c.Text) {
				c.Text, rest.Text = c.Text[:n], rest.Text[n:]
				p.add(c)
				continue
			}
			p.add(c)
			break
		}
	}
	for p.size > maxBuffered && p.err == nil {
		if err := p.await(p.ctx); err != nil {
			return err
		}
	}
	return p.err
}

// cut is how many bytes of a text go into one chunk.
func cut(s string) int {
	if len(s) <= maxChunkText {
		return len(s)
	}
	n := maxChunkText
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}

// add appends a chunk to the buffer. The caller holds mu.
func (p *messageWriter) add(c pawl.Chunk) {
	text := c.Type == pawl.ChunkText || c.Type == pawl.ChunkReasoning
	if text && c.Text == "" || p.err != nil {
		return
	}
	n := len(p.waiting)
	if n == 0 && len(p.sending) == 0 {
		p.due = clock.Now().Add(p.session.w.opts.FlushEvery)
		signal(p.session.w.flushNow)
	}
	if text && n > 0 && p.waiting[n-1].Type == c.Type && len(p.waiting[n-1].Text)+len(c.Text) <= maxChunkText {
		p.waiting[n-1].Text += c.Text
	} else {
		p.waiting = append(p.waiting, c)
	}
	if p.size += sizeOf(&c); p.size >= flushBytes && !p.urgent {
		p.urgent = true
		signal(p.session.w.flushNow)
	}
}

func sizeOf(c *pawl.Chunk) int { return 64 + len(c.Text) + len(c.Input) + len(c.Output) + len(c.Data) }

// await waits until an append is answered. The caller holds mu; await releases it
// meanwhile.
func (p *messageWriter) await(ctx context.Context) error {
	moved := p.changed
	p.session.w.mu.Unlock()
	defer p.session.w.mu.Lock()
	select {
	case <-moved:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// flush waits until all chunks are accepted, or the message has ended.
func (p *messageWriter) flush(ctx context.Context) error {
	w := p.session.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for p.err == nil && len(p.sending)+len(p.waiting) > 0 {
		p.urgent = true
		signal(w.flushNow)
		if err := p.await(ctx); err != nil {
			return err
		}
	}
	return p.err
}

// Step implements pawl.ChunkWriter. A step has no idempotency key: when an answer is lost,
// the message's step number shows whether the step was saved.
func (p *messageWriter) Step(ctx context.Context, call pawl.StepCall) (ref pawl.CheckpointRef, err error) {
	if err := p.flush(ctx); err != nil {
		return ref, err
	}
	tried := false
	call.MessageFence = p.fence()
	err = p.session.messageCall(ctx, func(ctx context.Context) error {
		if tried {
			state, err := p.session.w.claimer.Resume(ctx, p.session.j.fence.ItemID)
			if err != nil {
				return err
			}
			if m := state.OpenMessage; m != nil && m.ID == p.ref.ID && m.StepNumber > p.ref.StepNumber && state.IterationEnd != nil {
				ref = pawl.CheckpointRef{ID: state.IterationEnd.ID, Sequence: state.IterationEnd.Sequence}
				return nil
			}
		}
		tried = true
		ref, err = onlyResult(p.session.w.claimer.StepMessages(ctx, []pawl.StepCall{call}))
		return err
	})
	if err == nil {
		p.ref.StepNumber++
	}
	return ref, p.noteStopped(err)
}

// Finish implements pawl.ChunkWriter.
func (p *messageWriter) Finish(ctx context.Context, usage json.RawMessage) error {
	if err := p.flush(ctx); err != nil {
		return err
	}
	tried := false
	err := p.session.messageCall(ctx, func(ctx context.Context) error {
		_, err := onlyResult(p.session.w.claimer.FinishMessages(ctx, []pawl.FinishCall{{MessageFence: p.fence(), Usage: usage}}))
		var e *pawl.Error
		if tried && errors.As(err, &e) && e.State == string(pawl.MessageComplete) {
			return nil // an earlier try succeeded
		}
		tried = true
		return err
	})
	if err != nil {
		return p.noteStopped(err)
	}
	p.session.w.mu.Lock()
	defer p.session.w.mu.Unlock()
	p.end(errFinished)
	return nil
}

// noteStopped ends the writer if the message was stopped.
func (p *messageWriter) noteStopped(err error) error {
	if errors.Is(err, pawl.ErrStopped) {
		p.session.w.mu.Lock()
		defer p.session.w.mu.Unlock()
		p.end(err)
	}
	return err
}

// end makes the writer refuse further chunks. The caller holds mu.
func (p *messageWriter) end(why error) {
	if p.err != nil {
		return
	}
	p.err, p.waiting, p.sending, p.size = why, nil, nil, 0
	if errors.Is(why, pawl.ErrStopped) {
		p.cancel(pawl.ErrStopped)
	}
	p.notify()
}

func (p *messageWriter) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *messageWriter) fence() pawl.MessageFence {
	f := p.session.j.fence
	return pawl.MessageFence{MessageID: p.ref.ID, WorkerID: f.WorkerID, Attempt: f.Attempt}
}

// onlyResult is the result of a batch of one.
func onlyResult[R any](rs []pawl.Result[R], err error) (R, error) {
	if err = onlyError(rs, err); err != nil {
		var none R
		return none, err
	}
	return rs[0].Value, nil
}
