package hot

import (
	"cmp"
	"context"
	"fmt"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

var (
	expire       = read("expire.sql")
	expireOver   = expire.get("Over")
	expireRemove = expire.get("Remove")
)

type expiredData struct {
	WorkerID    string `json:"worker_id"`
	ExpiresAt   string `json:"lease_expires_at"`
	Failures    int    `json:"failures"`
	MaxAttempts int    `json:"max_attempts"`
	Spared      bool   `json:"spared"`
}

// Expire implements store.Timed. A spared item leaves no error_boundary, because it never
// ran.
func (Verbs) Expire(ctx context.Context, tx store.Tx, limit int, only []string, boundary bool, ids []string) ([]store.Expired, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	over, err := overdue(ctx, tx, limit, only, now)
	if err != nil {
		return nil, err
	}
	names, err := store.ActorNames(ctx, tx, workersOf(over))
	if err != nil {
		return nil, err
	}
	out := make([]store.Expired, len(over))
	var counts tally
	for i := range over {
		l := &over[i]
		l.workerID = names[l.worker]
		message, state, err := l.expire(ctx, tx, now)
		if err == nil {
			err = l.endEffects(ctx, tx, now)
		}
		if err != nil {
			return nil, err
		}
		counts.left(l, state)
		q, err := store.QueueNamed(ctx, tx, l.queue)
		if err != nil {
			return nil, err
		}
		out[i] = store.Expired{Namespace: l.namespace, ItemID: string(l.itemID), TaskID: string(l.taskID), Type: q.Type, State: state,
			Rank: l.rank, Fed: l.FeedsItems() && state == "failed", Child: l.OfChild() && state == "failed"}
		if boundary && message != "" && len(ids) > 0 {
			if err := l.markExpired(ctx, tx, ids[0], message, now); err != nil {
				return nil, err
			}
			ids, out[i].Checkpoint = ids[1:], true
		}
	}
	return out, counts.settle(ctx, tx, nil, now)
}

func overdue(ctx context.Context, tx store.Tx, limit int, only []string, now int64) ([]lease, error) {
	rows, err := tx.Query(ctx, expireOver, now, int64(limit), only == nil, store.ItemList(only))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var over []lease
	for rows.Next() {
		var l lease
		if err := rows.Scan(l.targets()...); err != nil {
			return nil, err
		}
		over = append(over, l)
	}
	return over, rows.Err()
}

func workersOf(leases []lease) []int64 {
	ids := make([]int64, len(leases))
	for i := range leases {
		ids[i] = leases[i].worker
	}
	return ids
}

// expire ends one lease. message is empty for a spared item.
func (l *lease) expire(ctx context.Context, tx store.Tx, now int64) (message, state string, err error) {
	if _, err := tx.Exec(ctx, expireRemove, l.itemID); err != nil {
		return "", "", err
	}
	spared := l.prefetch == 1 && l.state == "leased" && l.Spared < l.MaxAttempts
	switch {
	case spared:
		l.Spared++
		state, err = "queued", l.toReady(ctx, tx, "expired", now)
	case l.Failures+1 < l.MaxAttempts:
		l.Failures++
		message = l.expired(fmt.Sprintf("retry %d/%d", l.Failures, l.MaxAttempts))
		state, err = "queued", l.toReady(ctx, tx, "expired", now)
	default:
		l.Failures++
		message = l.expired("")
		state, err = "failed", l.toFailed(ctx, tx, "expired", now)
	}
	if err != nil {
		return "", "", err
	}
	e := l.event("lease_expired", state, system)
	if l.Solo == 1 && state == "failed" {
		e.taskFrom, e.taskTo = "open", "failed"
	}
	e.data, err = encode(expiredData{l.workerID, rfc3339(l.expiresAt), l.Failures, l.MaxAttempts, spared})
	if err != nil {
		return "", "", err
	}
	return message, state, e.write(ctx, tx, now)
}

// expired sets the error of a lease that has run out, and returns its message. retry is
// empty when the item has failed.
func (l *lease) expired(retry string) (message string) {
	code := "lease_expired"
	switch capped := l.StartToClose != nil && l.expiresAt >= l.acquiredAt+*l.StartToClose*1_000_000; {
	case capped:
		code, message = pawl.FailedByStartToClose, "The attempt took longer than start_to_close_seconds - "+cmp.Or(retry, "max retries exceeded")
	case retry == "":
		message = "Max retries exceeded"
	default:
		message = "Lease expired - " + retry
	}
	l.err = store.Text(`{"code":"` + code + `","message":"` + message + `"}`)
	return message
}

func (l *lease) markExpired(ctx context.Context, tx store.Tx, id, message string, now int64) error {
	return l.mark(ctx, tx, id, boundary{message, l.Failures, l.MaxAttempts, &expiredLease{
		WorkerID: l.workerID, Attempt: l.Attempt, AcquiredAt: rfc3339(l.acquiredAt),
		ExpiresAt: rfc3339(l.expiresAt), HeartbeatAt: rfc3339(l.heartbeatAt),
	}}, now)
}
