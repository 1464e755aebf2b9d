package effects

import (
	"context"
	"fmt"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/budgets"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// Opening is a call that opens an effect.
type Opening struct {
	*pawl.OpenEffectCall
	ID          string           // of the effect, if it is new
	Reservation string           // of what is reserved, if something is
	Spends      pawl.ReserveCall // Open says its key: that of what the sending reserves

	Refer func(ctx context.Context, tx store.Tx, taskID, text string) error // keeps the blobs of a text for a task
}

// Open gives the locked item's attempt the right to send an effect, or says why not. refused says that it
// was refused in a way that keeps what was written; nil = it was not.
func Open(ctx context.Context, tx store.Tx, g *store.LockedItem, call *Opening) (out pawl.OpenedEffect, refused, err error) {
	f, err := findOrInsert(ctx, tx, g, call)
	if err != nil {
		return out, nil, err
	}
	switch {
	case f.Gone == 1:
		return out, nil, &pawl.Error{Code: pawl.CodeConflict, Op: "open", TaskID: f.TaskID, EffectID: f.ID,
			Message: fmt.Sprintf("the key %q is that of an effect of task %s, which is not there any more", f.Key, f.TaskID)}
	case f.RequestHash != call.RequestHash:
		return out, nil, &pawl.Error{Code: pawl.CodeKeyReused, Op: "open", EffectID: f.ID,
			Message: fmt.Sprintf("the key %q is that of effect %s, whose request is another", f.Key, f.ID)}
	}
	if doubted(&f) {
		refused, err = doubt(ctx, tx, g, &f)
		return out, refused, err
	}
	send, err := maySend(&f, call)
	if err == nil && send && call.Approve && f.Approval == store.EffectNeedsNone { // it was opened without
		err, send = ask(ctx, tx, g, &f, call), false
	}
	known := f.Opened(g.WorkerID, "") && (g.By.Key == "" || f.Opened("", g.By.Key))
	if err == nil && f.Approval == store.EffectAsked && !known { // it may not approve it either
		f.AskedBy(store.EffectSender{ItemID: g.ItemID, WorkerID: g.WorkerID, Attempt: g.Attempt, Key: g.By.Key})
		err = f.Write(ctx, tx)
	}
	if err != nil || !send {
		return answer(&f, false), nil, err
	}
	if refused, err = reserve(ctx, tx, g, &f, call); err == nil && refused != nil && f.ID == call.ID {
		err = f.Forget(ctx, tx) // nothing of a new one is left
	}
	if err != nil || refused != nil {
		return out, refused, err
	}
	if err := begin(ctx, tx, g, &f, call); err != nil {
		return out, nil, err
	}
	return answer(&f, true), nil, nil
}

// Fresh returns the effect of a call whose key is new, and what the event says, if that is all the call can mean: it
// costs nothing and needs no approval. The database opens it only if the key is new; see store.EffectVerbs.
func Fresh(call *Opening, by store.Actor) (f store.EffectRow, data store.Text, usual bool) {
	if call.Budget != "" || call.Approve || by.Type != pawl.ActorWorker || by.ID != call.WorkerID {
		return f, "", false
	}
	f = store.EffectRow{ID: call.ID, Key: call.Key, Name: call.Name, ItemID: call.ItemID, RequestHash: call.RequestHash,
		State: pawl.EffectOpen, Sender: pawl.SentByAttempt, WorkerID: call.WorkerID, Attempt: call.Attempt,
		KeyID: store.Text(by.Key), Sendings: 1}
	if call.Repeatable {
		f.Repeatable = 1
	}
	if call.LeaseSeconds > 0 {
		f.Sender = pawl.SentByGate
	}
	f.OpenedBy(store.EffectSender{ItemID: call.ItemID, WorkerID: call.WorkerID, Attempt: call.Attempt, Key: by.Key})
	return f, store.Text(rules.Encode(f.Facts())), true
}

// Sending is the answer to the caller that sends an effect now.
func Sending(f *store.EffectRow) pawl.OpenedEffect { return answer(f, true) }

func answer(f *store.EffectRow, send bool) pawl.OpenedEffect {
	e := f.Effect()
	out := pawl.OpenedEffect{ID: f.ID, Key: f.Key, State: f.State, Send: send}
	if send {
		out.Sending = f.Sendings
	} else {
		out.Answer, out.AnswerHash, out.Error = e.Answer, e.AnswerHash, e.Error
	}
	return out
}

// findOrInsert locks the effect of a key, which it inserts if there is none. A new one has no state that
// counts yet: it is waiting, and was not sent.
func findOrInsert(ctx context.Context, tx store.Tx, g *store.LockedItem, call *Opening) (store.EffectRow, error) {
	for {
		f, found, err := store.LockEffectOfKey(ctx, tx, g.Namespace, g.ItemID, call.Key)
		if err != nil || found {
			return f, err
		}
		f = store.EffectRow{ID: call.ID, Namespace: g.Namespace, Key: call.Key, Name: call.Name, TaskID: g.TaskID, ItemID: g.ItemID,
			RequestHash: call.RequestHash, State: pawl.EffectWaiting, Sender: pawl.SentByAttempt, WorkerID: g.WorkerID, Attempt: g.Attempt,
			KeyID: store.Text(g.By.Key), Senders: "[]", CreatedAt: g.Now}
		if call.Approve {
			f.Approval = store.EffectAsked
		}
		if call.Repeatable {
			f.Repeatable = 1
		}
		made, err := store.InsertEffect(ctx, tx, &f)
		if err == nil && made && call.Approve {
			err = recordAsked(ctx, tx, g, &f)
		}
		if err != nil || made {
			return f, err
		}
	}
}

// ask makes an effect one that a person must approve before it is sent again.
func ask(ctx context.Context, tx store.Tx, g *store.LockedItem, f *store.EffectRow, call *Opening) error {
	if f.State == pawl.EffectUnknown {
		return &pawl.Error{Code: pawl.CodeEffectUnknown, Op: "open", State: string(f.State), Allowed: []string{"resolve"}, EffectID: f.ID,
			Message: fmt.Sprintf("it is not known whether effect %s happened, and it needs an approval to be repeated", f.ID)}
	}
	f.State, f.Approval, f.Error, f.EndedAt = pawl.EffectWaiting, store.EffectAsked, "", nil
	if err := call.take(ctx, tx, g, f); err != nil {
		return err
	}
	if err := f.Write(ctx, tx); err != nil {
		return err
	}
	return recordAsked(ctx, tx, g, f)
}

// take makes an effect one of the attempt. The claim that it was of is remembered, and what is kept of its reports.
func (call *Opening) take(ctx context.Context, tx store.Tx, g *store.LockedItem, f *store.EffectRow) (err error) {
	if f.TaskID != g.TaskID {
		err = call.Refer(ctx, tx, g.TaskID, string(f.LateReport))
	}
	was := store.EffectSender{ItemID: f.ItemID, WorkerID: f.WorkerID, Attempt: f.Attempt, Key: string(f.KeyID)}
	f.TaskID, f.ItemID, f.WorkerID, f.Attempt, f.KeyID = g.TaskID, g.ItemID, g.WorkerID, g.Attempt, store.Text(g.By.Key)
	now := store.EffectSender{ItemID: f.ItemID, WorkerID: f.WorkerID, Attempt: f.Attempt, Key: g.By.Key}
	if was.WorkerID != "" && was != now && !f.Sent(was) {
		f.AskedBy(was)
	}
	return err
}

func recordAsked(ctx context.Context, tx store.Tx, g *store.LockedItem, f *store.EffectRow) error {
	facts := f.Facts()
	facts.AnswerHash, facts.Reason = "", "approval"
	return f.Record(ctx, tx, g.Now, "effect_opened", g.By, facts)
}

// maySend says whether the state of an effect lets a caller send it. A fork or clone never repeats what
// is unknown: only a person lets it act.
func maySend(f *store.EffectRow, call *Opening) (bool, error) {
	switch f.State {
	case pawl.EffectWaiting:
		return f.Approval != store.EffectAsked, nil
	case pawl.EffectFailed:
		return f.Approval != store.EffectRejected, nil
	case pawl.EffectUnknown:
		if f.Outcome == "" && f.Copied == 0 && (f.Repeatable == 1 || call.Repeatable) {
			return true, nil
		}
		message := fmt.Sprintf("it is not known whether effect %s happened, and it may not be repeated", f.ID)
		if f.Outcome == pawl.GiveUp {
			message = fmt.Sprintf("it is not known whether effect %s happened, and it was given up", f.ID)
		}
		return false, &pawl.Error{Code: pawl.CodeEffectUnknown, Op: "open", State: string(f.State), Allowed: []string{"resolve"},
			EffectID: f.ID, Reason: string(f.Outcome), Message: message}
	}
	return false, nil // open elsewhere, or done
}

// doubted reports whether a sender has said that the effect happened, after it was decided that it had not.
func doubted(f *store.EffectRow) bool {
	if f.State != pawl.EffectFailed || f.Contradicts == 0 || f.Repeatable == 1 || f.Approval == store.EffectRejected {
		return false
	}
	late := f.Effect().LateReport
	return late != nil && late.State == pawl.EffectDone && f.EndedAt != nil && late.At.UnixMicro() > *f.EndedAt
}

// doubt makes an effect unknown about which there are two statements. A person decides before it is sent again.
func doubt(ctx context.Context, tx store.Tx, g *store.LockedItem, f *store.EffectRow) (refused, err error) {
	f.State, f.Outcome, f.EndedAt = pawl.EffectUnknown, "", &g.Now
	facts := f.Facts()
	facts.Reason = "contradiction"
	if err = f.Write(ctx, tx); err == nil {
		err = f.Record(ctx, tx, g.Now, "effect_unknown", g.By, facts)
	}
	if err != nil {
		return nil, err
	}
	return &pawl.Error{Code: pawl.CodeEffectUnknown, Op: "open", State: string(f.State), Allowed: []string{"resolve"}, EffectID: f.ID,
		Message: fmt.Sprintf("effect %s was decided not to have happened, and its sender says that it did", f.ID)}, nil
}

// Doubt makes the effect of a key unknown, if there are still two statements about it: a refused Open has found them, and
// what it wrote was rolled back.
func Doubt(ctx context.Context, tx store.Tx, g *store.LockedItem, key string) error {
	f, found, err := store.LockEffectOfKey(ctx, tx, g.Namespace, g.ItemID, key)
	if err != nil || !found || !doubted(&f) {
		return err
	}
	_, err = doubt(ctx, tx, g, &f)
	return err
}

// reserve reserves what the sending may cost. Each sending has a reservation of its own.
func reserve(ctx context.Context, tx store.Tx, g *store.LockedItem, f *store.EffectRow, call *Opening) (refused, err error) {
	f.Budget, f.Amount, f.Reservation = store.Text(call.Budget), nil, ""
	if call.Budget == "" {
		return nil, nil
	}
	amount := call.Amount
	call.Spends.Key = f.SpendKey()
	out, refused, err := budgets.Reserve(ctx, tx, g, call.Reservation, call.Budget, &call.Spends)
	f.Amount, f.Reservation = &amount, store.Text(out.Reservation)
	return refused, err
}

// begin makes the effect one that the attempt, or a gate for it, sends now.
func begin(ctx context.Context, tx store.Tx, g *store.LockedItem, f *store.EffectRow, call *Opening) error {
	before := *f
	f.State, f.Outcome, f.Error, f.EndedAt = pawl.EffectOpen, "", "", nil
	f.Name, f.OpenedAt, f.SentUntil, f.Sender = call.Name, &g.Now, nil, pawl.SentByAttempt
	if err := call.take(ctx, tx, g, f); err != nil {
		return err
	}
	if call.Repeatable {
		f.Repeatable = 1
	}
	if call.LeaseSeconds > 0 {
		f.Sender, f.SentUntil = pawl.SentByGate, store.GateUntil(g.Now, call.LeaseSeconds)
	}
	f.Sendings++
	f.OpenedBy(store.EffectSender{ItemID: g.ItemID, WorkerID: g.WorkerID, Attempt: g.Attempt, Key: g.By.Key})
	if err := f.Write(ctx, tx); err != nil {
		return err
	}
	facts := f.Facts()
	facts.AnswerHash, facts.DecidedBy = "", string(before.DecidedBy)
	return f.Record(ctx, tx, g.Now, "effect_opened", g.By, facts)
}

// settleSpent records what sendings have spent.
func settleSpent(ctx context.Context, tx store.Tx, list []store.Spent) error {
	for _, s := range list {
		if err := budgets.SettleSpent(ctx, tx, s); err != nil {
			return err
		}
	}
	return nil
}
