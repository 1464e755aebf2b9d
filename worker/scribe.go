package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// scribe sends what handlers say: what is due, of all of them, in one call.
func (w *crew) scribe() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-w.calls.Done():
			return
		case <-w.said:
		case <-timer.C:
		}
		for {
			due, calls, next := w.duePens(clock.Now())
			if len(due) == 0 {
				timer.Reset(next)
				break
			}
			w.append(due, calls)
		}
	}
}

// duePens takes what is due, and answers how long until more is.
func (w *crew) duePens(now time.Time) (due []*pen, calls []pawl.AppendCall, next time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next = time.Hour
	size := 0
	for j := range w.jobs {
		for _, p := range j.pens {
			if p.err != nil || len(p.sending)+len(p.waiting) == 0 {
				continue
			}
			if wait := p.due.Sub(now); wait > 0 && (!p.hurried || p.tries > 0) {
				next = min(next, wait)
				continue
			}
			if len(due) == pawl.MaxClaim || size >= handInBytes {
				return due, calls, next // the rest at once after it
			}
			size += p.take()
			due = append(due, p)
			calls = append(calls, pawl.AppendCall{MessageFence: p.fence(), Offset: p.ref.Offset, Chunks: p.sending})
		}
	}
	return due, calls, next
}

// take moves what waits to what is sent, unless that is to be sent again: an
// append is known by its offset and its chunks.
func (p *pen) take() (size int) {
	if len(p.sending) > 0 {
		return penCall
	}
	n := 0
	for n < len(p.waiting) && n < pawl.MaxChunksPerCall && size < penCall {
		size += sizeOf(&p.waiting[n])
		n++
	}
	p.sending, p.waiting = p.waiting[:n:n], p.waiting[n:]
	p.size -= size
	if len(p.waiting) == 0 {
		p.size, p.hurried = 0, false
	}
	return size
}

// append makes one call for many. A batch refused as a whole is sent one by one.
func (w *crew) append(due []*pen, calls []pawl.AppendCall) {
	ctx, cancel := context.WithTimeout(w.calls, handInCall)
	defer cancel()
	rs, err := w.c.Append(ctx, calls)
	if err == nil && len(rs) != len(calls) {
		err = errShort
	}
	for i, p := range due {
		switch {
		case err == nil:
			w.appended(p, rs[i].Value, rs[i].Err)
		case len(due) == 1 || passing(err):
			w.appended(p, pawl.Appended{}, err)
		default:
			w.append(due[i:i+1], calls[i:i+1])
		}
	}
}

// appended takes in the answer to one call.
func (w *crew) appended(p *pen, a pawl.Appended, err error) {
	var gone error
	if ended := messageEnd(err); ended != nil {
		err = ended
	} else if !passing(err) || errors.Is(err, pawl.ErrStopped) {
		gone = loss(err)
	}
	again := gone == nil && passing(err) && !errors.Is(err, pawl.ErrStopped) && w.held(p.s.j)
	w.mu.Lock()
	switch {
	case p.err != nil: // ended meanwhile
	case err == nil:
		p.ref.Offset, p.sending, p.tries = a.Offset, nil, 0
		p.due = clock.Now().Add(w.o.FlushEvery)
		p.move()
	case again:
		p.tries++
		p.due = clock.Now().Add(handInPause.after(p.tries, err))
	default:
		p.end(err)
	}
	w.mu.Unlock()
	if gone != nil {
		w.lose(p.s.j, gone)
	}
}

// drain waits until what a handler said is accepted, as long as its lease may
// hold.
func (w *crew) drain(j *job) {
	w.mu.Lock()
	pens, left := j.pens, j.hold.end.Sub(clock.Now())
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(w.calls, left)
	defer cancel()
	for _, p := range pens {
		_ = p.flush(ctx) // it has been told to whom it may concern
	}
}

// stopMessages ends the pens of messages that a heartbeat says were stopped; the
// caller holds mu.
func (j *job) stopMessages(ids []string) {
	for _, p := range j.pens {
		if slices.Contains(ids, p.ref.ID) {
			p.end(pawl.ErrStopped)
		}
	}
}

// endPens has the job's pens take no more; the caller holds mu.
func (j *job) endPens(why error) {
	for _, p := range j.pens {
		p.end(why)
	}
}

// wasStopped says that a handler returned because its message was stopped: with
// ErrStopped, or with what the message's context made of it.
func (w *crew) wasStopped(j *job, err error) bool {
	if errors.Is(err, pawl.ErrStopped) {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Is(err, context.Canceled) && slices.ContainsFunc(j.pens, func(p *pen) bool { return errors.Is(p.err, pawl.ErrStopped) })
}
