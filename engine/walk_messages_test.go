package engine_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/pawl-work/pawl"
)

// startMessage starts a message of an item. Later calls continue the message.
func (w *concurrentWalk) startMessage(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	c, found := w.drawClaim(draw, "")
	if !found {
		return w.claim(ctx, draw, svc)
	}
	m, err := first(svc.StartMessages(ctx, []pawl.StartCall{{Fence: c.Fence, Role: pawl.RoleAssistant}}))
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, pawl.MessageFence{MessageID: m.ID, WorkerID: c.WorkerID, Attempt: c.Attempt})
	w.record.tasks[m.ID] = c.task
	return nil
}

// openMessage opens a message that a task has itself. Later calls continue the message.
func (w *concurrentWalk) openMessage(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	return w.openMessageOf(ctx, draw, svc, w.drawTask(draw))
}

func (w *concurrentWalk) openMessageOf(ctx context.Context, draw *rand.Rand, svc pawl.Service, task string) error {
	call := pawl.OpenCall{TaskID: task, Role: pawl.RoleAssistant, Thread: "own"}
	if draw.IntN(2) == 0 {
		call.OnConflict = pawl.OnConflictReturn
	}
	m, err := first(svc.OpenMessages(ctx, []pawl.OpenCall{call}))
	if err != nil || m.Writer == "" {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, pawl.MessageFence{MessageID: m.ID, Writer: m.Writer})
	w.record.tasks[m.ID] = task
	return nil
}

// drawMessage returns a message, sometimes with the fence of a later claim.
func (w *concurrentWalk) drawMessage(draw *rand.Rand) (m pawl.MessageFence, found bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.said) == 0 {
		return m, false
	}
	m = w.said[draw.IntN(len(w.said))]
	if draw.IntN(4) == 0 && m.Writer == "" {
		c := w.claims[len(w.claims)-1]
		m.WorkerID, m.Attempt = c.WorkerID, c.Attempt
	}
	return m, true
}

// append appends at the offset that the message has.
func (w *concurrentWalk) append(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	m, found := w.drawMessage(draw)
	if !found {
		return w.read(ctx, draw, svc)
	}
	return w.appendTo(ctx, svc, m)
}

func (w *concurrentWalk) appendTo(ctx context.Context, svc pawl.Service, m pawl.MessageFence) error {
	call := pawl.AppendCall{MessageFence: m, Chunks: []pawl.Chunk{{Type: pawl.ChunkText, Text: "so"}}}
	_, err := first(svc.Append(ctx, []pawl.AppendCall{call}))
	var e *pawl.Error
	if errors.As(err, &e) && e.Expected != nil {
		call.Offset = *e.Expected
		_, err = first(svc.Append(ctx, []pawl.AppendCall{call}))
	}
	if err == nil {
		w.record.chunk(m.MessageID, call.Offset+1)
	}
	return err
}

func (w *concurrentWalk) step(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	m, found := w.drawMessage(draw)
	if !found || m.Writer != "" { // a message that a task has itself has no steps
		return w.read(ctx, draw, svc)
	}
	_, err := first(svc.StepMessages(ctx, []pawl.StepCall{{MessageFence: m}}))
	return err
}

func (w *concurrentWalk) finishMessage(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	m, found := w.drawMessage(draw)
	if !found {
		return w.read(ctx, draw, svc)
	}
	_, err := first(svc.FinishMessages(ctx, []pawl.FinishCall{{MessageFence: m}}))
	return err
}

func (w *concurrentWalk) stopMessage(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	m, found := w.drawMessage(draw)
	if !found {
		return w.read(ctx, draw, svc)
	}
	_, err := first(svc.StopMessages(asOperator(ctx), []pawl.StopCall{{MessageID: m.MessageID}}))
	return err
}

// checkMessages reads every message to its end and checks that each chunk comes once and
// in order.
func (w *concurrentWalk) checkMessages() {
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	for _, m := range w.said {
		if m.Writer != "" { // else it is open for minutes after its task has ended
			_, err := first(w.p.Service.StopMessages(asOperator(ctx), []pawl.StopCall{{MessageID: m.MessageID}}))
			if !errors.Is(err, pawl.ErrNotFound) && !errors.Is(err, pawl.ErrConflict) {
				w.accept(err)
			}
		}
		h, err := listen(ctx, w.engines[w.round%2], m.MessageID, nil)
		for try := 0; try < 5 && errors.Is(err, pawl.ErrUnavailable); try++ { // its connection was one of those that were killed
			h, err = listen(ctx, w.engines[w.round%2], m.MessageID, nil)
		}
		switch {
		case errors.Is(err, pawl.ErrNotFound) && (w.deleted || w.archives()):
		case err != nil || h.fault != "" || h.end == "":
			w.Errorf("message %s: %v, %s, it ended as %q", m.MessageID, err, h.fault, h.end)
		}
	}
}
