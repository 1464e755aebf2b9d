package hot

import (
	"context"
	"encoding/json"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

var (
	leaveTake = read("leave.sql").get("Take")
	leaveItem = leaveTake + ",\n  " + store.ReturnItem("$1", "", "", "started_at", "stage", "error")
)

// Leave implements store.Hot.
func (Verbs) Leave(ctx context.Context, tx store.Tx, calls []store.Leave) ([]store.Moved, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]store.Moved, 0, len(calls))
	var counts tally
	for i := range calls {
		c := &calls[i]
		var l lease
		found, _, item, err := take(ctx, tx, l.targets(), leaveTake, leaveItem, &c.Fence, now)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		var state string
		var runAt int64
		switch c.Verb {
		case store.VerbRelease:
			state, runAt, err = l.release(ctx, tx, c, now)
		case store.VerbSuspend:
			state, runAt, err = l.suspend(ctx, tx, c, now)
		default:
			state, runAt, err = l.fail(ctx, tx, c, now)
		}
		if err == nil {
			err = l.endEffects(ctx, tx, now)
		}
		if err != nil {
			return nil, err
		}
		counts.left(&l, state)
		m, err := l.moved(ctx, tx, c.Ord, state, runAt, now)
		if err != nil {
			return nil, err
		}
		if c.Return {
			if m.Returned, err = store.NewReturned(c.Fence, m.TaskID, m.Failures, item); err != nil {
				return nil, err
			}
			m.Returned.Left(c, &m)
		}
		out = append(out, m)
	}
	return out, counts.settle(ctx, tx, out, now)
}

type releaseData struct {
	RunAt string `json:"run_at"`
}

func (l *lease) release(ctx context.Context, tx store.Tx, c *store.Leave, now int64) (state string, runAt int64, err error) {
	if c.DelayMicros == nil || *c.DelayMicros <= 0 {
		if err := l.toReady(ctx, tx, "released", now); err != nil {
			return "", 0, err
		}
		e := l.event("released", "queued", by{l.worker, l.keyID})
		e.request = c.Request
		return "queued", 0, e.write(ctx, tx, now)
	}
	runAt = now + *c.DelayMicros
	if err := l.toScheduled(ctx, tx, "released", runAt, now); err != nil {
		return "", 0, err
	}
	e := l.event("released", "scheduled", by{l.worker, l.keyID})
	e.request = c.Request
	if e.data, err = encode(releaseData{rfc3339(runAt)}); err != nil {
		return "", 0, err
	}
	return "scheduled", runAt, e.write(ctx, tx, now)
}

type suspendData struct {
	Until  *string `json:"until"`
	Signal *string `json:"signal"`
	Key    *string `json:"key"`

	Children json.RawMessage `json:"children,omitempty"`
}

func (l *lease) suspend(ctx context.Context, tx store.Tx, c *store.Leave, now int64) (state string, runAt int64, err error) {
	if err := l.toWaiting(ctx, tx, "suspended", c.Until, c.Signal, c.Key, now); err != nil {
		return "", 0, err
	}
	data := suspendData{Signal: orAbsent(c.Signal), Key: orAbsent(c.Key), Children: json.RawMessage(c.Awaits())}
	if c.Until != nil {
		text := rfc3339(*c.Until)
		runAt, data.Until = *c.Until, &text
	}
	e := l.event("suspended", "waiting", by{l.worker, l.keyID})
	e.request = c.Request
	if e.data, err = encode(data); err != nil {
		return "", 0, err
	}
	return "waiting", runAt, e.write(ctx, tx, now)
}

func orAbsent(t store.Text) *string {
	if t == "" {
		return nil
	}
	return (*string)(&t)
}

type failData struct {
	Error       json.RawMessage `json:"error"`
	Failures    int             `json:"failures"`
	MaxAttempts int             `json:"max_attempts"`
	RunAt       string          `json:"run_at,omitempty"`
}

// boundary is the snapshot of an error_boundary.
type boundary struct {
	Error        any           `json:"error"`
	Failures     int           `json:"failures"`
	MaxAttempts  int           `json:"max_attempts"`
	ExpiredLease *expiredLease `json:"expired_lease"`
}

type expiredLease struct {
	WorkerID    string `json:"worker_id"`
	Attempt     int    `json:"attempt"`
	AcquiredAt  string `json:"acquired_at"`
	ExpiresAt   string `json:"expires_at"`
	HeartbeatAt string `json:"heartbeat_at"`
}

func (l *lease) fail(ctx context.Context, tx store.Tx, c *store.Leave, now int64) (state string, runAt int64, err error) {
	l.Failures++
	l.err = store.Text(c.Error)
	delay := int64(float64(pawl.Backoff{}.After(l.Failures).Microseconds()) * c.Jitter)
	if c.DelayMicros != nil {
		delay = *c.DelayMicros
	}
	switch {
	case !c.Retryable || l.Failures >= l.MaxAttempts:
		state, err = "failed", l.toFailed(ctx, tx, "failed", now)
	case delay <= 0:
		state, err = "queued", l.toReady(ctx, tx, "failed", now)
	default:
		state, runAt = "scheduled", now+delay
		err = l.toScheduled(ctx, tx, "failed", runAt, now)
	}
	if err != nil {
		return "", 0, err
	}
	e := l.event("failed", state, by{l.worker, l.keyID})
	e.request = c.Request
	data := failData{Error: raw(c.Error), Failures: l.Failures, MaxAttempts: l.MaxAttempts}
	if runAt > 0 {
		data.RunAt = rfc3339(runAt)
	}
	if e.data, err = encode(data); err != nil {
		return "", 0, err
	}
	if l.Solo == 1 && state == "failed" {
		e.taskFrom, e.taskTo = "open", "failed"
	}
	if err := e.write(ctx, tx, now); err != nil {
		return "", 0, err
	}
	return state, runAt, l.mark(ctx, tx, c.CheckpointID, boundary{raw(c.Error), l.Failures, l.MaxAttempts, nil}, now)
}

// mark saves the error_boundary checkpoint of a lease that failed or expired.
func (l *lease) mark(ctx context.Context, tx store.Tx, id string, b boundary, now int64) error {
	snapshot, err := encode(b)
	if err != nil {
		return err
	}
	row := checkpoint{id: id, namespace: l.namespace, taskID: l.taskID, itemID: l.itemID, attempt: int64(l.Attempt), kind: pawl.ErrorBoundary,
		snapshot: string(snapshot)}
	_, err = row.write(ctx, tx, now)
	return err
}
