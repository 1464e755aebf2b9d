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
func (Verbs) OpenEffect(ctx context.Context, tx store.Tx, calls []store.OpenEffect) (opened []int, err error) {
	for i := range calls {
		done, err := open(ctx, tx, &calls[i])
		if err != nil {
			return nil, err
		}
		if done {
			opened = append(opened, calls[i].Ord)
		}
	}
	return opened, nil
}

func open(ctx context.Context, tx store.Tx, c *store.OpenEffect) (done bool, err error) {
	worker, found, err := store.FindActor(ctx, tx, store.Worker(c.WorkerID))
	if err != nil || !found {
		return false, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return false, err
	}
	var task store.TaskID
	var solo int
	e, item := &c.Effect, store.ItemID(c.ItemID)
	if found, err = store.Row(ctx, tx, []any{&task, &solo}, effectLease, item, c.Namespace, worker, c.Attempt, now); err != nil || !found {
		return false, err
	}
	var until *int64
	if c.GateSeconds > 0 {
		until = store.GateUntil(now, c.GateSeconds)
	}
	n, err := tx.Exec(ctx, effectOpen, e.ID, c.Namespace, e.Key, e.Name, task, item, e.RequestHash, e.Repeatable, e.Sender, c.WorkerID,
		c.Attempt, e.KeyID, until, e.Senders, now)
	if err == nil && n == 1 && c.GateSeconds == 0 {
		_, err = tx.Exec(ctx, effectCount, item, 1)
	}
	if err != nil || n == 0 {
		return false, err
	}
	event := event{namespace: c.Namespace, taskID: task, itemID: item, solo: solo, attempt: int64(c.Attempt), name: "effect_opened",
		by: by{worker, e.KeyID}, data: c.Data}
	return true, event.write(ctx, tx, now)
}

// ReportEffect implements store.Hot.
func (Verbs) ReportEffect(ctx context.Context, tx store.Tx, calls []store.ReportEffect) (reported []store.ReportEffect, err error) {
	for _, c := range calls {
		done, err := report(ctx, tx, &c)
		if err != nil {
			return nil, err
		}
		if done {
			reported = append(reported, c)
		}
	}
	return reported, nil
}

func report(ctx context.Context, tx store.Tx, c *store.ReportEffect) (done bool, err error) {
	worker, found, err := store.FindActor(ctx, tx, store.Worker(c.WorkerID))
	if err != nil || !found {
		return false, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return false, err
	}
	var solo int
	e, item := &c.Effect, store.ItemID(c.ItemID)
	found, err = store.Row(ctx, tx, append([]any{&solo}, e.Unreported()...), effectLook, e.ID, c.Namespace, item, c.WorkerID, c.Attempt,
		e.KeyID, worker, e.Sendings)
	if err != nil || !found {
		return false, err
	}
	e.Namespace, e.ItemID, e.WorkerID, e.Attempt, e.EndedAt = c.Namespace, c.ItemID, c.WorkerID, c.Attempt, &now
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
	event := event{namespace: c.Namespace, taskID: store.TaskID(e.TaskID), itemID: item, solo: solo, attempt: int64(c.Attempt),
		name: "effect_" + string(e.State), by: by{worker, e.KeyID}, data: store.Text(data)}
	return true, event.write(ctx, tx, now)
}
