package hot

import (
	"context"
	"encoding/json"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

var (
	effectTexts  = read("effect.sql")
	effectLease  = effectTexts.get("Lease")
	effectOpen   = effectTexts.get("Open")
	effectCount  = effectTexts.get("Count")
	effectLook   = effectTexts.get("Look")
	effectReport = effectTexts.get("Report")
)

// OpenEffect implements store.Hot.
func (Verbs) OpenEffect(ctx context.Context, tx store.Tx, f store.Fence, e *store.EffectRow, gateSeconds int, data store.Text) (done bool,
	err error) {
	worker, found, err := store.FindActor(ctx, tx, store.Worker(f.WorkerID))
	if err != nil || !found {
		return false, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return false, err
	}
	var task store.TaskID
	var solo int
	item := store.ItemID(f.ItemID)
	if found, err = store.Row(ctx, tx, []any{&task, &solo}, effectLease, item, f.Namespace, worker, f.Attempt, now); err != nil || !found {
		return false, err
	}
	var until *int64
	if gateSeconds > 0 {
		until = store.GateUntil(now, gateSeconds)
	}
	n, err := tx.Exec(ctx, effectOpen, e.ID, f.Namespace, e.Key, e.Name, task, item, e.RequestHash, e.Repeatable, e.Sender, f.WorkerID,
		f.Attempt, e.KeyID, until, e.Senders, now)
	if err == nil && n == 1 && gateSeconds == 0 {
		_, err = tx.Exec(ctx, effectCount, item, 1)
	}
	if err != nil || n == 0 {
		return false, err
	}
	event := event{namespace: f.Namespace, taskID: task, itemID: item, solo: solo, attempt: int64(f.Attempt), name: "effect_opened",
		by: by{worker, e.KeyID}, data: data}
	return true, event.write(ctx, tx, now)
}

// ReportEffect implements store.Hot.
func (Verbs) ReportEffect(ctx context.Context, tx store.Tx, f store.Fence, e *store.EffectRow) (done bool, err error) {
	worker, found, err := store.FindActor(ctx, tx, store.Worker(f.WorkerID))
	if err != nil || !found {
		return false, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return false, err
	}
	var solo int
	item := store.ItemID(f.ItemID)
	found, err = store.Row(ctx, tx, append([]any{&solo}, e.Unreported()...), effectLook, e.ID, f.Namespace, item, f.WorkerID, f.Attempt,
		e.KeyID, worker, e.Sendings)
	if err != nil || !found {
		return false, err
	}
	e.Namespace, e.ItemID, e.WorkerID, e.Attempt, e.EndedAt = f.Namespace, f.ItemID, f.WorkerID, f.Attempt, &now
	if _, err = tx.Exec(ctx, effectReport, e.ID, string(e.State), e.Answer, e.AnswerHash, e.Error, now); err != nil {
		return false, err
	}
	if e.Sender == pawl.SentByAttempt {
		if _, err = tx.Exec(ctx, effectCount, item, -1); err != nil {
			return false, err
		}
	}
	facts := e.Facts()
	if e.State == pawl.EffectUnknown {
		facts.Reason = "sender"
	}
	data, err := json.Marshal(facts)
	if err != nil {
		return false, err
	}
	event := event{namespace: f.Namespace, taskID: store.TaskID(e.TaskID), itemID: item, solo: solo, attempt: int64(f.Attempt),
		name: "effect_" + string(e.State), by: by{worker, e.KeyID}, data: store.Text(data)}
	return true, event.write(ctx, tx, now)
}
