package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// Claim takes items; see pawl.Leaser. It waits without holding a connection:
// woken at once by this process's own writes, by other processes' notices and by
// SQLite's change counter, and by polling with back-off otherwise, which of those
// who wait for the same one does for all.
func (e *Engine) Claim(ctx context.Context, req pawl.ClaimRequest) ([]pawl.Lease, error) {
	s, err := e.newClaimOp(ctx, req)
	if err == nil {
		err = s.claim(ctx)
	}
	return s.leases, err
}

// claimOp is a claim under way. Thousands may wait: what they need is here and not
// on their stacks, which are given back by half as long as a quarter is enough.
type claimOp struct {
	e          *Engine
	caller     pawl.Caller
	req        pawl.ClaimRequest
	provenance *store.Provenance // who says who he is; nil = nobody
	waitKey    string            // names the wait, if it waits
	tried      bool
	leases     []pawl.Lease
}

// newClaimOp begins a claim.
func (e *Engine) newClaimOp(ctx context.Context, req pawl.ClaimRequest) (s *claimOp, err error) {
	s = &claimOp{e: e, caller: pawl.CallerOf(ctx), req: pawl.Provenant(ctx, []pawl.ClaimRequest{req})[0]}
	if s.provenance, err = provenanceOf(ctx, e.key(), "claim", &s.req); err == nil {
		err = s.prepare(ctx)
	}
	return s, err
}

func (s *claimOp) claim(ctx context.Context) error {
	if s.req.WaitSeconds == 0 {
		_, err := s.try(ctx, s.e.wake.changed(s.caller.Namespace))
		return err
	}
	return s.e.waitForWork(ctx, s.caller.Namespace, s.waitKey, time.Duration(s.req.WaitSeconds)*time.Second,
		func(woken <-chan struct{}) (bool, error) { return s.try(ctx, woken) })
}

// prepare checks the request and fills in what it leaves out.
func (s *claimOp) prepare(ctx context.Context) error {
	req := &s.req
	if scope := s.e.scope; scope != nil && req.WaitSeconds <= pawl.MaxWaitSeconds { // even if it fails below: it is tried again
		scope.wait = max(scope.wait, time.Duration(req.WaitSeconds)*time.Second)
	}
	if req.LeaseSeconds == 0 && len(req.Types) <= pawl.MaxClaim {
		var err error
		if req.LeaseSeconds, err = s.e.leaseFor(ctx, s.caller.Namespace, req.Types); err != nil {
			return err
		}
	}
	if err := checkClaim(req); err != nil {
		return err
	}
	if req.TaskID != "" || req.ItemID != "" {
		if _, err := view(ctx, s.e, func(ctx context.Context, tx store.Tx, ns string) (struct{}, error) {
			return struct{}{}, known(ctx, tx, ns, req.TaskID, req.ItemID)
		}); err != nil {
			return err
		}
	}
	s.e.seen.note(s.caller.Namespace, req.WorkerID)
	if s.e.scope != nil { // it waits outside its transaction
		req.WaitSeconds = 0
	}
	if req.WaitSeconds > 0 {
		s.waitKey = waitKey(s.caller, req)
	}
	return nil
}

// try claims what is there; one that begins to wait rests at once where another
// has just seen that there is nothing. One whose connection is lost, or that
// met a lock for too long, is not done.
func (s *claimOp) try(ctx context.Context, woken <-chan struct{}) (bool, error) {
	e, ns := s.e, s.caller.Namespace
	byType, empty, remote := s.req.TaskID == "" && s.req.ItemID == "", false, false
	if byType && !s.tried && s.req.WaitSeconds > 0 {
		empty, remote = e.wake.isEmpty(ns, s.req.Types, woken)
	}
	if s.tried = true; empty && !remote {
		return false, nil
	}
	var err error
	s.leases, err = s.take(ctx, empty)
	if err == nil && byType && len(s.leases) < s.req.Limit && e.scope == nil {
		e.wake.setEmpty(ns, s.req.Types, woken)
	}
	return err != nil && !transient(err) || len(s.leases) > 0, err
}

// transient says that another try may succeed, on another connection or after the lock.
func transient(err error) bool {
	return errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrLocked)
}

// waitKey names the wait of claims for the same.
func waitKey(c pawl.Caller, req *pawl.ClaimRequest) string {
	return strings.Join(append([]string{c.Namespace, req.TaskID, req.ItemID}, req.Types...), "\x00")
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

// take claims what is there now. Before it says "nothing" it has looked at
// every stretch of the queue from its start; with look it begins with that.
func (s *claimOp) take(ctx context.Context, look bool) ([]pawl.Lease, error) {
	e, c, req := s.e, s.caller, &s.req
	wish := claimCall{namespace: c.Namespace, types: req.Types, look: look, who: claimant(c, req), provenance: s.provenance}
	var rows []store.Claimed
	var err error
	if req.TaskID != "" || req.ItemID != "" {
		rows, err = e.claimPicks(ctx, &wish, req)
	} else {
		for again := true; again; {
			rows, err = e.committers.claim.do(ctx, e, []claimCall{wish})
			again = len(rows) > 0 && rows[0].ItemID == ""
		}
	}
	e.noteKeys(ctx, c, rows)
	return e.leases(c, req, rows), err
}

// claimCall is one caller's claim by type, on its way into a statement with
// those of others who ask for the same.
type claimCall struct {
	ord        int
	namespace  string
	types      []string
	look       bool
	who        store.Claimant
	provenance *store.Provenance
}

func claimant(c pawl.Caller, req *pawl.ClaimRequest) store.Claimant {
	by := actor(c, pawl.ActorWorker, req.WorkerID)
	return store.Claimant{WorkerID: req.WorkerID, Limit: req.Limit, LeaseSeconds: req.LeaseSeconds, Prefetch: req.Prefetch, Actor: by, Key: store.Text(c.Key)}
}

// sameQueues says that two claims can be one statement.
func sameQueues(a, b *claimCall) bool {
	return a.namespace == b.namespace && slices.Equal(a.types, b.types)
}

// claimGroup claims for callers who ask for the same, and once more from the
// start when there was nothing.
func (e *Engine) claimGroup(ctx context.Context, group []claimCall) ([]store.Claimed, error) {
	if e.scope != nil { // what it sees and takes is not for others to know before the commit
		s, err := e.readQueues(ctx, group[0].namespace)
		if err != nil {
			return nil, err
		}
		out, err := e.claimFor(ctx, group, wanted(s.queues, group[0].types))
		return deal(group, out), err
	}
	for look := slices.ContainsFunc(group, func(c claimCall) bool { return c.look }); ; look = true {
		m, fresh, err := e.queuesFor(ctx, group[0].namespace, look)
		if err != nil {
			return nil, err
		}
		out, err := e.claimFor(ctx, group, wanted(m.from, group[0].types))
		e.heads.raiseHeads(m, out)
		if err != nil {
			return nil, err
		}
		if fresh || len(out) > 0 {
			return deal(group, out), nil
		}
	}
}

// deal says whose each row is by the place in the call. Where the bytes of the claim
// ended it, those who have nothing get a row without an item: they are to claim again.
func deal(group []claimCall, out []store.Claimed) []store.Claimed {
	if len(group) > 1 && full(out) {
		for i := out[len(out)-1].Claimant + 1; i < len(group); i++ {
			out = append(out, store.Claimed{Claimant: i})
		}
	}
	for i := range out {
		out[i].Claimant = group[out[i].Claimant].ord
	}
	return out
}

// full says that its bytes ended a claim.
func full(out []store.Claimed) bool {
	n := 0
	for i := range out {
		n += out[i].Bytes()
	}
	return n >= pawl.MaxClaimBytes
}

// releaseOrphans gives back what was claimed for a caller who had gone.
func (e *Engine) releaseOrphans(ctx context.Context, asked []claimCall, got []store.Claimed) {
	rows := make([]store.Leave, 0, len(got))
	for _, g := range got {
		who := asked[g.Claimant]
		if g.ItemID == "" {
			return
		}
		rows = append(rows, store.Leave{Ord: len(rows), Verb: store.VerbRelease, Fence: store.Fence{Namespace: who.namespace, ItemID: g.ItemID, WorkerID: who.who.WorkerID, Attempt: g.Attempt}})
	}
	if _, err := e.committers.leave.do(ctx, e, rows); err != nil {
		e.logError(ctx, "giving back a claim whose caller had gone", err)
	}
	e.heads.forget()
	e.ready(asked[0].namespace)
}

func (e *Engine) claimFor(ctx context.Context, group []claimCall, queues []store.Queue) ([]store.Claimed, error) {
	if len(queues) == 0 {
		return nil, nil
	}
	return e.claimRows(ctx, store.Claim{Namespace: group[0].namespace, Queues: queues}, group)
}

// claimPicks claims named items: one, or the best of a task.
func (e *Engine) claimPicks(ctx context.Context, wish *claimCall, req *pawl.ClaimRequest) ([]store.Claimed, error) {
	var picks []store.Pick
	err := e.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		picks, err = store.Picks(ctx, tx, wish.namespace, req.TaskID, req.ItemID, req.Types, req.Limit)
		return err
	})
	if err != nil || len(picks) == 0 {
		return nil, err
	}
	return e.claimRows(ctx, store.Claim{Namespace: wish.namespace, Picks: picks}, []claimCall{*wish})
}

// claimRows claims for a group, and keeps in the same transaction who said of
// himself who he is.
func (e *Engine) claimRows(ctx context.Context, cl store.Claim, group []claimCall) (rows []store.Claimed, err error) {
	run, hasProvenance := e.db.Auto, false
	cl.Bounded = e.scope != nil || e.heads.isLarge(cl.Namespace)
	for i := range group {
		cl.Claimants = append(cl.Claimants, group[i].who)
		hasProvenance = hasProvenance || group[i].provenance != nil
	}
	if hasProvenance {
		run = e.db.Do
	}
	passed := false // other claims may have passed over rows that this one locked and left
	for ; ; passed, cl.Bounded = true, true {
		err = run(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			if rows, err = e.db.Dialect().Hot.Claim(ctx, tx, cl); err != nil || !hasProvenance {
				return err
			}
			var kept []store.Provenance
			for _, r := range rows {
				kept = e.addProvenance(kept, group[r.Claimant].provenance, subject{r.TaskID, r.ItemID, r.Attempt})
			}
			return insertProvenance(ctx, tx, kept)
		})
		if !errors.Is(err, store.ErrLarge) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	if share := cl.Share(); slices.ContainsFunc(rows, func(r store.Claimed) bool { return r.Bytes() > share }) {
		e.heads.metLarge(cl.Namespace)
	}
	if passed || full(rows) {
		e.after(func() {
			e.heads.drop(cl.Namespace)
			e.ready(cl.Namespace)
		})
	}
	if e.scope != nil && len(rows) > 0 {
		e.scope.took = true
	}
	return rows, nil
}

func (e *Engine) leases(c pawl.Caller, req *pawl.ClaimRequest, rows []store.Claimed) []pawl.Lease {
	out := make([]pawl.Lease, len(rows))
	for i, r := range rows {
		out[i] = pawl.Lease{ID: r.ItemID, TaskID: r.TaskID, Type: r.Type, Key: string(r.Key), Attempt: r.Attempt, Failures: r.Failures, MaxAttempts: r.MaxAttempts,
			Priority: r.Priority, Input: json.RawMessage(r.Input), LeaseSeconds: r.LeaseSeconds, LeaseExpiresAt: stamp(r.LeaseExpiresAt),
			ServerTime: stamp(r.AcquiredAt), WorkerID: req.WorkerID, OpenMessage: openMessage(r.Said), Stopped: strings.Fields(string(store.StoppedIn(r.Said))),
			Token: e.tokens.of(c.Namespace, r.ItemID, r.Attempt)}
		if r.Error != "" {
			out[i].Error = new(pawl.Failure)
			_ = json.Unmarshal([]byte(r.Error), out[i].Error) // written by us
		}
		if r.Reasons != "" {
			_ = json.Unmarshal([]byte(r.Reasons), &out[i].Reasons) // written by us
		}
	}
	return out
}
