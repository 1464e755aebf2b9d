package signals

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// signal names a signal.
type signal struct{ namespace, name, key string }

// SendSignals sends signals; see pawl.Signaller.
func (r *Signals) SendSignals(ctx context.Context, calls []pawl.SignalCall) ([]pawl.Result[pawl.Signalled], error) {
	if err := cmp.Or(r.k.Acts(ctx, "signal"), rules.CheckBatch("signal", len(calls))); err != nil {
		return nil, err
	}
	out := make([]pawl.Result[pawl.Signalled], len(calls))
	for i := range calls {
		out[i].Value, out[i].Err = r.send(ctx, &calls[i])
	}
	return out, nil
}

func (r *Signals) send(ctx context.Context, call *pawl.SignalCall) (pawl.Signalled, error) {
	if err := check(call); err != nil {
		return pawl.Signalled{}, err
	}
	payload, out := rules.OrNull(call.Payload), sent{}
	err := r.k.Write(ctx, func(ctx context.Context, w *kernel.Write) (err error) {
		if err = r.k.Refer(ctx, w, "signal", payload); err == nil {
			out, err = signal{w.Caller.Namespace, call.Name, call.Key}.send(ctx, w.Tx, payload, w.Actor(pawl.ActorUser, ""))
		}
		return err
	})
	if err != nil {
		return pawl.Signalled{}, err
	}
	r.k.Tasks(kernel.Origin{}).Follow(ctx, kernel.After{Queued: out.woken, Waking: out.left > 0})
	return pawl.Signalled{Name: call.Name, Key: call.Key, SentAt: store.Stamp(out.at), Woken: len(out.woken) + out.left,
		Replaced: out.before}, nil
}

// check checks the call that sends a signal.
func check(c *pawl.SignalCall) error {
	var f rules.Fields
	f.Text("/name", c.Name, 1, pawl.MaxKeyLen)
	f.Text("/key", c.Key, 0, pawl.MaxKeyLen)
	f.JSON("/payload", c.Payload, pawl.MaxPayloadBytes)
	return f.Err("signal")
}

// lock locks the signal's row, which it inserts if it is missing, and returns when the
// signal was last sent; 0 = never. Until the transaction ends, no other transaction sends
// the signal or suspends an item for it.
func (s signal) lock(ctx context.Context, tx store.Tx) (sent int64, err error) {
	for {
		sent, found, err := s.lockIfThere(ctx, tx)
		if err != nil || found {
			return sent, err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return 0, err
		}
		if _, err := tx.Exec(ctx, texts["open signal"], s.namespace, s.name, s.key, now); err != nil {
			return 0, err
		}
	}
}

func (s signal) lockIfThere(ctx context.Context, tx store.Tx) (sent int64, found bool, err error) {
	var at *int64
	if found, err = store.Row(ctx, tx, []any{&at}, texts["lock signal"], s.namespace, s.name, s.key); at != nil {
		sent = *at
	}
	return sent, found, err
}

// forget removes the locked signal if it was never sent and no item waits for it.
func (s signal) forget(ctx context.Context, tx store.Tx) error {
	_, err := tx.Exec(ctx, texts["forget signal"], s.namespace, s.name, s.key)
	return err
}

// sent is the outcome of send.
type sent struct {
	at     int64
	before bool // the signal had been sent before
	woken  []store.DueItem
	left   int // items that wait for it and are queued later, by WakeRest
}

// Tell implements kernel.Signals.
func (asked) Tell(ctx context.Context, tx store.Tx, namespace, name, key string, by store.Actor) ([]store.DueItem, error) {
	out, err := signal{namespace, name, key}.send(ctx, tx, "null", by)
	return out.woken, err
}

// send stores the payload and queues items that wait for the signal, up to batch.
func (s signal) send(ctx context.Context, tx store.Tx, payload string, by store.Actor) (sent, error) {
	last, err := s.lock(ctx, tx)
	if err != nil {
		return sent{}, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return sent{}, err
	}
	out := sent{at: max(now, last+1), before: last != 0} // no two have one time: see taken
	if _, err := tx.Exec(ctx, texts["send signal"], s.namespace, s.name, s.key, payload, out.at); err != nil {
		return sent{}, err
	}
	ids, err := store.ItemIDs(ctx, tx, texts["waiting for signal"], s.namespace, s.name, s.key, batch)
	if err != nil || len(ids) == 0 {
		return out, err
	}
	rest := store.Waking{By: by}
	if len(ids) == batch {
		if err := rest.Begin(ctx, tx); err != nil {
			return sent{}, err
		}
	}
	out.woken, err = wake(ctx, tx, out.at, ids, map[told]bool{}, &by)
	if err == nil && len(ids) == batch {
		out.left, err = s.leave(ctx, tx, rest)
	}
	return out, err
}

func (s signal) compare(o signal) int {
	return cmp.Or(strings.Compare(s.namespace, o.namespace), strings.Compare(s.name, o.name), strings.Compare(s.key, o.key))
}

// told names a task and a signal for which the task has its event.
type told struct {
	taskID         string
	signal, itsKey store.Text
}

// wake queues those of the items that still wait; a due time or a cancel may have been
// first. Each item gets an event ready. Its task gets an event signalled, if before does not
// have it yet. The actor of the events is by, or if that is nil the item's last worker.
func wake(ctx context.Context, tx store.Tx, now int64, ids []string, before map[told]bool, by *store.Actor) ([]store.DueItem, error) {
	held, err := store.Take(ctx, tx, ids, []string{"waiting"})
	if err != nil {
		return nil, err
	}
	var events []store.Event
	out, took := make([]store.DueItem, len(held)), map[signal]store.Text{}
	for i := range held {
		h := &held[i]
		s := signal{h.Namespace, string(h.Signal), string(h.SignalKey)}
		if took[s] == "" {
			if took[s], err = s.taking(ctx, tx); err != nil {
				return nil, err
			}
		}
		h.Requeue(now)
		out[i] = store.DueItem{Namespace: h.Namespace, ItemID: h.ItemID, Type: h.Type, Rank: h.Rank}
		if t := (told{h.TaskID, h.Signal, h.SignalKey}); !before[t] {
			before[t] = true
			events = append(events, store.Event{Namespace: h.Namespace, TaskID: h.TaskID, Event: "signalled", Data: s.data()}.By(by, h))
		}
		events = append(events, store.Event{Namespace: h.Namespace, TaskID: h.TaskID, ItemID: store.Text(h.ItemID), Solo: h.Solo,
			Attempt: h.Attempt, Event: "ready", From: "waiting", To: "queued", Data: took[s]}.By(by, h))
	}
	if err := store.Put(ctx, tx, held); err != nil {
		return nil, err
	}
	return out, store.Record(ctx, tx, now, events)
}

// data returns the data of the event signalled.
func (s signal) data() store.Text {
	d := struct {
		Signal string  `json:"signal"`
		Key    *string `json:"key"`
	}{Signal: s.name}
	if s.key != "" {
		d.Key = &s.key
	}
	text, _ := json.Marshal(d) // plain values
	return store.Text(text)
}
