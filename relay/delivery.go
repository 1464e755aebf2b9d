package relay

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

const (
	sendTimeout        = time.Minute     // for one batch
	stopGrace          = 5 * time.Second // for the batch in flight when the relay is stopped
	releaseTimeout     = 5 * time.Second // to release the lease
	refusedLogInterval = time.Minute     // between two log lines about refused events
	windowSize         = 1000            // events in memory, and in one page of them
	maxOvertaken       = 10_000          // events that are read after one that is not done, for each of its failures
	failingBatchSize   = 4               // messages of a batch while the sink fails
	maxListedRefused   = 10
	minBackoff         = 200 * time.Millisecond
	maxBackoff         = 30 * time.Second
)

// delivery is the work under one lease of a sink.
type delivery struct {
	*runner
	state          *stateWriter
	window         window
	epoch          int64     // of the window's positions
	restart        bool      // the database went back in time: take the relay again and read its new position
	idle           bool      // of Once: nothing is left to send now
	retry          time.Time // of Once: when what has failed may be sent again, zero if nothing has
	batches        int       // that were sent
	accepted       int64     // events that the sink has accepted or refused for good
	failures       int       // consecutive batches of which the sink accepted nothing
	notBefore      time.Time // when the next batch may be sent
	nextRefusedLog time.Time // when refused events may be logged again
}

// deliver sends events until ctx ends, the lease is lost or the sink is disabled. It returns how many the sink has
// accepted, and when the next may be sent, zero if none waits. Only Once asks for that.
func (r *runner) deliver(ctx context.Context, at pawl.Relay) (sent int64, next time.Time) {
	t := &delivery{
		runner: r,
		state:  newStateWriter(r.States, r.Lease, at),
		epoch:  at.Epoch,
		window: window{last: at.Position},
	}
	holding, end := context.WithCancelCause(context.WithoutCancel(ctx))
	var keeping sync.WaitGroup
	keeping.Go(func() { t.state.run(holding, end) })

	working, stop := context.WithCancel(holding)
	defer context.AfterFunc(ctx, stop)()
	t.log.DebugContext(ctx, "relaying", "position", at.Position)
	for working.Err() == nil && !t.restart && !t.idle && t.state.read().DisabledAt == nil {
		t.step(working)
	}
	stop()
	sent, next = t.state.read().Sent-at.Sent, t.retry
	if !t.idle && t.state.read().DisabledAt == nil { // it did not come to an end
		next = clock.Now()
	}
	lost := context.Cause(holding)
	end(nil)
	keeping.Wait()
	if lost != nil {
		t.log.WarnContext(ctx, "the relay lost its lease and stops; it tries to take the lease again", "error", lost)
		return sent, next
	}
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := t.state.release(leaving); err != nil {
		t.log.WarnContext(ctx, "the relay's position could not be stored; some events will be sent again", "error", err)
	}
	return sent, next
}

// step reads events, up to the size of the window, and sends a batch. If there is nothing to
// send, it waits.
func (t *delivery) step(ctx context.Context) {
	read, err := t.readEvents(ctx)
	if err != nil {
		t.feedFailed(ctx, err)
		return
	}
	now := clock.Now()
	limit := t.sink.Batch
	if t.failures > 0 {
		limit = min(limit, failingBatchSize)
	}
	var batch []*entry
	if !t.notBefore.After(now) {
		batch = t.window.nextBatch(now, limit, t.failures > 0)
	}
	if err := t.check(ctx, batch); err != nil {
		t.feedFailed(ctx, err)
		return
	}
	switch {
	case len(batch) > 0:
		t.handleResults(ctx, batch, t.send(ctx, batch))
	case read == 0:
		t.wait(ctx, now)
	}
	t.advancePosition()
}

// feedFailed ends the work under this lease if the database went back in time: the events in
// memory may be of a lost history. After any other error it waits.
func (t *delivery) feedFailed(ctx context.Context, err error) {
	if at, epoch := pawl.RestartOf(err); epoch {
		t.restart = true
		t.log.WarnContext(ctx, "the database went back in time; the relay restarts", "read_to", t.window.last, "restarts_at", at.String())
	} else if ctx.Err() == nil {
		t.log.WarnContext(ctx, "the event feed cannot be read; retrying", "error", err)
		sleep(ctx, time.Second)
	}
}

// check returns an error if a batch may be of a history that the database has lost since it was
// read.
func (t *delivery) check(ctx context.Context, batch []*entry) (err error) {
	at := pawl.FeedPosition{Epoch: t.epoch, Position: t.window.last}
	if c, can := t.Source.(Checker); can && len(batch) > 0 {
		err = c.Check(ctx, at)
	} else if len(batch) > 0 && t.room() <= 0 { // nothing was read before it
		_, err = t.Source.ReadAt(ctx, at, 1)
	}
	return err
}

func (t *delivery) room() int { return t.window.room(t.sink.MaxTries > 0) }

// readEvents reads one page of events, as many as fit into the window.
func (t *delivery) readEvents(ctx context.Context) (int, error) {
	room := t.room()
	if room <= 0 {
		return 0, nil
	}
	events, err := t.Source.ReadAt(ctx, pawl.FeedPosition{Epoch: t.epoch, Position: t.window.last}, room)
	if err != nil {
		return 0, err
	}
	for _, e := range events {
		if err := t.window.add(t.Origin, e, t.matches(e)); err != nil {
			return 0, err
		}
	}
	return len(events), nil
}

func (t *delivery) matches(e pawl.Event) bool {
	among := func(some []string, one string) bool { return len(some) == 0 || slices.Contains(some, one) }
	return among(t.sink.Namespaces, e.Namespace) && among(t.sink.Types, e.TaskType) && among(t.sink.Events, e.Event)
}

// wait waits until something may be sent: a new event, if the window is not full, or a
// delayed retry.
func (t *delivery) wait(ctx context.Context, now time.Time) {
	at := t.retryAt(now)
	if t.idle, t.retry = t.once, at; t.idle {
		return
	}
	if !at.IsZero() {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, max(at.Sub(now), time.Millisecond))
		defer cancel()
	}
	if t.room() <= 0 {
		<-ctx.Done()
		return
	}
	if err := t.Source.WaitAt(ctx, pawl.FeedPosition{Epoch: t.epoch, Position: t.window.last}); err != nil && ctx.Err() == nil {
		t.log.WarnContext(ctx, "waiting for new events failed; retrying", "error", err)
		sleep(ctx, time.Second)
	}
}

// retryAt is when what has failed may be sent again, zero if nothing has.
func (t *delivery) retryAt(now time.Time) time.Time {
	at, _ := t.window.nextRetry()
	if t.notBefore.After(now) && len(t.window.entries) > 0 {
		at = t.notBefore
	}
	return at
}

// send passes a batch to the sink. After ctx has ended, the sink has stopGrace to confirm it.
func (t *delivery) send(ctx context.Context, batch []*entry) []error {
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		sleep(sending, stopGrace)
		cancel()
	})()
	messages := make([]Message, len(batch))
	t.batches++
	for i, e := range batch {
		messages[i], e.tried = e.message, t.batches
	}
	end := t.traced(ctx, messages)
	results := t.sink.Sink.Send(sending, messages)
	end(results)
	return results
}

// handleResults marks accepted and refused events as done and delays the others.
func (t *delivery) handleResults(ctx context.Context, batch []*entry, results []error) {
	var sent int64
	var refused []pawl.RefusedEvent
	var failed error
	var retryAfter time.Duration
	for i, e := range batch {
		err := results[i]
		retryable, wait := pawl.RetryOf(err)
		switch {
		case err == nil:
			sent++
			e.done = true
		case !retryable:
			refused = append(refused, t.markRefused(e, err))
		default:
			failed = err
			if wait != nil {
				retryAfter = max(retryAfter, *wait)
			}
		}
	}
	if failed != nil && ctx.Err() != nil && sent == 0 {
		return // the relay was stopped; this says nothing about the sink
	}
	before, failing := t.accepted, false
	t.accepted += sent + int64(len(refused))
	t.window.trim()
	for i, e := range batch {
		if e.done {
			continue
		}
		if !e.failed {
			e.failed, e.accepted = true, before
		}
		others := t.accepted > e.accepted // were accepted since e was last tried
		e.accepted = t.accepted
		if failing = failing || !others; others {
			refused = append(refused, t.delay(e, results[i])...)
		}
	}
	switch {
	case t.accepted > before:
		t.failures, t.notBefore = 0, time.Time{}
	case failing:
		t.failures++
		t.notBefore = clock.Now().Add(max(backoff(t.failures), retryAfter))
	}
	t.saveOutcome(ctx, sent, refused, failed)
}

// delay counts a failure of an event while others were accepted, and gives the event up after MaxTries of them. A try for
// which the sink named a time counts only when the event keeps others from being read.
func (t *delivery) delay(e *entry, failed error) []pawl.RefusedEvent {
	var pause time.Duration
	if _, wait := pawl.RetryOf(failed); wait != nil {
		pause = *wait
	}
	if pause == 0 || e == t.window.entries[0] && t.room() <= 0 {
		e.failures++
	}
	e.notBefore = clock.Now().Add(max(backoff(e.failures), pause))
	if t.sink.MaxTries > 0 && e.failures >= t.sink.MaxTries {
		return []pawl.RefusedEvent{t.markRefused(e, errors.Join(errGivenUp, failed))}
	}
	return nil
}

var errGivenUp = errors.New("given up after too many failures while other events were accepted")

// markRefused marks an event as done and returns its entry in the list of refused events.
func (t *delivery) markRefused(e *entry, why error) pawl.RefusedEvent {
	e.done = true
	of := e.message.Event
	return pawl.RefusedEvent{EventID: of.ID, Position: of.Position, Reason: why.Error(), At: clock.Now().UTC()}
}

// saveOutcome updates the relay's state after a batch, and logs what an operator must know.
func (t *delivery) saveOutcome(ctx context.Context, sent int64, refused []pawl.RefusedEvent, failed error) {
	before := t.state.read()
	now := clock.Now().UTC()
	t.state.update(func(r *pawl.Relay) {
		r.Sent += sent
		r.Refused += int64(len(refused))
		r.LastRefused = append(r.LastRefused, refused...)
		r.LastRefused = r.LastRefused[max(0, len(r.LastRefused)-maxListedRefused):]
		switch {
		case t.failures == 0:
			r.Error, r.FailingAt = "", nil
		case failed != nil:
			r.Error = failed.Error()
			if r.FailingAt == nil {
				r.FailingAt = &now
			}
			long := t.sink.DisableAfter > 0 && now.Sub(*r.FailingAt) >= t.sink.DisableAfter
			if long || errors.Is(failed, ErrGone) {
				r.DisabledAt = &now
			}
		}
	})
	after := t.state.read()
	if len(refused) > 0 && !now.Before(t.nextRefusedLog) { // a queue that is bound to few events refuses the others all the time
		t.nextRefusedLog = now.Add(refusedLogInterval)
		t.log.WarnContext(ctx, "the sink refused events; they are skipped", "refused", after.Refused, "event", refused[0].EventID,
			"reason", refused[0].Reason)
	}
	switch {
	case after.DisabledAt != nil:
		t.log.ErrorContext(
			ctx,
			"the sink is disabled; `pawl relay resume` enables it",
			"error",
			after.Error,
			"failing_since",
			after.FailingAt,
		)
	case before.FailingAt == nil && after.FailingAt != nil:
		t.log.WarnContext(ctx, "the sink does not accept events; retrying", "error", after.Error)
	case before.FailingAt != nil && after.FailingAt == nil:
		t.log.InfoContext(ctx, "the sink accepts events again")
	}
}

// advancePosition moves the relay's position up to the first event that is not done.
func (t *delivery) advancePosition() {
	if at := t.window.trim(); at != t.state.read().Position {
		t.state.update(func(r *pawl.Relay) { r.Position = at })
	}
}

// backoff is the pause after so many failures. It doubles up to maxBackoff, with a jitter of
// ±20 %.
func backoff(failures int) time.Duration {
	d := min(minBackoff<<min(max(failures-1, 0), 20), maxBackoff)
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}
