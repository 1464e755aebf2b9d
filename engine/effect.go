package engine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/budgets"
	"github.com/pawl-work/pawl/engine/internal/commit"
	ledger "github.com/pawl-work/pawl/engine/internal/effects"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// The pauses between the looks of a call that waits for an effect.
const (
	effectPause    = 50 * time.Millisecond
	maxEffectPause = time.Second
)

// OpenEffect gives an attempt, or a gate in place of it, the right to send an effect; see pawl.EffectSender.
func (e *Engine) OpenEffect(ctx context.Context, call pawl.OpenEffectCall) (pawl.OpenedEffect, error) {
	call = idform.Call(call)
	if err := e.acts(ctx, "open"); err != nil {
		return pawl.OpenedEffect{}, err
	}
	if err := ledger.CheckOpen(&call); err != nil {
		return pawl.OpenedEffect{}, err
	}
	if e.scope != nil && e.scope.Own {
		return pawl.OpenedEffect{}, &pawl.Error{Code: pawl.CodeInvalid, Op: "open",
			Message: "an effect is not opened inside a transaction: the right to send must be committed before it is sent"}
	}
	if err := e.ours(ctx, call.Fence()); err != nil {
		return pawl.OpenedEffect{}, err
	}
	wait := time.Duration(call.WaitSeconds) * time.Second
	if e.scope != nil { // inside a transaction there are no waits
		wait = 0
	}
	if out, done, err := e.openFresh(ctx, &call); done || err != nil {
		return out, err
	}
	until := e.k.IDs.Now().Add(wait)
	for pause := effectPause; ; pause = min(2*pause, maxEffectPause) {
		out, err := e.openEffect(ctx, &call)
		left := until.Sub(e.k.IDs.Now())
		if err != nil || out.Send || out.State != pawl.EffectOpen && out.State != pawl.EffectWaiting || left <= 0 {
			return out, err
		}
		timer := time.NewTimer(min(pause, left))
		select {
		case <-ctx.Done():
			timer.Stop()
			return out, ctx.Err()
		case <-timer.C:
		}
	}
}

// openFresh opens an effect whose key is new, in one statement. done is false when the call may mean something else.
func (e *Engine) openFresh(ctx context.Context, call *pawl.OpenEffectCall) (out pawl.OpenedEffect, done bool, err error) {
	c := pawl.CallerOf(ctx)
	f, data, usual := ledger.Fresh(&ledger.Opening{OpenEffectCall: call, ID: e.k.IDs.Next("eff")}, actor(c, pawl.ActorWorker, call.WorkerID))
	if !usual {
		return out, false, nil
	}
	_, done, err = quickly(ctx, e, e.committers.openEffect, store.OpenEffect{Fence: fenceRow(c, call.Fence()), Effect: f,
		GateSeconds: call.LeaseSeconds, Data: data})
	return ledger.Sending(&f), done, err
}

// quickly runs one call of a hot verb of effects, together with others. done is false when it was not carried out, also
// because another transaction holds a row: then nothing was changed.
func quickly[Row, Ans any](ctx context.Context, e *Engine, c *commit.Committer[Row, Ans], row Row) (out Ans, done bool, err error) {
	if e.scope != nil {
		return out, false, nil
	}
	answers, err := c.Do(ctx, e.db, []Row{row})
	if errors.Is(err, store.ErrLocked) {
		return out, false, nil
	}
	if err != nil || len(answers) == 0 {
		return out, false, err
	}
	return answers[0], true, nil
}

func (e *Engine) openEffect(ctx context.Context, call *pawl.OpenEffectCall) (out pawl.OpenedEffect, err error) {
	opening := ledger.Opening{OpenEffectCall: call, ID: e.k.IDs.Next("eff"), Reservation: e.k.IDs.Next("rsv"), Refer: e.keepBlobs}
	reserve := &opening.Spends
	*reserve = pawl.ReserveCall{ItemID: call.ItemID, WorkerID: call.WorkerID, Attempt: call.Attempt, Amount: call.Amount}
	var refused error
	err = budgets.Reserving(ctx, e.budgeted, "open", reserve, func(ctx context.Context, tx store.Tx, g *store.LockedItem) (_, err error) {
		out, refused, err = ledger.Open(ctx, tx, g, &opening)
		return refused, err
	})
	if err == refused && e.scope != nil && errors.Is(refused, pawl.ErrEffectUnknown) {
		e.ifUndone(func(ctx context.Context, e *Engine) error {
			return e.k.Held(ctx, call.Fence(), "open", func(ctx context.Context, tx store.Tx, g *store.LockedItem) error {
				return ledger.Doubt(ctx, tx, g, call.Key)
			})
		})
	}
	if err != nil {
		return pawl.OpenedEffect{}, err
	}
	return out, nil
}

// keepBlobs keeps the blobs of a text for a task that it moves to. Those that are lost keep nothing from moving.
func (e *Engine) keepBlobs(ctx context.Context, tx store.Tx, taskID, text string) error {
	err := e.referNow(ctx, tx, "open", taskID, blobsInText(text))
	if pawl.CodeOf(err) == pawl.CodeInvalid {
		err = nil
	}
	return err
}

// EffectDone reports that an effect happened; see pawl.EffectSender.
func (e *Engine) EffectDone(ctx context.Context, id string, call pawl.EffectDoneCall) (pawl.EffectRecord, error) {
	call = idform.Call(call)
	if err := e.acts(ctx, "report"); err != nil {
		return pawl.EffectRecord{}, err
	}
	r := ledger.Report{State: pawl.EffectDone, Fence: pawl.Fence{ItemID: call.ItemID, WorkerID: call.WorkerID, Attempt: call.Attempt},
		Sending: call.Sending, Answer: call.Answer, Amount: call.Amount}
	return e.reportEffect(ctx, id, &r)
}

// EffectFailed reports that an effect did not happen; see pawl.EffectSender.
func (e *Engine) EffectFailed(ctx context.Context, id string, call pawl.EffectFailedCall) (pawl.EffectRecord, error) {
	call = idform.Call(call)
	if err := e.acts(ctx, "report"); err != nil {
		return pawl.EffectRecord{}, err
	}
	r := ledger.Report{State: pawl.EffectFailed, Fence: pawl.Fence{ItemID: call.ItemID, WorkerID: call.WorkerID, Attempt: call.Attempt},
		Sending: call.Sending, Error: &call.Error}
	return e.reportEffect(ctx, id, &r)
}

// EffectUnknown reports that it is not known whether an effect happened; see pawl.EffectSender.
func (e *Engine) EffectUnknown(ctx context.Context, id string, call pawl.EffectUnknownCall) (pawl.EffectRecord, error) {
	call = idform.Call(call)
	if err := e.acts(ctx, "report"); err != nil {
		return pawl.EffectRecord{}, err
	}
	r := ledger.Report{State: pawl.EffectUnknown, Fence: pawl.Fence{ItemID: call.ItemID, WorkerID: call.WorkerID, Attempt: call.Attempt},
		Sending: call.Sending, Error: call.Error}
	return e.reportEffect(ctx, id, &r)
}

func (e *Engine) reportEffect(ctx context.Context, id string, r *ledger.Report) (pawl.EffectRecord, error) {
	op := string(r.State)
	if err := ledger.CheckReport(op, r.Fence, r.Sending, r.Answer, r.Amount, r.Error); err != nil {
		return pawl.EffectRecord{}, err
	}
	blobs := blobsIn(r.Answer)
	if err := e.referItem(ctx, op, r.Fence.ItemID, blobs); err != nil && pawl.CodeOf(err) != pawl.CodeNotFound {
		return pawl.EffectRecord{}, err
	}
	c := pawl.CallerOf(ctx)
	by := actor(c, pawl.ActorWorker, r.Fence.WorkerID)
	if usual, is := ledger.Usual(id, r, by); is {
		out, done, err := quickly(ctx, e, e.committers.reportEffect, store.ReportEffect{Fence: fenceRow(c, r.Fence), Effect: usual})
		if done && err == nil {
			e.follow(ctx, effects{})
		}
		if done || err != nil {
			return out.Effect.Effect(), err
		}
	}
	for try := 1; ; try++ {
		out, busy, err := e.takeReport(ctx, id, r, blobs)
		if !busy || try == reportTries || e.scope != nil { // a caller's transaction keeps its locks
			return out, err
		}
	}
}

// reportTries bounds how often a report is tried whose effect changes meanwhile.
const reportTries = 10

// takeReport takes a report in a transaction. busy says that those who wait for the effect must be told, whose signal is not
// locked: the effect was open until now, or has been sent again.
func (e *Engine) takeReport(ctx context.Context, id string, r *ledger.Report,
	blobs [][]byte) (out pawl.EffectRecord, busy bool, err error) {
	op, c := string(r.State), pawl.CallerOf(ctx)
	by := actor(c, pawl.ActorWorker, r.Fence.WorkerID)
	out, err = change(ctx, e, func(ctx context.Context, tx store.Tx) (pawl.EffectRecord, effects, error) {
		f, err := store.GetEffect(ctx, tx, c.Namespace, id)
		if err == nil && f.State != pawl.EffectOpen { // nothing else keeps the task beside retention
			err = store.LockTaskRow(ctx, tx, c.Namespace, f.TaskID)
		}
		var queued []store.DueItem
		told := r.Tells(&f, by) || probes(&f, r)
		if err == nil && told { // those who wait; their signal is locked first
			queued, err = e.k.Signals.Tell(ctx, tx, c.Namespace, pawl.EffectSignal, id, by)
		}
		if err == nil {
			f, err = store.LockEffect(ctx, tx, c.Namespace, id)
		}
		if err == nil {
			err = e.mayProbe(ctx, tx, &f, r)
		}
		if busy = err == nil && !told && r.Tells(&f, by); busy {
			err = errEffectBusy
		}
		if err == nil { // the effect may be another task's than the report
			err = e.referNow(ctx, tx, op, f.TaskID, blobs)
		}
		if err == nil {
			err = ledger.Take(ctx, tx, &f, r, by)
		}
		return f.Effect(), effects{queued: queued}, err
	})
	return out, busy, err
}

var errEffectBusy = &pawl.Error{Code: pawl.CodeUnavailable, Op: "report", Message: "another call is changing the effect; try again"}

// probes says that the holder of the lease of an effect's item may report what a probe has found out. In a fork only a
// person decides.
func probes(f *store.EffectRow, r *ledger.Report) bool {
	return f.State == pawl.EffectUnknown && f.Copied == 0 && f.ItemID == r.Fence.ItemID && r.State != pawl.EffectUnknown
}

// mayProbe lets the holder of the lease report what a probe has found out, as if it had opened the effect.
func (e *Engine) mayProbe(ctx context.Context, tx store.Tx, f *store.EffectRow, r *ledger.Report) error {
	r.Holds = false // an earlier try may have held it
	if !probes(f, r) {
		return nil
	}
	_, held, err := store.LockFenced(ctx, tx, fenceRow(pawl.CallerOf(ctx), r.Fence))
	if err == nil && held {
		r.Holds = true
	}
	return err
}

// KeepEffect extends the lease of a gate that sends an effect; see pawl.EffectSender.
func (e *Engine) KeepEffect(ctx context.Context, id string, call pawl.KeepEffectCall) (pawl.EffectRecord, error) {
	call = idform.Call(call)
	if err := e.acts(ctx, "keep"); err != nil {
		return pawl.EffectRecord{}, err
	}
	if err := ledger.CheckKeep(&call); err != nil {
		return pawl.EffectRecord{}, err
	}
	c := pawl.CallerOf(ctx)
	by := actor(c, pawl.ActorWorker, call.WorkerID)
	return change(ctx, e, func(ctx context.Context, tx store.Tx) (f pawl.EffectRecord, _ effects, err error) {
		now, err := tx.Now(ctx)
		if err != nil {
			return f, effects{}, err
		}
		kept, err := keepSending(ctx, tx, c.Namespace, id, &call, by.Key, *store.GateUntil(now, call.LeaseSeconds))
		row, missing := store.GetEffect(ctx, tx, c.Namespace, id)
		if err = cmp.Or(err, missing); err == nil && !kept {
			err = &pawl.Error{Code: pawl.CodeLeaseLost, Op: "keep", Reason: pawl.ReasonExpired, EffectID: id, State: string(row.State),
				Message: "effect " + id + " is not open for this gate any more: it is " + string(row.State)}
		}
		return row.Effect(), effects{}, err
	})
}

// ApproveEffect lets an effect be sent; see pawl.EffectDecider.
func (e *Engine) ApproveEffect(ctx context.Context, id string, call pawl.EffectDecision) (pawl.EffectRecord, error) {
	if err := e.acts(ctx, "approve"); err != nil {
		return pawl.EffectRecord{}, err
	}
	return e.judgeEffect(ctx, "approve", id, &call)
}

// RejectEffect makes an effect failed that waits to be sent; see pawl.EffectDecider.
func (e *Engine) RejectEffect(ctx context.Context, id string, call pawl.EffectDecision) (pawl.EffectRecord, error) {
	return e.judgeEffect(ctx, "reject", id, &call)
}

func (e *Engine) judgeEffect(ctx context.Context, op, id string, call *pawl.EffectDecision) (pawl.EffectRecord, error) {
	if err := ledger.CheckDecision(op, call); err != nil {
		return pawl.EffectRecord{}, err
	}
	return e.decideEffect(ctx, id, false, func(ctx context.Context, tx store.Tx, f *store.EffectRow, by store.Actor) error {
		return ledger.Judge(ctx, tx, f, op == "approve", call.Comment, by)
	})
}

// ResolveEffect decides an unknown effect; see pawl.EffectDecider. An item that waits for an effect which is
// given up fails. Its task is locked before the signal.
func (e *Engine) ResolveEffect(ctx context.Context, id string, call pawl.ResolveEffectCall) (pawl.EffectRecord, error) {
	if err := ledger.CheckResolve(&call); err != nil {
		return pawl.EffectRecord{}, err
	}
	if addresses := blobsIn(call.Answer); len(addresses) > 0 {
		f, err := e.GetEffect(ctx, id)
		if err == nil {
			err = e.referItem(ctx, "resolve", f.ItemID, addresses)
		}
		if err != nil && pawl.CodeOf(err) != pawl.CodeNotFound { // the decision says what is not there
			return pawl.EffectRecord{}, err
		}
	}
	return e.decideEffect(ctx, id, call.Outcome == pawl.GiveUp,
		func(ctx context.Context, tx store.Tx, f *store.EffectRow, by store.Actor) error {
			return ledger.Resolve(ctx, tx, f, &call, by)
		})
}

// failWaiting fails an item that waits for an effect which was given up.
func (e *Engine) failWaiting(ctx context.Context, tx store.Tx, f *store.EffectRow, by store.Actor) (effects, error) {
	now, err := store.NowAgain(ctx, tx)
	if err != nil {
		return effects{}, err
	}
	failure := pawl.Failure{Code: pawl.FailedByEffect, Message: "it is not known whether effect " + f.ID + " happened, and it was given up"}
	done, err := store.Apply(ctx, tx, now, store.Change{Namespace: f.Namespace, TaskID: f.TaskID, Verb: "give_up", ItemIDs: []string{f.ItemID},
		To: "failed", Error: store.Text(rules.Encode(failure)), Actor: by, Reason: store.Text(failure.Message)})
	then := effects{queued: done.Released, followUp: true, passOn: done.PassesOn}
	if done.Child {
		then.children = []string{f.TaskID}
	}
	if done.Items > 0 {
		then.ended, then.failing = []string{f.ItemID}, []string{f.TaskID}
	}
	return then, err
}

// decideEffect runs a decision about a locked effect and tells the items that wait for it. Their signal
// is locked before the effect, as by all who wait for it. ends says that an item which waits fails.
func (e *Engine) decideEffect(ctx context.Context, id string, ends bool,
	fn func(ctx context.Context, tx store.Tx, f *store.EffectRow, by store.Actor) error) (pawl.EffectRecord, error) {
	c := pawl.CallerOf(ctx)
	by := actor(c, pawl.ActorUser, "")
	return change(ctx, e, func(ctx context.Context, tx store.Tx) (pawl.EffectRecord, effects, error) {
		f, err := store.GetEffect(ctx, tx, c.Namespace, id)
		if err == nil && ends {
			err = store.LockTaskRow(ctx, tx, c.Namespace, f.TaskID)
		}
		if err != nil {
			return pawl.EffectRecord{}, effects{}, err
		}
		waits, err := waitsForEffect(ctx, tx, f.ItemID, id)
		if err != nil {
			return pawl.EffectRecord{}, effects{}, err
		}
		queued, err := e.k.Signals.Tell(ctx, tx, c.Namespace, pawl.EffectSignal, id, by)
		if err == nil {
			f, err = store.LockEffect(ctx, tx, c.Namespace, id)
		}
		if err == nil {
			err = fn(ctx, tx, &f, by)
		}
		then := effects{queued: queued}
		if err == nil && ends && waits {
			var more effects
			more, err = e.failWaiting(ctx, tx, &f, by)
			then = then.and(more)
		}
		return f.Effect(), then, err
	})
}

// GetEffect reads an effect; see pawl.EffectReader.
func (e *Engine) GetEffect(ctx context.Context, id string) (pawl.EffectRecord, error) {
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.EffectRecord, error) {
		f, err := store.GetEffect(ctx, tx, ns, id)
		return f.Effect(), err
	})
}

// ListEffects lists effects; see pawl.EffectReader.
func (e *Engine) ListEffects(ctx context.Context, f pawl.EffectFilter) (pawl.List[pawl.EffectRecord], error) {
	f = idform.Call(f)
	if err := ledger.CheckFilter(&f); err != nil {
		return pawl.List[pawl.EffectRecord]{}, err
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.List[pawl.EffectRecord], error) {
		return store.ListEffects(ctx, tx, ns, f)
	})
}

// effectOpen refuses a result of an attempt that has an open effect.
func (e *Engine) effectOpen(ctx context.Context, op string, f pawl.Fence) error {
	id, err := view(ctx, e, func(ctx context.Context, tx store.Tx, _ string) (string, error) {
		return openEffectOf(ctx, tx, f.ItemID, f.Attempt)
	})
	if err == nil && id != "" {
		err = store.EffectOpen(op, id)
	}
	return err
}

// openEffectOf returns an open effect of an attempt; "" = it has none.
func openEffectOf(ctx context.Context, tx store.Tx, itemID string, attempt int) (id string, err error) {
	_, err = store.Row(ctx, tx, []any{&id}, effectSQL["open of attempt"], store.ItemID(itemID), attempt)
	return id, err
}

// keepSending extends the lease of a gate. It returns false if the effect is not open for it any more.
func keepSending(ctx context.Context, tx store.Tx, namespace, id string, c *pawl.KeepEffectCall, apiKey string, until int64) (bool, error) {
	n, err := tx.Exec(ctx, effectSQL["keep sending"], id, namespace, until, store.ItemID(c.ItemID), c.WorkerID, c.Attempt, apiKey)
	return n == 1, err
}

// waitsForEffect reports whether an item is suspended until an effect is decided.
func waitsForEffect(ctx context.Context, tx store.Tx, itemID, effectID string) (bool, error) {
	var key store.Text
	found, err := store.Row(ctx, tx, []any{&key}, effectSQL["waits for effect"], store.ItemID(itemID), pawl.EffectSignal)
	return found && string(key) == effectID, err
}

// namespaceOfItem returns the namespace of an item, or "" when there is no such item.
func namespaceOfItem(ctx context.Context, tx store.Tx, itemID string) (ns string, err error) {
	_, err = store.Row(ctx, tx, []any{&ns}, effectSQL["namespace of item"], store.ItemID(itemID))
	return ns, err
}
