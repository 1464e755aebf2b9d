package relays

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// most is how many relays a list has at most.
const most = 1000

// TakeRelay leases a sink to a holder for ttl, unless another holder has it or the relay
// is disabled; see relay.StateStore.
func (a *Relays) TakeRelay(ctx context.Context, sink, kind, holder string, ttl time.Duration) (r pawl.Relay, ok bool, err error) {
	if a.k.Guard.Quarantined() || a.k.Guard.Test() { // as if another holder had it
		return r, false, nil
	}
	ctx = kernel.ForAll(ctx)
	free := func(r pawl.Relay, now int64) bool {
		return r.DisabledAt == nil && (r.Holder == "" || r.Holder == holder || r.HeldUntil == nil || r.HeldUntil.UnixMicro() <= now)
	}
	err = a.k.DB.View(ctx, func(ctx context.Context, tx store.Tx) error { // a holder on standby writes nothing
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		r, ok, err = read(ctx, tx, sink)
		ok = !ok || free(r, now)
		return err
	})
	if err != nil || !ok {
		return r, false, err
	}
	err = a.k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		if r, err = start(ctx, tx, sink); err != nil {
			return err
		}
		if ok = free(r, now); !ok {
			return nil
		}
		s, err := store.ReadFeed(ctx, tx)
		if err != nil {
			return err
		}
		if at := (pawl.FeedPosition{Epoch: r.Epoch, Position: r.Position}); at.Epoch != s.Epoch { // the database went back in time
			at = s.Restart(at)
			r.Epoch, r.Position = at.Epoch, at.Position
		}
		until := store.Stamp(now + ttl.Microseconds())
		r.Kind, r.Holder, r.HeldUntil = kind, holder, &until
		return write(ctx, tx, now, r)
	})
	return r, ok && err == nil, err
}

// KeepRelay stores the state of a relay and renews its lease. With ttl 0 it gives the
// lease back; see relay.StateStore.
func (a *Relays) KeepRelay(ctx context.Context, r pawl.Relay, ttl time.Duration) (ok bool, err error) {
	if a.k.Guard.Quarantined() || a.k.Guard.Test() {
		return false, nil
	}
	ctx = kernel.ForAll(ctx)
	err = a.k.Write(ctx, func(ctx context.Context, w *kernel.Write) error {
		r := r // the transaction may be repeated
		now, err := w.Now(ctx)
		if err != nil {
			return err
		}
		was, found, err := lock(ctx, w.Tx, r.Sink)
		if ok = found && was.Holder == r.Holder; err != nil || !ok {
			return err
		}
		if ttl > 0 {
			until := store.Stamp(now + ttl.Microseconds())
			r.HeldUntil = &until
		} else {
			r.Holder, r.HeldUntil = "", nil
		}
		if r.DisabledAt != nil && was.DisabledAt == nil {
			if err := a.raise(ctx, w, now, r); err != nil {
				return err
			}
		}
		return write(ctx, w.Tx, now, r)
	})
	return ok, err
}

// raise reports that a relay is disabled to readers of the feed and of failed tasks. It
// creates a failed task that no worker claims.
func (a *Relays) raise(ctx context.Context, w *kernel.Write, now int64, r pawl.Relay) error {
	ctx = pawl.As(ctx, pawl.Caller{ActorType: pawl.ActorSystem})
	what := "relay " + r.Sink + " is disabled"
	if err := a.k.Base.Moves.Refuse(kernel.ForOne(ctx)); err != nil { // the state of the relay is stored without it
		a.k.Log.WarnContext(ctx, what+"; the task that reports this could not be created", "error", err)
		return nil
	}
	tasks := a.k.Tasks(kernel.Origin{})
	d, err := tasks.Draft(ctx, &pawl.NewTask{Type: pawl.TypeRelayDisabled, Title: what, Payload: rules.Encode(r)},
		kernel.Allowed{Reserved: true})
	if err != nil { // the type has rules that this task does not meet
		a.k.Log.WarnContext(ctx, what+"; the task that reports this could not be created", "error", err)
		return nil
	}
	if _, err := tasks.Insert(ctx, w, []kernel.Draft{d}); err != nil {
		return err
	}
	c := pawl.CallerOf(ctx)
	what += ": " + r.Error
	_, err = store.Apply(ctx, w.Tx, now, store.Change{Namespace: c.Namespace, TaskID: d.TaskID(), Verb: "give_up", To: "failed",
		Error: store.Text(rules.Encode(pawl.Failure{Code: "relay_disabled", Message: what})), Actor: kernel.Actor(c, pawl.ActorSystem, ""),
		Reason: store.Text(what)})
	return err
}

// ListRelays lists the relays and their positions; see pawl.RelayKeeper.
func (a *Relays) ListRelays(ctx context.Context) (pawl.List[pawl.Relay], error) {
	out := pawl.List[pawl.Relay]{Items: []pawl.Relay{}}
	ctx = kernel.ForAll(ctx)
	err := a.k.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		rs, err := list(ctx, tx)
		out.Items = append(out.Items[:0], rs...)
		return err
	})
	if err != nil || len(out.Items) == 0 {
		return out, err
	}
	head, err := a.k.Feed.Head(ctx)
	for i := range out.Items {
		if err == nil {
			err = a.behind(ctx, head, &out.Items[i])
		}
	}
	return out, err
}

// behind sets how far a relay is behind the newest event.
func (a *Relays) behind(ctx context.Context, head int64, r *pawl.Relay) error {
	if r.Lag = max(head-r.Position, 0); r.Lag == 0 {
		return nil
	}
	next, err := a.k.Feed.Read(ctx, r.Position, 1)
	if len(next) == 1 {
		r.OldestAt = &next[0].CreatedAt
	}
	return err
}

// ResumeRelay enables a disabled relay again; see pawl.RelayKeeper.
func (a *Relays) ResumeRelay(ctx context.Context, sink, from string) (pawl.Relay, error) {
	if a.k.Guard.Test() {
		return pawl.Relay{}, kernel.OffForGood("resume", "relays")
	}
	begin, err := beginning(ctx, a, from)
	if err != nil {
		return pawl.Relay{}, err
	}
	return a.change(ctx, sink, func(ctx context.Context, tx store.Tx, now int64, r *pawl.Relay) error {
		if r.DisabledAt == nil {
			return &pawl.Error{Code: pawl.CodeConflict, Op: "resume", Message: "the relay is not disabled", State: "enabled", Allowed: []string{}}
		}
		r.DisabledAt, r.FailingAt, r.Error = nil, nil, ""
		if err := begin(ctx, tx, r); err != nil {
			return err
		}
		return write(ctx, tx, now, *r)
	})
}

// beginning returns what sets the position of a relay that goes on from where a person says.
func beginning(ctx context.Context, a *Relays, from string) (func(ctx context.Context, tx store.Tx, r *pawl.Relay) error, error) {
	if from == "" || from == pawl.RelayFromStored {
		return func(context.Context, store.Tx, *pawl.Relay) error { return nil }, nil
	}
	head, err := a.k.Feed.Head(kernel.ForAll(ctx))
	if err != nil {
		return nil, err
	}
	position := head
	if from != pawl.RelayFromNow {
		if position, err = strconv.ParseInt(from, 10, 64); err != nil || position < 0 || position > head {
			return nil, pawl.Invalid("/from", "must be stored, now, or a position of the feed, 0 to %d, not %q", head, from)
		}
	}
	return func(ctx context.Context, tx store.Tx, r *pawl.Relay) error {
		s, err := store.ReadFeed(ctx, tx)
		r.Epoch, r.Position = s.Epoch, position
		r.Holder, r.HeldUntil = "", nil // one that has disabled it does not write its own position any more
		return err
	}, nil
}

// ForgetRelay removes the stored state of a relay; see pawl.RelayKeeper.
func (a *Relays) ForgetRelay(ctx context.Context, sink string) error {
	_, err := a.change(ctx, sink, func(ctx context.Context, tx store.Tx, now int64, r *pawl.Relay) error {
		if r.Holder != "" && r.HeldUntil != nil && r.HeldUntil.UnixMicro() > now {
			return &pawl.Error{Code: pawl.CodeConflict, Op: "forget", State: "held", Allowed: []string{},
				Message: fmt.Sprintf("%s relays to it; take it out of the settings there first", r.Holder)}
		}
		return store.ForgetCursor(ctx, tx, prefix+sink)
	})
	return err
}

func (a *Relays) change(
	ctx context.Context,
	sink string,
	fn func(ctx context.Context, tx store.Tx, now int64, r *pawl.Relay) error,
) (r pawl.Relay, err error) {
	err = a.k.DB.Do(kernel.ForAll(ctx), func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		var found bool
		if r, found, err = lock(ctx, tx, sink); err != nil {
			return err
		}
		if !found {
			return pawl.NotFound("relay", sink)
		}
		return fn(ctx, tx, now, &r)
	})
	return r, err
}

// Gauges returns the gauges of the relays. They are no part of the declaration: how far a relay is behind, the feed says.
func Gauges(ctx context.Context, a *Relays, now int64) ([]pawl.Gauge, error) {
	list, err := a.ListRelays(ctx)
	var out []pawl.Gauge
	for _, r := range list.Items {
		labels := []string{"sink", r.Sink}
		gauge := func(name, help string, value float64) {
			out = append(out, pawl.Gauge{Name: name, Help: help, Labels: labels, Value: value})
		}
		age, failing, disabled := 0.0, 0.0, 0.0
		if r.OldestAt != nil {
			age = max(float64(now-r.OldestAt.UnixMicro())/1e6, 0)
		}
		if r.FailingAt != nil {
			failing = 1
		}
		if r.DisabledAt != nil {
			disabled = 1
		}
		gauge("pawl_relay_lag_events", "Events that the sink does not have yet.", float64(r.Lag))
		gauge("pawl_relay_lag_seconds", "Since the oldest of them.", age)
		gauge("pawl_relay_sent", "Events that the sink has confirmed, repetitions too.", float64(r.Sent))
		gauge("pawl_relay_refused", "Events that were set aside.", float64(r.Refused))
		gauge("pawl_relay_failing", "1 while the sink takes nothing.", failing)
		gauge("pawl_relay_disabled", "1 when nothing is sent until it is resumed.", disabled)
	}
	return out, err
}
