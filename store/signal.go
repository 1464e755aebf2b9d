package store

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
)

var signalSQL = Texts(sqlFiles, "signal.sql")

// Signal names a signal.
type Signal struct{ Namespace, Name, Key string }

// lock locks the signal's row, which it inserts if it is missing, and returns when the
// signal was last sent; 0 = never. Until the transaction ends, no other transaction sends
// the signal or suspends an item for it.
func (s Signal) lock(ctx context.Context, tx Tx) (sent int64, err error) {
	for {
		var at *int64
		found, err := Row(ctx, tx, []any{&at}, signalSQL["lock signal"], s.Namespace, s.Name, s.Key)
		if err != nil || found {
			if at != nil {
				sent = *at
			}
			return sent, err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return 0, err
		}
		if _, err := tx.Exec(ctx, signalSQL["open signal"], s.Namespace, s.Name, s.Key, now); err != nil {
			return 0, err
		}
	}
}

// Sent is the outcome of a SendSignal.
type Sent struct {
	At     int64
	Before bool // the signal had been sent before
	Woken  []DueItem
	Left   int // items that wait for it and are queued later, by WakeRest
}

// SendSignal stores the payload and queues items that wait for the signal, up to wakeBatch.
func SendSignal(ctx context.Context, tx Tx, s Signal, payload string, by Actor) (Sent, error) {
	last, err := s.lock(ctx, tx)
	if err != nil {
		return Sent{}, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return Sent{}, err
	}
	out := Sent{At: max(now, last+1), Before: last != 0} // no two have one time: see Taken
	if _, err := tx.Exec(ctx, signalSQL["send signal"], s.Namespace, s.Name, s.Key, payload, out.At); err != nil {
		return Sent{}, err
	}
	ids, err := ItemIDs(ctx, tx, signalSQL["waiting for signal"], s.Namespace, s.Name, s.Key, wakeBatch)
	if err != nil || len(ids) == 0 {
		return out, err
	}
	rest := waking{By: by}
	if len(ids) == wakeBatch {
		if _, err := Row(ctx, tx, []any{&rest.After}, signalSQL["newest event"]); err != nil {
			return Sent{}, err
		}
	}
	out.Woken, err = wake(ctx, tx, out.At, ids, map[signalledTask]bool{}, &by)
	if err == nil && len(ids) == wakeBatch {
		out.Left, err = s.leave(ctx, tx, rest)
	}
	return out, err
}

// Await is the hot verb Leave for suspends when some of them wait for a signal. An item
// whose signal was sent already is queued again.
func Await(ctx context.Context, tx Tx, hot Hot, calls []Leave) ([]Moved, error) {
	var signals []Signal
	for i := range calls {
		if calls[i].Signal != "" {
			signals = append(signals, calls[i].awaited())
		}
	}
	slices.SortFunc(signals, Signal.compare) // all transactions lock signals in the same order
	for _, s := range slices.Compact(signals) {
		if _, err := s.lock(ctx, tx); err != nil {
			return nil, err
		}
	}
	out, err := hot.Leave(ctx, tx, calls)
	if err != nil {
		return nil, err
	}
	if err := awaitChildren(ctx, tx, calls, out); err != nil {
		return nil, err
	}
	items := make(map[int]*Leave, len(calls))
	for i := range calls {
		items[calls[i].Ord] = &calls[i]
	}
	var ids []string
	moved := map[string]*Moved{}
	for i := range out {
		c := items[out[i].Ord]
		moved[c.ItemID] = &out[i]
		delete(items, out[i].Ord)
		ids = append(ids, c.ItemID)
	}
	for _, refused := range items { // a refused call must leave no row of a signal
		if s := refused.awaited(); s.Name != "" {
			if _, err := tx.Exec(ctx, signalSQL["forget signal"], s.Namespace, s.Name, s.Key); err != nil {
				return nil, err
			}
		}
	}
	if len(ids) == 0 {
		return out, nil
	}
	if ids, err = ItemIDs(ctx, tx, signalSQL["signalled before"], ItemList(ids)); err != nil || len(ids) == 0 {
		return out, err
	}
	if ids, err = notTaken(ctx, tx, calls, moved, ids); err != nil || len(ids) == 0 {
		return out, err
	}
	woken, err := wake(ctx, tx, out[0].Now, ids, map[signalledTask]bool{},
		nil)
	for _, d := range woken {
		m := moved[d.ItemID]
		m.State, m.RunAt = "queued", 0
		if m.Returned != nil {
			m.Returned.State = "queued"
		}
	}
	return out, err
}

func (l *Leave) awaited() Signal { return Signal{l.Namespace, string(l.Signal), string(l.Key)} }

func (s Signal) compare(o Signal) int {
	if n := strings.Compare(s.Namespace, o.Namespace); n != 0 {
		return n
	}
	if n := strings.Compare(s.Name, o.Name); n != 0 {
		return n
	}
	return strings.Compare(s.Key, o.Key)
}

// signalledTask identifies a task and a signal for which the task has its event.
type signalledTask struct {
	taskID         string
	signal, itsKey Text
}

// wake queues those of the items that still wait; a due time or a cancel may have been
// first. Each item gets an event ready. Its task gets an event signalled, if told does not
// have it yet. The actor of the events is by, or if that is nil the item's last worker.
func wake(ctx context.Context, tx Tx, now int64, ids []string, told map[signalledTask]bool, by *Actor) ([]DueItem, error) {
	held, err := Take(ctx, tx, ids, []string{"waiting"})
	if err != nil {
		return nil, err
	}
	var events []Event
	out, took := make([]DueItem, len(held)), map[Signal]Text{}
	for i := range held {
		h := &held[i]
		s := Signal{h.Namespace, string(h.Signal), string(h.SignalKey)}
		if took[s] == "" {
			if took[s], err = s.taking(ctx, tx); err != nil {
				return nil, err
			}
		}
		h.queue(now)
		out[i] = DueItem{h.Namespace, h.ItemID, h.Type, h.Rank}
		if t := (signalledTask{h.TaskID, h.Signal, h.SignalKey}); !told[t] {
			told[t] = true
			text, err := s.data()
			if err != nil {
				return nil, err
			}
			events = append(events, Event{Namespace: h.Namespace, TaskID: h.TaskID, Event: "signalled", Data: text}.by(by, h))
		}
		events = append(events, Event{Namespace: h.Namespace, TaskID: h.TaskID, ItemID: Text(h.ItemID), Solo: h.Solo, Attempt: h.Attempt,
			Event: "ready", From: "waiting", To: "queued", Data: took[s]}.by(by, h))
	}
	if err := Put(ctx, tx, held); err != nil {
		return nil, err
	}
	return out, Record(ctx, tx, now, events)
}

func (e Event) by(actor *Actor, h *StateRow) Event {
	if actor == nil {
		e.worker = h.Worker
	} else {
		e.Actor = *actor
	}
	return e
}

// data returns the data of the event signalled.
func (s Signal) data() (Text, error) {
	d := struct {
		Signal string  `json:"signal"`
		Key    *string `json:"key"`
	}{Signal: s.Name}
	if s.Key != "" {
		d.Key = &s.Key
	}
	text, err := json.Marshal(d)
	return Text(text), err
}

// ReadSignal reads a signal. It returns false when the signal has not been sent.
func ReadSignal(ctx context.Context, tx Tx, s Signal) (pawl.SentSignal, bool, error) {
	var payload Text
	var at int64
	found, err := Row(ctx, tx, []any{&payload, &at}, signalSQL["read signal"], s.Namespace, s.Name, s.Key)
	return pawl.SentSignal{Name: s.Name, Key: s.Key, Payload: Raw(payload), SentAt: Stamp(at)}, found, err
}
