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
	sendTime    = time.Minute     // for one wave
	stopGrace   = 5 * time.Second // for the wave under way when we are to stop
	leaveTime   = 5 * time.Second // to give the lease back
	quietTime   = time.Minute     // between words about refused events
	windowSize  = 1000            // events in memory
	probe       = 4               // messages of a wave while the sink fails
	keptRefused = 10
	firstPause  = 200 * time.Millisecond
	longPause   = 30 * time.Second
)

// turn is one lease of a sink: its window and how it fares.
type turn struct {
	*runner
	ledger *ledger
	window window
	epoch  int64     // of the window's positions
	over   bool      // the database went back in time: the next turn begins where its place is by then
	fails  int       // waves in a row of which the sink took nothing
	until  time.Time // no wave before
	quiet  time.Time // no word about refused events before
}

// turn relays until ctx ends, the lease is lost or the sink is disabled.
func (r *runner) turn(ctx context.Context, at pawl.Relay) {
	t := &turn{runner: r, ledger: newLedger(r.Book, r.Lease, at), epoch: at.Epoch, window: window{base: at.Position, last: at.Position}}
	holding, end := context.WithCancelCause(context.WithoutCancel(ctx))
	var keeping sync.WaitGroup
	keeping.Go(func() { t.ledger.keep(holding, end) })

	working, stop := context.WithCancel(holding)
	defer context.AfterFunc(ctx, stop)()
	t.log.DebugContext(ctx, "relaying", "position", at.Position)
	for working.Err() == nil && !t.over && t.ledger.read().DisabledAt == nil {
		t.step(working)
	}
	stop()
	lost := context.Cause(holding)
	end(nil)
	keeping.Wait()
	if lost != nil {
		t.log.WarnContext(ctx, "the relay stops here", "error", lost)
		return
	}
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	if err := t.ledger.leave(leaving); err != nil {
		t.log.WarnContext(ctx, "the relay's place was not written down; the next one repeats some events", "error", err)
	}
}

// step reads what there is room for, sends a wave and settles it, or waits.
func (t *turn) step(ctx context.Context) {
	read, err := t.fill(ctx)
	if at, epoch := pawl.RestartOf(err); epoch {
		t.over = true
		t.log.WarnContext(ctx, "the database went back in time; the relay restarts", "read_to", t.window.last, "restarts_at", at.String())
		return
	}
	if err != nil {
		if ctx.Err() == nil {
			t.log.WarnContext(ctx, "the record cannot be read; it is tried again", "error", err)
			sleep(ctx, time.Second)
		}
		return
	}
	now := clock.Now()
	limit := t.out.Batch
	if t.fails > 0 {
		limit = min(limit, probe)
	}
	var wave []*entry
	if !t.until.After(now) {
		wave = t.window.wave(now, limit)
	}
	switch {
	case len(wave) > 0:
		t.settle(ctx, wave, t.send(ctx, wave))
	case read == 0:
		t.rest(ctx, now)
	}
	t.advance()
}

// fill reads until the window is full or the record at its end.
func (t *turn) fill(ctx context.Context) (int, error) {
	room := windowSize - len(t.window.entries)
	if room <= 0 {
		return 0, nil
	}
	events, err := t.Source.ReadAt(ctx, pawl.FeedPosition{Epoch: t.epoch, Position: t.window.last}, room)
	if err != nil {
		return 0, err
	}
	for _, e := range events {
		if err := t.window.add(t.Origin, e, t.wants(e)); err != nil {
			return 0, err
		}
	}
	return len(events), nil
}

func (t *turn) wants(e pawl.Event) bool {
	among := func(some []string, one string) bool { return len(some) == 0 || slices.Contains(some, one) }
	return among(t.out.Namespaces, e.Namespace) && among(t.out.Types, e.TaskType) && among(t.out.Events, e.Event)
}

// rest waits until something may be sent: a new event, if there is room for it,
// or one that was to wait.
func (t *turn) rest(ctx context.Context, now time.Time) {
	at, some := t.window.next()
	if t.until.After(now) && len(t.window.entries) > 0 {
		at, some = t.until, true
	}
	if some {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, max(at.Sub(now), time.Millisecond))
		defer cancel()
	}
	if len(t.window.entries) >= windowSize {
		<-ctx.Done()
		return
	}
	if err := t.Source.WaitAt(ctx, pawl.FeedPosition{Epoch: t.epoch, Position: t.window.last}); err != nil && ctx.Err() == nil {
		t.log.WarnContext(ctx, "the record cannot be waited for; it is tried again", "error", err)
		sleep(ctx, time.Second)
	}
}

// send hands a wave to the sink. When ctx ends it has a moment to be confirmed.
func (t *turn) send(ctx context.Context, wave []*entry) []error {
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTime)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		sleep(sending, stopGrace)
		cancel()
	})()
	messages := make([]Message, len(wave))
	for i, e := range wave {
		messages[i] = e.message
	}
	return t.out.Sink.Send(sending, messages)
}

// settle takes up what the sink answered.
func (t *turn) settle(ctx context.Context, wave []*entry, answers []error) {
	var sent int64
	var refused []pawl.RefusedEvent
	var failed error
	var after time.Duration
	for i, e := range wave {
		err := answers[i]
		retryable, wait := pawl.RetryOf(err)
		switch {
		case err == nil:
			sent++
			e.settle()
		case !retryable:
			refused = append(refused, t.refuse(e, err))
		default:
			failed = err
			if wait != nil {
				after = max(after, *wait)
			}
		}
	}
	now := clock.Now()
	if failed != nil && ctx.Err() != nil && sent == 0 {
		return // we were cut off; the sink may be well
	}
	if alive := sent+int64(len(refused)) > 0; alive || failed == nil {
		t.fails, t.until = 0, time.Time{}
		for i, e := range wave {
			if !e.done {
				e.alone++
				e.notBefore = now.Add(pause(e.alone))
				if t.out.MaxTries > 0 && e.alone >= t.out.MaxTries {
					refused = append(refused, t.refuse(e, errors.Join(errors.New("given up while others pass"), answers[i])))
				}
			}
		}
	} else {
		t.fails++
		t.until = now.Add(max(pause(t.fails), after))
	}
	t.report(ctx, sent, refused, failed)
}

// refuse sets an event aside.
func (t *turn) refuse(e *entry, why error) pawl.RefusedEvent {
	r := pawl.RefusedEvent{EventID: e.message.Event.ID, Position: e.position, Reason: why.Error(), At: clock.Now().UTC()}
	e.settle()
	return r
}

// report writes down and says what became of a wave.
func (t *turn) report(ctx context.Context, sent int64, refused []pawl.RefusedEvent, failed error) {
	before := t.ledger.read()
	now := clock.Now().UTC()
	t.ledger.update(func(r *pawl.Relay) {
		r.Sent += sent
		r.Refused += int64(len(refused))
		r.LastRefused = append(r.LastRefused, refused...)
		r.LastRefused = r.LastRefused[max(0, len(r.LastRefused)-keptRefused):]
		switch {
		case t.fails == 0:
			r.Error, r.FailingAt = "", nil
		case failed != nil:
			r.Error = failed.Error()
			if r.FailingAt == nil {
				r.FailingAt = &now
			}
			long := t.out.DisableAfter > 0 && now.Sub(*r.FailingAt) >= t.out.DisableAfter
			if long || errors.Is(failed, ErrGone) {
				r.DisabledAt = &now
			}
		}
	})
	after := t.ledger.read()
	if len(refused) > 0 && !now.Before(t.quiet) { // a queue that is bound for a few events has the others refused all the time
		t.quiet = now.Add(quietTime)
		t.log.WarnContext(ctx, "events are set aside", "refused", after.Refused, "one", refused[0].EventID, "reason", refused[0].Reason)
	}
	switch {
	case after.DisabledAt != nil:
		t.log.ErrorContext(
			ctx,
			"the sink is disabled; `pawl relay resume` tries it again",
			"error",
			after.Error,
			"failing_since",
			after.FailingAt,
		)
	case before.FailingAt == nil && after.FailingAt != nil:
		t.log.WarnContext(ctx, "the sink does not take events; it is tried again", "error", after.Error)
	case before.FailingAt != nil && after.FailingAt == nil:
		t.log.InfoContext(ctx, "the sink takes events again")
	}
}

// advance moves the relay's place up to what is done.
func (t *turn) advance() {
	if at := t.window.trim(); at != t.ledger.read().Position {
		t.ledger.update(func(r *pawl.Relay) { r.Position = at })
	}
}

// pause is how long to wait after so many failures: it doubles, up to half a
// minute, and is up to a fifth shorter or longer.
func pause(failures int) time.Duration {
	d := min(firstPause<<min(failures-1, 20), longPause)
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}
