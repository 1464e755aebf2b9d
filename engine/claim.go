package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// Claim takes items; see pawl.Leaser. It waits without holding a connection:
// woken at once by this process's own writes, by SQLite's change counter, and
// by polling with back-off otherwise.
func (e *Engine) Claim(ctx context.Context, req pawl.ClaimRequest) ([]pawl.Lease, error) {
	if err := checkClaim(&req); err != nil {
		return nil, err
	}
	c := pawl.CallerOf(ctx)
	e.seen.note(c.Namespace, req.WorkerID)
	deadline := time.NewTimer(time.Duration(req.WaitSeconds) * time.Second)
	defer deadline.Stop()
	pause := 10 * time.Millisecond
	for {
		woken := e.wake.on(c.Namespace)
		leases, err := e.tryClaim(ctx, c, &req)
		if err != nil || len(leases) > 0 || req.WaitSeconds == 0 {
			return leases, err
		}
		poll := time.NewTimer(pause + rand.N(pause/2))
		select {
		case <-woken:
		case <-poll.C:
			if !e.changed(ctx) {
				pause = min(2*pause, e.opts.PollInterval)
			}
		case <-deadline.C:
			poll.Stop()
			return e.tryClaim(ctx, c, &req)
		case <-ctx.Done():
			poll.Stop()
			return nil, ctx.Err()
		}
		poll.Stop()
	}
}

func checkClaim(req *pawl.ClaimRequest) error {
	if req.Limit == 0 {
		req.Limit = 1
	}
	if req.LeaseSeconds == 0 {
		req.LeaseSeconds = pawl.DefaultLeaseSeconds
	}
	var f fields
	f.text("/worker_id", req.WorkerID, 1, pawl.MaxIDLen)
	f.number("/limit", req.Limit, 1, pawl.MaxClaim)
	f.number("/lease_seconds", req.LeaseSeconds, 1, pawl.MaxLeaseSeconds)
	f.number("/wait_seconds", req.WaitSeconds, 0, pawl.MaxWaitSeconds)
	f.text("/task_id", req.TaskID, 0, pawl.MaxIDLen)
	f.text("/item_id", req.ItemID, 0, pawl.MaxIDLen)
	if len(req.Types) > 1000 {
		f.add("/types", "has %d types; at most 1000 are allowed", len(req.Types))
	}
	for i, t := range req.Types {
		f.text(fmt.Sprintf("/types/%d", i), t, 1, pawl.MaxTypeLen)
	}
	return f.err("claim")
}

// tryClaim claims what is there now. Before it says "nothing" it has looked at
// every stretch of the queue from its start.
func (e *Engine) tryClaim(ctx context.Context, c pawl.Caller, req *pawl.ClaimRequest) ([]pawl.Lease, error) {
	if req.TaskID != "" || req.ItemID != "" {
		return e.claimPicks(ctx, c, req)
	}
	groups, fresh, err := e.groupsFor(ctx, c.Namespace, req.Types, false)
	if err != nil {
		return nil, err
	}
	leases, err := e.claimRows(ctx, c, req, store.Claim{Groups: groups})
	if err != nil || len(leases) > 0 || fresh {
		return leases, err
	}
	if groups, _, err = e.groupsFor(ctx, c.Namespace, req.Types, true); err != nil {
		return nil, err
	}
	return e.claimRows(ctx, c, req, store.Claim{Groups: groups})
}

// claimPicks claims named items: one, or the best of a task. They are filters:
// an id that nothing has yields nothing.
func (e *Engine) claimPicks(ctx context.Context, c pawl.Caller, req *pawl.ClaimRequest) ([]pawl.Lease, error) {
	var picks []store.Pick
	err := e.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		picks, err = store.Picks(ctx, tx, c.Namespace, req.TaskID, req.ItemID, req.Types, req.Limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return e.claimRows(ctx, c, req, store.Claim{Picks: picks})
}

func (e *Engine) claimRows(ctx context.Context, c pawl.Caller, req *pawl.ClaimRequest, cl store.Claim) ([]pawl.Lease, error) {
	if len(cl.Groups) == 0 && len(cl.Picks) == 0 {
		return nil, nil
	}
	kind, id := actor(c, pawl.ActorWorker, req.WorkerID)
	cl.Namespace, cl.WorkerID, cl.Limit, cl.LeaseSeconds, cl.Prefetch = c.Namespace, req.WorkerID, req.Limit, req.LeaseSeconds, req.Prefetch
	cl.Actor = store.Actor{Type: kind, ID: id}
	var rows []store.Claimed
	err := e.db.Auto(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		rows, err = e.db.Dialect().Hot.Claim(ctx, tx, cl)
		return err
	})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	out := make([]pawl.Lease, len(rows))
	for i, r := range rows {
		out[i] = pawl.Lease{ID: r.ItemID, TaskID: r.TaskID, Type: r.Type, Key: string(r.Key), Attempt: r.Attempt, Failures: r.Failures, MaxAttempts: r.MaxAttempts,
			Priority: r.Priority, Input: json.RawMessage(r.Input), LeaseSeconds: r.LeaseSeconds, LeaseExpiresAt: stamp(r.LeaseExpiresAt),
			ServerTime: stamp(r.AcquiredAt), WorkerID: req.WorkerID}
	}
	return out, nil
}
