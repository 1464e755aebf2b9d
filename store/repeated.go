package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pawl-work/pawl"
)

// Repeated is an earlier call of a worker that ended a lease.
type Repeated struct {
	State    string     // of the item, as that call left it
	Key      string     // the API key of that call; "" = none
	Failures *int       // of the item after a fail; nil = another verb
	RunAt    *time.Time // when the item was to go on; nil = at once, or never
}

// FindRepeated finds the call of an attempt by the digest that was kept with its event. It
// looks at the newest pawl.MaxRepeatEvents events of the task.
func FindRepeated(ctx context.Context, tx Tx, taskID, itemID string, attempt int, request int64) (r Repeated, found bool, err error) {
	var code int
	var key, data Text
	found, err = Row(ctx, tx, []any{&code, &key, &data}, readSQL["event of request"], TaskID(taskID), ItemID(itemID), attempt, request,
		pawl.MaxRepeatEvents)
	if err != nil || !found {
		return r, false, err
	}
	m, err := moveFrom(ctx, tx, code)
	if err != nil {
		return r, false, err
	}
	var kept struct {
		Failures *int       `json:"failures"`
		RunAt    *time.Time `json:"run_at"`
		Until    *time.Time `json:"until"`
	}
	if data != "" {
		_ = json.Unmarshal([]byte(data), &kept) // written by us
	}
	r = Repeated{State: m.To, Key: string(key), Failures: kept.Failures, RunAt: kept.RunAt}
	if r.RunAt == nil {
		r.RunAt = kept.Until
	}
	return r, true, nil
}
