package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// flushLoop sends the buffered chunks of all handlers' messages that are due, in one
// call.
func (w *runner) flushLoop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-w.callCtx.Done():
			return
		case <-w.flushNow:
		case <-timer.C:
		}
		for {
			due, calls, next := w.dueWriters(clock.Now())
			if len(due) == 0 {
				timer.Reset(next)
				break
			}
			w.append(due, calls)
		}
	}
}

// dueWriters returns the writers whose chunks are due with their calls, and how long
// until more are due.
func (w *runner) dueWriters(now time.Time) (due []*messageWriter, calls []pawl.AppendCall, next time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next = time.Hour
	size := 0
	for j := range w.jobs {
		for _, p := range j.writers {
			if p.err != nil || len(p.sending)+len(p.waiting) == 0 {
				continue
			}
			if wait := p.due.Sub(now); wait > 0 && (!p.urgent || p.tries > 0) {
				next = min(next, wait)
				continue
			}
			if len(due) == pawl.MaxClaim || size >= maxBatchBytes {
				return due, calls, next // the rest follows at once
			}
			size += p.nextAppend()
			due = append(due, p)
			calls = append(calls, pawl.AppendCall{MessageFence: p.fence(), Offset: p.ref.Offset, Chunks: p.sending})
		}
	}
	return due, calls, next
}

// nextAppend moves chunks from waiting to sending. A failed append is sent again
// unchanged: the service recognises it by its offset and chunks.
func (p *messageWriter) nextAppend() (size int) {
	if len(p.sending) > 0 {
		return maxAppendBytes
	}
	n := 0
	for n < len(p.waiting) && n < pawl.MaxChunksPerCall && size < maxAppendBytes {
		size += sizeOf(&p.waiting[n])
		n++
	}
	p.sending, p.waiting = p.waiting[:n:n], p.waiting[n:]
	p.size -= size
	if len(p.waiting) == 0 {
		p.size, p.urgent = 0, false
	}
	return size
}

// append makes one call for many messages. When the whole batch is refused, it sends
// the appends one by one.
func (w *runner) append(due []*messageWriter, calls []pawl.AppendCall) {
	ctx, cancel := context.WithTimeout(w.callCtx, callTimeout)
	defer cancel()
	rs, err := w.claimer.Append(ctx, calls)
	if err == nil && len(rs) != len(calls) {
		err = errPartialAnswer
	}
	for i, p := range due {
		switch {
		case err == nil:
			w.appended(p, rs[i].Value, rs[i].Err)
		case len(due) == 1 || isTransient(err):
			w.appended(p, pawl.Appended{}, err)
		default:
			w.append(due[i:i+1], calls[i:i+1])
		}
	}
}

// appended handles the answer to one append.
func (w *runner) appended(p *messageWriter, a pawl.Appended, err error) {
	var gone error
	if ended := messageEnd(err); ended != nil {
		err = ended
	} else if !isTransient(err) || errors.Is(err, pawl.ErrStopped) {
		gone = claimLoss(err)
	}
	again := gone == nil && isTransient(err) && !errors.Is(err, pawl.ErrStopped) && w.mayHold(p.session.j)
	w.mu.Lock()
	switch {
	case p.err != nil: // ended meanwhile
	case err == nil:
		p.ref.Offset, p.sending, p.tries = a.Offset, nil, 0
		p.due = clock.Now().Add(w.opts.FlushEvery)
		p.notify()
	case again:
		p.tries++
		p.due = clock.Now().Add(retryBackoff.after(p.tries, err))
	default:
		p.end(err)
	}
	w.mu.Unlock()
	if gone != nil {
		w.endClaim(p.session.j, gone)
	}
}

// drain waits until the handler's chunks are accepted, at most until its lease expires. It
// returns why chunks were not accepted, unless their message was stopped or the claim is over.
func (w *runner) drain(j *job) (refused error) {
	w.mu.Lock()
	writers, left := j.writers, j.lease.expiresAt.Sub(clock.Now())
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(w.callCtx, left)
	defer cancel()
	for _, p := range writers {
		if err := p.flush(ctx); refused == nil && err != errFinished && !errors.Is(err, pawl.ErrStopped) {
			refused = err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if j.state != jobRunning {
		return nil
	}
	return refused
}

// stopMessages ends the writers of messages that a heartbeat's answer lists as
// stopped. The caller holds mu.
func (j *job) stopMessages(ids []string) {
	for _, p := range j.writers {
		if slices.Contains(ids, p.ref.ID) {
			p.end(pawl.ErrStopped)
		}
	}
}

// endWriters ends all of the job's writers. The caller holds mu.
func (j *job) endWriters(why error) {
	for _, p := range j.writers {
		p.end(why)
	}
}

// wasStopped reports whether a handler returned because its message was stopped: with
// ErrStopped, or with context.Canceled of the message's context.
func (w *runner) wasStopped(j *job, err error) bool {
	if errors.Is(err, pawl.ErrStopped) {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Is(err, context.Canceled) &&
		slices.ContainsFunc(j.writers, func(p *messageWriter) bool { return errors.Is(p.err, pawl.ErrStopped) })
}
