package effects

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// Report is what a sender says about an effect.
type Report struct {
	State   pawl.EffectState // done, failed or unknown
	Fence   pawl.Fence
	Sending int             // its number; 0 = the newest of the attempt
	Answer  json.RawMessage // of done; nil = null
	Amount  *int64          // of done: what it cost; nil = what was reserved
	Error   *pawl.Failure   // of failed and unknown
	Holds   bool            // the caller holds the lease of the effect's item: it may have probed

	contradicts bool // it says that a sending happened after which the effect was sent again
}

var events = map[pawl.EffectState]string{
	pawl.EffectDone: "effect_done", pawl.EffectFailed: "effect_failed", pawl.EffectUnknown: "effect_unknown",
}

// Take takes a report about a locked effect. It is compared with the claims that opened the effect, not
// with the current lease: what a sender knows is never refused. It decides an effect that is open or
// unknown; beside a decision it is kept.
func Take(ctx context.Context, tx store.Tx, f *store.EffectRow, r *Report, by store.Actor) error {
	sender := r.sender(by)
	r.contradicts = false // an earlier try may have found it
	if !f.Sent(sender) && !r.Holds {
		return &pawl.Error{Code: pawl.CodeLeaseLost, Op: string(r.State), Reason: pawl.ReasonTaken, State: string(f.State), Holder: f.WorkerID,
			Attempt: f.Attempt, EffectID: f.ID, Message: fmt.Sprintf("effect %s was not opened by this claim", f.ID)}
	}
	now, err := store.NowAgain(ctx, tx)
	if err != nil {
		return err
	}
	present := r.present(f, sender)
	if !present && r.State == pawl.EffectFailed {
		if err := settleSpent(ctx, tx, f.SpentEarlier(f.SendingOf(sender, r.Sending))); err != nil {
			return err
		}
	}
	switch {
	case r.Decides(f, by):
		if !present && f.Repeatable == 0 { // it was sent again because it had not happened
			f.Contradicts, r.contradicts = 1, true
		}
		return decide(ctx, tx, f, r, by, now)
	case f.State == pawl.EffectWaiting || r.State == pawl.EffectUnknown || same(f, r, sender):
		return nil
	}
	return keep(ctx, tx, f, r, by, now)
}

func (r *Report) sender(by store.Actor) store.EffectSender {
	return store.EffectSender{ItemID: r.Fence.ItemID, WorkerID: r.Fence.WorkerID, Attempt: r.Fence.Attempt, Key: by.Key}
}

// present reports whether a report is about the newest sending of an effect.
func (r *Report) present(f *store.EffectRow, s store.EffectSender) bool {
	earlier := r.Sending > 0 && r.Sending < f.Sendings
	return r.Holds || !earlier && f.ItemID == s.ItemID && f.WorkerID == s.WorkerID && f.Attempt == s.Attempt
}

// Decides reports whether a report decides an effect. What an earlier sender says of failed or unknown is about its own
// sending, and not about the present one.
func (r *Report) Decides(f *store.EffectRow, by store.Actor) bool {
	switch {
	case f.State != pawl.EffectOpen && (f.State != pawl.EffectUnknown || f.Outcome != ""):
		return false
	case r.State != pawl.EffectDone && !r.present(f, r.sender(by)):
		return false
	}
	return f.State == pawl.EffectOpen || r.State != pawl.EffectUnknown
}

// Tells reports whether a report decides an effect for which items may wait: it is unknown, or was unknown and is sent again.
func (r *Report) Tells(f *store.EffectRow, by store.Actor) bool {
	again := f.State == pawl.EffectOpen && f.Repeatable == 1 && f.Sendings > 1 && r.State != pawl.EffectUnknown
	return (again || f.State == pawl.EffectUnknown) && r.Decides(f, by)
}

// Usual returns the effect as a report of its sender leaves it, if the sender is the worker. The database changes it only
// if it is open and of this attempt, and has reserved nothing; see store.EffectVerbs.
func Usual(id string, r *Report, by store.Actor) (f store.EffectRow, usual bool) {
	if by.Type != pawl.ActorWorker || by.ID != r.Fence.WorkerID {
		return f, false
	}
	f = store.EffectRow{ID: id, State: r.State, KeyID: store.Text(by.Key), Sendings: r.Sending}
	if r.Error != nil {
		f.Error = store.Text(rules.Encode(r.Error))
	}
	if r.State == pawl.EffectDone {
		f.Done(rules.OrNull(r.Answer))
	}
	return f, true
}

// decide sets the state that a report says.
func decide(ctx context.Context, tx store.Tx, f *store.EffectRow, r *Report, by store.Actor, now int64) error {
	was := f.State
	f.State, f.EndedAt = r.State, &now
	if r.Error != nil {
		f.Error = store.Text(rules.Encode(r.Error))
	}
	facts := f.Facts()
	if r.State == pawl.EffectUnknown {
		facts.Reason = "sender"
	}
	if r.State == pawl.EffectDone {
		f.Done(rules.OrNull(r.Answer))
	}
	if err := f.Write(ctx, tx); err != nil {
		return err
	}
	if err := settle(ctx, tx, f, r); err != nil {
		return err
	}
	facts.AnswerHash, facts.Late, facts.Contradicts = string(f.AnswerHash), was == pawl.EffectUnknown, r.contradicts
	return f.Record(ctx, tx, now, events[r.State], by, facts)
}

// settle charges what the effect cost: what a report of done says, or nothing if it did not happen.
// What is unknown is treated as the budget says of lost reservations.
func settle(ctx context.Context, tx store.Tx, f *store.EffectRow, r *Report) error {
	switch {
	case r.State == pawl.EffectFailed:
		return settleSpent(ctx, tx, f.Spent(0))
	case r.State == pawl.EffectDone && r.Amount != nil:
		return settleSpent(ctx, tx, f.Spent(*r.Amount))
	case r.State == pawl.EffectDone && f.Amount != nil:
		return settleSpent(ctx, tx, f.Spent(*f.Amount))
	}
	return nil
}

// same reports whether a report says again what its sender has said before.
func same(f *store.EffectRow, r *Report, s store.EffectSender) bool {
	if f.State != r.State || f.Outcome != "" || f.WorkerID != s.WorkerID || f.Attempt != s.Attempt || f.ItemID != s.ItemID {
		return false
	}
	if r.State == pawl.EffectDone {
		return string(f.AnswerHash) == store.AnswerDigest([]byte(rules.OrNull(r.Answer)))
	}
	return r.Error == nil || string(f.Error) == string(rules.Encode(r.Error))
}

// keep keeps a report beside a decision.
func keep(ctx context.Context, tx store.Tx, f *store.EffectRow, r *Report, by store.Actor, now int64) error {
	late := pawl.EffectReport{State: r.State, WorkerID: r.Fence.WorkerID, Attempt: r.Fence.Attempt, At: store.Stamp(now), Error: r.Error}
	if r.State == pawl.EffectDone {
		answer := rules.OrNull(r.Answer)
		late.Answer, late.AnswerHash = json.RawMessage(answer), store.AnswerDigest([]byte(answer))
	}
	text := store.Text(rules.Encode(late))
	if before := f.Effect().LateReport; before != nil {
		if before.At = late.At; string(rules.Encode(before)) == string(text) {
			return nil // it says it again
		}
	}
	f.Late, f.LateReport = 1, text
	contradicts := f.State != r.State && (f.State == pawl.EffectDone || f.State == pawl.EffectFailed)
	if contradicts {
		f.Contradicts = 1
	}
	if err := f.Write(ctx, tx); err != nil {
		return err
	}
	facts := f.Facts()
	facts.AnswerHash, facts.Late, facts.Contradicts, facts.Beside = late.AnswerHash, true, contradicts, true
	return f.Record(ctx, tx, now, events[r.State], by, facts)
}
