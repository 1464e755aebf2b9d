package store

import (
	"context"
	"encoding/json"
	"time"
)

// EndedKey is the reason with which a lease ends with its API key.
const EndedKey = Text("its API key was revoked or has expired")

// RevokeLeases ends leases that this transaction has locked. Their items are queued again,
// each with an event; this is not counted as a failure.
func RevokeLeases(ctx context.Context, tx Tx, itemIDs []string, by Actor, reason Text) ([]StateRow, []DueItem, error) {
	held, err := Take(ctx, tx, itemIDs, leasedStates)
	if err == nil {
		err = nameWorkers(ctx, tx, held)
	}
	if err != nil || len(held) == 0 {
		return nil, nil, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, nil, err
	}
	events, queued := make([]Event, len(held)), make([]DueItem, len(held))
	for i := range held {
		h := &held[i]
		data, err := json.Marshal(map[string]string{"worker_id": string(h.WorkerID),
			"lease_expires_at": Stamp(h.ExpiresAt).Format(time.RFC3339Nano)})
		if err != nil {
			return nil, nil, err
		}
		events[i] = Event{Namespace: h.Namespace, TaskID: h.TaskID, ItemID: Text(h.ItemID), Solo: h.Solo, Attempt: h.Attempt,
			Event: "lease_revoked", From: Text(h.State), To: "queued",
			Actor: by, Message: reason, Data: Text(data)}
		h.LeftBy = "revoked"
		h.Requeue(now)
		queued[i] = DueItem{h.Namespace, h.ItemID, h.Type, h.Rank}
	}
	if err := Put(ctx, tx, held); err != nil {
		return nil, nil, err
	}
	return held, queued, Record(ctx, tx, now, events)
}
