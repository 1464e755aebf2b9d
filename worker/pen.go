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

// How much a pen gathers.
const (
	penSoon  = 32 << 10  // bytes that are sent without waiting for more
	penRoom  = 1 << 20   // bytes that wait before their writer has to
	penChunk = 128 << 10 // bytes of a chunk of text
	penCall  = 1 << 20   // bytes of one append, at most one chunk more
)

// pen gathers what a handler says in one message. The scribe sends it; the
// crew's mu guards it.
type pen struct {
	s      *session
	ref    pawl.MessageRef
	ctx    context.Context
	cancel context.CancelCauseFunc

	sending []pawl.Chunk // on their way, until they are answered
	waiting []pawl.Chunk
	size    int // bytes of waiting
	hurried bool
	due     time.Time // when waiting goes
	tries   int       // failures in a row
	err     error     // why nothing more is taken
	moved   chan struct{}
}

// errFinished is what a finished message's writer gets.
var errFinished = &pawl.Error{Code: pawl.CodeConflict, Op: "write", State: string(pawl.MessageComplete), Allowed: []string{}, Message: "the message is finished"}

// Pen implements pawl.Speaker.
func (s *session) Pen(m pawl.MessageRef) pawl.Pen {
	p := &pen{s: s, ref: m, moved: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancelCause(s.j.ctx)
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.j.verdict != working {
		p.end(errOver)
	}
	s.j.pens = append(s.j.pens, p)
	return p
}

var errOver = &pawl.Error{Code: pawl.CodeLeaseLost, Op: "write", Message: "the claim is over"}

// BeginMessage implements pawl.Speaker. A try whose answer was lost may have begun
// one: then that is it.
func (s *session) BeginMessage(ctx context.Context, call pawl.StartCall) (ref pawl.MessageRef, err error) {
	call.Fence = s.j.fence
	tried := false
	err = s.tell(ctx, func(ctx context.Context) error {
		if tried {
			state, err := s.w.c.Resume(ctx, s.j.fence.ItemID)
			if err != nil {
				return err
			}
			if n := len(state.Messages); n > 0 && state.Messages[n-1].Status == pawl.MessageStreaming {
				ref = state.Messages[n-1]
				return nil
			}
		}
		tried = true
		m, err := answer(s.w.c.StartMessages(ctx, []pawl.StartCall{call}))
		ref = pawl.MessageRef{ID: m.ID, Status: m.Status, Model: m.Model, MaxSteps: m.MaxSteps}
		return err
	})
	return ref, err
}

// tell is insist for the verbs of messages: that a message has ended says
// nothing about the claim.
func (s *session) tell(ctx context.Context, do func(context.Context) error) error {
	var ended error
	_, err := s.insist(ctx, func(ctx context.Context) error {
		err := do(ctx)
		if ended = messageEnd(err); ended != nil {
			return nil
		}
		return err
	})
	return cmp.Or(err, ended)
}

// messageEnd reads from a refusal that the message's state forbids it.
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

// Context implements pawl.Pen.
func (p *pen) Context() context.Context { return p.ctx }

// Write implements pawl.Pen. Texts of one kind that follow each other are put
// together, long ones are cut.
func (p *pen) Write(chunks ...pawl.Chunk) error {
	w := p.s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range chunks {
		for rest := chunks[i]; ; {
			c := rest
			if n := cut(string(c.Text)); n < len(c.Text) {
				c.Text, rest.Text = c.Text[:n], rest.Text[n:]
				p.put(c)
				continue
			}
			p.put(c)
			break
		}
	}
	for p.size > penRoom && p.err == nil {
		if err := p.await(p.ctx); err != nil {
			return err
		}
	}
	return p.err
}

// cut is how much of a text one chunk has.
func cut(s string) int {
	if len(s) <= penChunk {
		return len(s)
	}
	n := penChunk
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}

// put adds a chunk to those that wait; the caller holds mu.
func (p *pen) put(c pawl.Chunk) {
	text := c.Type == pawl.ChunkText || c.Type == pawl.ChunkReasoning
	if text && c.Text == "" || p.err != nil {
		return
	}
	n := len(p.waiting)
	if n == 0 && len(p.sending) == 0 {
		p.due = clock.Now().Add(p.s.w.o.FlushEvery)
		signal(p.s.w.said)
	}
	if text && n > 0 && p.waiting[n-1].Type == c.Type && len(p.waiting[n-1].Text)+len(c.Text) <= penChunk {
		p.waiting[n-1].Text += c.Text
	} else {
		p.waiting = append(p.waiting, c)
	}
	if p.size += sizeOf(&c); p.size >= penSoon && !p.hurried {
		p.hurried = true
		signal(p.s.w.said)
	}
}

func sizeOf(c *pawl.Chunk) int { return 64 + len(c.Text) + len(c.Input) + len(c.Output) + len(c.Data) }

// await waits until something was answered; the caller holds mu, and has it again.
func (p *pen) await(ctx context.Context) error {
	moved := p.moved
	p.s.w.mu.Unlock()
	defer p.s.w.mu.Lock()
	select {
	case <-moved:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// flush waits until all that was written is accepted, or nothing more will be.
func (p *pen) flush(ctx context.Context) error {
	w := p.s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for p.err == nil && len(p.sending)+len(p.waiting) > 0 {
		p.hurried = true
		signal(w.said)
		if err := p.await(ctx); err != nil {
			return err
		}
	}
	return p.err
}

// Step implements pawl.Pen. A step has no name to be known by: when an answer is
// lost, how far the message is says whether it was taken.
func (p *pen) Step(ctx context.Context, snapshot json.RawMessage) (ref pawl.CheckpointRef, err error) {
	if err := p.flush(ctx); err != nil {
		return ref, err
	}
	tried := false
	err = p.s.tell(ctx, func(ctx context.Context) error {
		if tried {
			state, err := p.s.w.c.Resume(ctx, p.s.j.fence.ItemID)
			if err != nil {
				return err
			}
			if m := state.OpenMessage; m != nil && m.ID == p.ref.ID && m.StepNumber > p.ref.StepNumber && state.IterationEnd != nil {
				ref = pawl.CheckpointRef{ID: state.IterationEnd.ID, Sequence: state.IterationEnd.Sequence}
				return nil
			}
		}
		tried = true
		ref, err = answer(p.s.w.c.StepMessages(ctx, []pawl.StepCall{{MessageFence: p.fence(), Snapshot: snapshot}}))
		return err
	})
	if err == nil {
		p.ref.StepNumber++
	}
	return ref, p.learn(err)
}

// Finish implements pawl.Pen.
func (p *pen) Finish(ctx context.Context, usage json.RawMessage) error {
	if err := p.flush(ctx); err != nil {
		return err
	}
	tried := false
	err := p.s.tell(ctx, func(ctx context.Context) error {
		_, err := answer(p.s.w.c.FinishMessages(ctx, []pawl.FinishCall{{MessageFence: p.fence(), Usage: usage}}))
		var e *pawl.Error
		if tried && errors.As(err, &e) && e.State == string(pawl.MessageComplete) {
			return nil // an earlier try was carried out
		}
		tried = true
		return err
	})
	if err != nil {
		return p.learn(err)
	}
	p.s.w.mu.Lock()
	defer p.s.w.mu.Unlock()
	p.end(errFinished)
	return nil
}

// learn remembers that the message was stopped.
func (p *pen) learn(err error) error {
	if errors.Is(err, pawl.ErrStopped) {
		p.s.w.mu.Lock()
		defer p.s.w.mu.Unlock()
		p.end(err)
	}
	return err
}

// end has the pen take no more; the caller holds mu.
func (p *pen) end(why error) {
	if p.err != nil {
		return
	}
	p.err, p.waiting, p.sending, p.size = why, nil, nil, 0
	if errors.Is(why, pawl.ErrStopped) {
		p.cancel(pawl.ErrStopped)
	}
	p.move()
}

func (p *pen) move() {
	close(p.moved)
	p.moved = make(chan struct{})
}

func (p *pen) fence() pawl.MessageFence {
	f := p.s.j.fence
	return pawl.MessageFence{MessageID: p.ref.ID, WorkerID: f.WorkerID, Attempt: f.Attempt}
}

// answer is the only one of a batch of one.
func answer[R any](rs []pawl.Result[R], err error) (R, error) {
	if err = single(rs, err); err != nil {
		var none R
		return none, err
	}
	return rs[0].Value, nil
}
