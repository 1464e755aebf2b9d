package engine

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/commit"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/queue"
	"github.com/pawl-work/pawl/engine/internal/tasktypes"
	"github.com/pawl-work/pawl/internal/asked"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/internal/watch"
	"github.com/pawl-work/pawl/store"
)

// Claim claims items; see pawl.Leaser. A waiting claim holds no database connection. It
// tries again at once after writes of this process, after notices of other processes and
// when SQLite's change counter moves. In addition, one of the claims that wait for the
// same work polls with back-off for all of them.
func (e *Engine) Claim(ctx context.Context, req pawl.ClaimRequest) ([]pawl.Lease, error) {
	idform.In(&req)
	if err := e.acts(ctx, "claim"); err != nil {
		return nil, err
	}
	s, err := e.newClaimOp(ctx, &req) // a copy of it would be on the stack as long as the claim waits
	if err == nil {
		err = s.claim(ctx)
		if to := asked.Of[*time.Time](ctx, asked.NextAt); to != nil {
			*to = s.nextAt
		}
	}
	return s.leases, err
}

// claimOp is a claim in progress. Thousands of claims may wait, so their state is here
// and not on their stacks. The runtime halves a stack of which less than a quarter is
// used.
type claimOp struct {
	e          *Engine
	caller     pawl.Caller
	req        pawl.ClaimRequest
	provenance *provenance // nil = the call has none
	waitKey    string      // equal for claims that wait for the same work
	next       nextStart
	nextAt     time.Time // of the last try; zero = no rate is in the way
	tried      bool
	waits      bool      // it may wait, here or outside the transaction
	lost       int64     // when its worker lost what it left to others, and has told them of; 0 = nothing
	ownFrom    time.Time // from then on it takes that, too
	leases     []pawl.Lease
}

// newClaimOp begins a claim and checks its request.
func (e *Engine) newClaimOp(ctx context.Context, req *pawl.ClaimRequest) (s *claimOp, err error) {
	s = &claimOp{e: e, caller: pawl.CallerOf(ctx), req: pawl.Provenant(ctx, []pawl.ClaimRequest{*req})[0]}
	if s.provenance, err = provenanceOf(ctx, e.key(), "claim", &s.req); err == nil {
		err = s.prepare(ctx)
	}
	return s, err
}

func (s *claimOp) claim(ctx context.Context) error {
	if s.req.WaitSeconds == 0 {
		return s.try(ctx, s.e.queues.Next(s.caller.Namespace)).Err
	}
	return s.e.queues.Wait(ctx, s.caller.Namespace, s.waitKey, time.Duration(s.req.WaitSeconds)*time.Second,
		func(woken <-chan struct{}) queue.Tried { return s.try(ctx, woken) })
}

// prepare checks the request and fills in defaults.
func (s *claimOp) prepare(ctx context.Context) error {
	req := &s.req
	if scope := s.e.scope; scope != nil && req.WaitSeconds <= pawl.MaxWaitSeconds { // also if a check below fails: the call is tried again
		scope.Wait = max(scope.Wait, time.Duration(req.WaitSeconds)*time.Second)
	}
	if err := checkClaim(req); err != nil {
		return err
	}
	if req.TaskID != "" || req.ItemID != "" {
		if _, err := view(ctx, s.e, func(ctx context.Context, tx store.Tx, ns string) (struct{}, error) {
			return struct{}{}, store.Known(ctx, tx, ns, req.TaskID, req.ItemID)
		}); err != nil {
			return err
		}
	}
	s.e.k.Seen(ctx, s.e.k, s.caller.Namespace, req.WorkerID)
	s.waits = req.WaitSeconds > 0
	if s.e.scope != nil { // the wait takes place outside the transaction
		req.WaitSeconds = 0
	}
	if req.WaitSeconds > 0 {
		s.waitKey = waitKey(s.caller, req)
	}
	return nil
}

// try claims what is available and reports whether the claim is done. If another claim
// has just found nothing, a claim that begins to wait skips its first try, unless another
// process has reported work since. A claim that lost its connection, or waited too long
// for a lock, is not done. It is tried again when a rate limit lets another item start.
func (s *claimOp) try(ctx context.Context, woken <-chan struct{}) (out queue.Tried) {
	e, ns := s.e, s.caller.Namespace
	byType, empty, remote := s.req.TaskID == "" && s.req.ItemID == "", false, false
	if byType && !s.tried && s.req.WaitSeconds > 0 {
		empty, remote = e.queues.IsEmpty(ns, s.req.Types, woken)
	}
	waited := s.waits && (s.tried || e.scope != nil && e.scope.Waited)
	if s.tried = true; empty && !remote {
		return out
	}
	s.next = nextStart{}
	began := e.began()
	if s.leases, out.Err = s.take(ctx, empty, waited); len(s.leases) > 0 {
		e.took(ctx, "claim", began, s.leases)
	}
	short := out.Err == nil && len(s.leases) < s.req.Limit
	if short && byType && e.scope == nil && !e.limits.knowsAny(ns) && s.next.own == 0 { // what limits allow changes without a notice
		e.queues.SetEmpty(ns, s.req.Types, woken)
	}
	if s.nextAt = (time.Time{}); short && s.next.at > 0 {
		out.Again, s.nextAt = max(time.Duration(s.next.at-s.next.now)*time.Microsecond, minPause), stamp(s.next.at)
	}
	if short && s.next.own > 0 {
		own := max(time.Duration(s.next.own)*time.Microsecond, minPause)
		if out.Again == 0 || own < out.Again {
			out.Again = own
		}
		if s.lost != s.next.lost { // the notice of the work may have reached this claim alone
			s.lost, s.ownFrom = s.next.lost, clock.Now().Add(own)
			e.hub.Wake(watch.Work(ns))
		}
	}
	out.Done, out.Others = out.Err != nil && !kernel.Transient(out.Err) || len(s.leases) > 0, s.next.others
	return out
}

// minPause is the shortest time after which a waiting claim tries again because of a rate.
const minPause = 10 * time.Millisecond

// waitKey returns a key that is equal for claims that wait for the same work.
func waitKey(c pawl.Caller, req *pawl.ClaimRequest) string {
	return strings.Join(append([]string{c.Namespace, req.TaskID, req.ItemID}, req.Types...), "\x00")
}

// take claims what is available now. Before it returns nothing, it has read every queue
// from the start. With look it reads the queues from the start at once. What a claim that has
// waited takes may not reach its worker, which may be gone or frozen.
func (s *claimOp) take(ctx context.Context, look, waited bool) ([]pawl.Lease, error) {
	e, c, req := s.e, s.caller, &s.req
	wish := claimCall{namespace: c.Namespace, types: req.Types, look: look, waited: waited, who: claimant(c, req),
		provenance: s.provenance, next: &s.next}
	wish.who.Prefetch = wish.who.Prefetch || waited
	if s.lost > 0 && !clock.Now().Before(s.ownFrom) { // the database's clock may stand still or go back
		wish.left = s.lost
	}
	var rows []store.Claimed
	var err error
	switch {
	case req.TaskID != "" || req.ItemID != "":
		rows, err = e.claimPicks(ctx, &wish, req)
	case e.scope != nil:
		rows, err = e.claimInTx(ctx, wish)
	default:
		for again := true; again; {
			rows, err = e.committers.claim.Do(ctx, e.db, []claimCall{wish})
			again = len(rows) > 0 && rows[0].ItemID == ""
		}
	}
	e.noteKeys(ctx, c, rows)
	return e.leases(c, req, rows), err
}

// claimCall is one claim by type; claims for the same queues share a statement.
type claimCall struct {
	ord        int
	namespace  string
	types      []string
	look       bool
	waited     bool
	left       int64 // what the worker has lost until then was left to others for long enough
	who        store.Claimant
	provenance *provenance
	next       *nextStart
}

func claimant(c pawl.Caller, req *pawl.ClaimRequest) store.Claimant {
	by := actor(c, pawl.ActorWorker, req.WorkerID)
	return store.Claimant{
		WorkerID:     req.WorkerID,
		Limit:        req.Limit,
		LeaseSeconds: req.LeaseSeconds,
		Prefetch:     req.Prefetch,
		Actor:        by,
		Key:          store.Text(c.Key),
	}
}

// sameQueues reports whether two claims can share a statement.
func sameQueues(a, b *claimCall) bool {
	return a.namespace == b.namespace && slices.Equal(a.types, b.types)
}

// claimInTx claims for one call in the caller's transaction. That may roll back, so other
// claims must not use what it read.
func (e *Engine) claimInTx(ctx context.Context, call claimCall) ([]store.Claimed, error) {
	ctx, cancel := context.WithTimeout(ctx, commit.FlushLimit)
	defer cancel()
	queues, err := queue.Read(ctx, e.queueView(), call.namespace)
	if err != nil {
		return nil, err
	}
	wanted := queue.Wanted(queues, call.types)
	group, err := e.standBack(ctx, []claimCall{call}, wanted)
	if err != nil || len(group) == 0 {
		return nil, err
	}
	out, _, err := e.claimFrom(ctx, group, wanted)
	return out, err
}

// claimGroup claims for calls with the same queues. If it finds nothing, it tries once
// more and reads the queues from the start.
func (e *Engine) claimGroup(ctx context.Context, group []claimCall) ([]store.Claimed, error) {
	for look := slices.ContainsFunc(group, func(c claimCall) bool { return c.look }); ; look = true {
		op, err := e.queues.Begin(ctx, group[0].namespace, look)
		if err != nil {
			return nil, err
		}
		wanted := queue.Wanted(op.Queues, group[0].types)
		calls, err := e.standBack(ctx, group, wanted)
		var out, plain []store.Claimed
		if err == nil && len(calls) > 0 {
			out, plain, err = e.claimFrom(ctx, calls, wanted)
		}
		e.queues.End(op, plain)
		if err != nil {
			return nil, err
		}
		if op.Fresh || len(out) > 0 {
			return assign(calls, out), nil
		}
	}
}

// assign gives each row to its call. If the byte limit ended the claim, calls without
// rows get a row without an item: they claim again.
func assign(group []claimCall, out []store.Claimed) []store.Claimed {
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

// full reports whether the byte limit ended a claim.
func full(out []store.Claimed) bool {
	n := 0
	for i := range out {
		n += out[i].Bytes()
	}
	return n >= pawl.MaxClaimBytes
}

// releaseOrphans releases items that were claimed for a caller that has gone away.
func (e *Engine) releaseOrphans(ctx context.Context, asked []claimCall, got []store.Claimed) {
	rows := make([]store.Leave, 0, len(got))
	for _, g := range got {
		who := asked[g.Claimant]
		if g.ItemID == "" {
			return
		}
		rows = append(rows, store.Leave{
			Ord:   len(rows),
			Verb:  store.VerbRelease,
			Fence: store.Fence{Namespace: who.namespace, ItemID: g.ItemID, WorkerID: who.who.WorkerID, Attempt: g.Attempt},
		})
	}
	if _, err := e.committers.leave.Do(ctx, e.db, rows); err != nil {
		e.logError(ctx, "items of a disconnected caller could not be released; their leases will expire", err)
	}
	e.queues.Forget()
	e.ready(asked[0].namespace)
}

func (e *Engine) claimFor(ctx context.Context, group []claimCall, queues []store.Queue) (rows []store.Claimed, err error) {
	if len(queues) == 0 {
		return nil, nil
	}
	cl := store.Claim{Namespace: group[0].namespace, Queues: queues}
	if err = e.leasesOf(ctx, &cl, group, typesOf(queues, func(q *store.Queue) string { return q.Type })); err != nil {
		return nil, err
	}
	return e.claimRows(ctx, cl, group)
}

// leasesOf sets the lease seconds of items of queues. If all claims of the group name theirs, it reads nothing.
func (e *Engine) leasesOf(ctx context.Context, cl *store.Claim, group []claimCall, queues iter.Seq[string]) error {
	if !slices.ContainsFunc(group, func(c claimCall) bool { return c.who.LeaseSeconds == 0 }) {
		return nil
	}
	return tasktypes.Of(e.taskTypes).Leases(ctx, cl, queues)
}

// typesOf yields the type of each row.
func typesOf[T any](rows []T, of func(*T) string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range rows {
			if !yield(of(&rows[i])) {
				return
			}
		}
	}
}

// moreItems is how many items of a named task a claim looks at besides those it wants: other
// transactions may lock the first ones.
const moreItems = 100

// claimPicks claims the named item, or the best items of the named task.
func (e *Engine) claimPicks(ctx context.Context, wish *claimCall, req *pawl.ClaimRequest) ([]store.Claimed, error) {
	limited, err := e.limitsOf(ctx, nil, wish.namespace)
	if err != nil {
		return nil, err
	}
	most := min(req.Limit+moreItems, pawl.MaxClaim)
	if len(limited) > 0 { // limits may keep the first ones back
		most = pawl.MaxClaim
	}
	var picks []store.Pick
	err = e.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		picks, err = readPicks(ctx, tx, wish.namespace, req.TaskID, req.ItemID, req.Types, most)
		return err
	})
	picks = slices.DeleteFunc(picks, func(p store.Pick) bool { return p.Type == pawl.TypeBulk }) // engines carry those out
	if err != nil || len(picks) == 0 {
		return nil, err
	}
	from := make([]store.Queue, len(picks))
	for i, p := range picks {
		from[i] = store.Queue{Type: p.Type, Rank: p.Rank}
	}
	if calls, err := e.standBack(ctx, []claimCall{*wish}, from); err != nil || len(calls) == 0 {
		return nil, err
	}
	return e.claimPicked(ctx, wish, picks)
}

// claimRows claims for a group and writes the provenance of its calls in the same
// transaction.
func (e *Engine) claimRows(ctx context.Context, cl store.Claim, group []claimCall) (rows []store.Claimed, err error) {
	hot := e.db.Dialect().Hot
	return e.claimBy(ctx, &cl, group, hot.Claim)
}

// claimBy is claimRows with the verb that claims.
func (e *Engine) claimBy(ctx context.Context, cl *store.Claim, group []claimCall,
	verb func(ctx context.Context, tx store.Tx, cl store.Claim) ([]store.Claimed, error)) (rows []store.Claimed, err error) {
	run, hasProvenance := e.db.Auto, false
	cl.Bounded = e.scope != nil || e.queues.IsLarge(cl.Namespace)
	for i := range group {
		cl.Claimants = append(cl.Claimants, group[i].who)
		hasProvenance = hasProvenance || group[i].provenance != nil
	}
	if hasProvenance || cl.Admitted || len(cl.Mixed) > 0 {
		run = e.db.Whole
	}
	passed := false // other claims may have skipped rows that this claim locked and did not take
	for ; ; passed, cl.Bounded = true, true {
		err = run(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			if rows, err = verb(ctx, tx, *cl); err == nil {
				err = tasktypes.Of(e.taskTypes).FitLeases(ctx, tx, cl, rows)
			}
			if err != nil || !hasProvenance {
				return err
			}
			var kept []provenance
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
		e.queues.MetLarge(cl.Namespace)
	}
	if passed || full(rows) {
		e.after(func() {
			e.queues.Drop(cl.Namespace)
			e.ready(cl.Namespace)
		})
	}
	if e.scope != nil && len(rows) > 0 {
		e.scope.Claimed = true
	}
	return rows, nil
}

func (e *Engine) leases(c pawl.Caller, req *pawl.ClaimRequest, rows []store.Claimed) []pawl.Lease {
	out, tokens := make([]pawl.Lease, len(rows)), e.tokens.tokensOf(c.Namespace, rows)
	for i := range rows {
		r := &rows[i]
		out[i] = pawl.Lease{
			ID:             r.ItemID,
			TaskID:         r.TaskID,
			Type:           r.Type,
			Key:            string(r.Key),
			Attempt:        r.Attempt,
			Failures:       r.Failures,
			MaxAttempts:    r.MaxAttempts,
			Priority:       r.Priority,
			Input:          r.Input,
			LeaseSeconds:   r.LeaseSeconds,
			LeaseExpiresAt: stamp(r.LeaseExpiresAt),
			ServerTime:     stamp(r.AcquiredAt),
			WorkerID:       req.WorkerID,
			OpenMessage:    openMessage(r.Said),
			Stopped:        strings.Fields(string(store.StoppedIn(r.Said))),
			Token:          tokens[i],
			Forked:         r.Forked,
			Rework:         r.Rework,
		}
		out[i].TraceParent, out[i].TraceState = store.TraceOf(r.Trace)
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
