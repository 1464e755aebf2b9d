package server

import (
	"context"
	"net/http"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
)

func (s *server) items() {
	change(s, "claim", s.claim)
	change(s, "heartbeat", func(ctx context.Context, svc pawl.Service, in *on[api.HeartbeatBody]) (*answer[pawl.Beat], error) {
		return reply(one(svc.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: in.Body.Fence(in.ID), LeaseSeconds: in.Body.LeaseSeconds}})))
	})
	change(s, "checkpoint", func(ctx context.Context, svc pawl.Service, in *on[api.CheckpointBody]) (*answer[pawl.CheckpointRef], error) {
		return reply(one(svc.Checkpoint(ctx, []pawl.CheckpointCall{{Fence: in.Body.Fence(in.ID), NewCheckpoint: in.Body.NewCheckpoint}})))
	})
	itemVerb(s, "progress", pawl.Service.Progress, func(f pawl.Fence, b api.ProgressBody) pawl.ProgressCall {
		return pawl.ProgressCall{Fence: f, Progress: b.Progress, Stage: b.Stage}
	})
	itemVerb(s, "complete", pawl.Service.Complete, func(f pawl.Fence, b api.CompleteBody) pawl.CompleteCall {
		return pawl.CompleteCall{Fence: f, Result: b.Result, Provenance: b.Provenance}
	})
	itemVerb(s, "fail", pawl.Service.Fail, func(f pawl.Fence, b api.FailBody) pawl.FailCall {
		return pawl.FailCall{Fence: f, Error: b.Error, Retryable: b.Retryable, RetryAfterMS: b.RetryAfterMS, Provenance: b.Provenance}
	})
	itemVerb(s, "release", pawl.Service.Release, func(f pawl.Fence, _ api.ReleaseBody) pawl.ReleaseCall {
		return pawl.ReleaseCall{Fence: f}
	})
	itemVerb(s, "suspend", pawl.Service.Suspend, func(f pawl.Fence, b api.SuspendBody) pawl.SuspendCall {
		return pawl.SuspendCall{Fence: f, Until: b.Until, Signal: b.Signal, Key: b.Key}
	})
	change(s, "revoke_lease", func(ctx context.Context, svc pawl.Service, in *struct {
		ID   string `path:"id" doc:"The id."`
		Body *api.RevokeBody
	}) (*answer[pawl.Item], error) {
		c := pawl.RevokeCall{ItemID: in.ID}
		if in.Body != nil {
			c.Attempt, c.Reason = in.Body.Attempt, in.Body.Reason
		}
		if _, err := one(svc.RevokeLeases(ctx, []pawl.RevokeCall{c})); err != nil {
			return nil, err
		}
		return reply(svc.GetItem(ctx, in.ID))
	})
	batch(s, "revoke_leases", is200[pawl.Moved], pawl.Service.RevokeLeases)
	batch(s, "heartbeat_items", is200[pawl.Beat], pawl.Service.Heartbeat)
	batch(s, "progress_items", is200[pawl.Moved], pawl.Service.Progress)
	batch(s, "checkpoint_items", is201[pawl.CheckpointRef], pawl.Service.Checkpoint)
	batch(s, "complete_items", is200[pawl.Moved], pawl.Service.Complete)
	batch(s, "fail_items", is200[pawl.Moved], pawl.Service.Fail)
	batch(s, "release_items", is200[pawl.Moved], pawl.Service.Release)
	batch(s, "suspend_items", is200[pawl.Moved], pawl.Service.Suspend)
	s.ofItem()
}

// ofItem registers what is read of items.
func (s *server) ofItem() {
	add(s, "check_token", func(ctx context.Context, in *struct {
		Token string `header:"Pawl-Task-Token" required:"true" doc:"The token of a claim."`
	}) (*answer[pawl.TaskToken], error) {
		return reply(s.svc.CheckToken(ctx, in.Token))
	})
	add(s, "list_items", func(ctx context.Context, in *struct {
		api.ItemsQuery
		api.ItemShape
	}) (*answer[pawl.List[api.ItemView]], error) {
		task, err := in.Of()
		if err != nil {
			return nil, err
		}
		f := in.Filter(task)
		f.Fields = in.Fields
		list, err := s.svc.ListItems(ctx, f)
		return page(itemViews(list), err)
	})
	add(s, "get_item", func(ctx context.Context, in *struct {
		ID string `path:"id" doc:"The id."`
		api.ItemShape
	}) (*answer[api.ItemView], error) {
		i, err := s.itemOf(ctx, in.ID, in.Fields)
		return reply(api.ItemView{Item: i}, err)
	})
	add(s, "resume_item", func(ctx context.Context, in *member) (*resumed, error) {
		r, err := s.svc.Resume(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return &resumed{Body: r}, nil
	})
	add(s, "item_events", func(ctx context.Context, in *struct {
		ID string `path:"id" doc:"The item's id."`
		api.EventQuery
	}) (*answer[pawl.List[pawl.Event]], error) {
		return page(s.svc.ListEvents(ctx, in.Filter("", in.ID)))
	})
	add(s, "item_provenance", func(ctx context.Context, in *struct {
		ID string `path:"id" doc:"The item's id."`
		api.Paging
	}) (*answer[pawl.List[pawl.ProvenanceRecord]], error) {
		return page(s.svc.ListProvenance(ctx, pawl.ProvenanceFilter{ItemID: in.ID, Page: in.Page()}))
	})
}

// holding is a body that carries a fence.
type holding interface{ Fence(item string) pawl.Fence }

// itemVerb registers a verb that answers with the item as it is after it.
func itemVerb[B holding, C any](s *server, name string, verb func(pawl.Service, context.Context, []C) ([]pawl.Result[pawl.Moved], error), of func(pawl.Fence, B) C) {
	change(s, name, func(ctx context.Context, svc pawl.Service, in *on[B]) (*answer[pawl.Item], error) {
		if _, err := one(verb(svc, ctx, []C{of(in.Body.Fence(in.ID), in.Body)})); err != nil {
			return nil, err
		}
		return reply(svc.GetItem(ctx, in.ID))
	})
}

// claim asks once without waiting, so that nothing cuts a claim that finds
// work; then it waits, but no longer than the server lives.
func (s *server) claim(ctx context.Context, svc pawl.Service, in *body[pawl.ClaimRequest]) (*answer[api.Leases], error) {
	first := in.Body
	waits := first.WaitSeconds > 0 && first.WaitSeconds <= pawl.MaxWaitSeconds
	if waits {
		first.WaitSeconds = 0
	}
	leases, err := svc.Claim(ctx, first)
	if err != nil || len(leases) > 0 || !waits {
		return s.claimed(ctx, leases, err)
	}
	if s.opts.Stopping.Err() != nil {
		return nil, errStopping
	}
	if callOf(ctx).keyed != nil { // it waits outside the transaction that it is in
		leases, err := s.await(ctx, svc, &in.Body)
		return s.claimed(ctx, leases, err)
	}
	callOf(ctx).rest = func(w http.ResponseWriter, r *http.Request) {
		leases, err := s.await(ctx, svc, &in.Body)
		out, err := s.claimed(ctx, leases, err)
		if err != nil {
			s.write(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = encode(w, out.Body) // the caller may be gone
	}
	return &answer[api.Leases]{}, nil
}

// claimed answers with leases.
func (s *server) claimed(ctx context.Context, leases []pawl.Lease, err error) (*answer[api.Leases], error) {
	if err != nil {
		return nil, err
	}
	if len(leases) > 0 && ctx.Err() != nil {
		s.giveBack(ctx, leases)
	}
	if len(leases) == 0 {
		leases = []pawl.Lease{}
		callOf(ctx).nothing = true
	}
	return &answer[api.Leases]{api.Leases{Items: leases}}, nil
}

// await is a claim that the server's end answers with nothing. What is not needed
// while it waits is done elsewhere: each caller who waits keeps this frame.
func (s *server) await(ctx context.Context, svc pawl.Service, req *pawl.ClaimRequest) ([]pawl.Lease, error) {
	waiting, end, err := s.lasting(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	leases, err := svc.Claim(waiting, *req)
	return s.waited(ctx, waiting, leases, err)
}

// lasting is a context that the end of the server, or of the caller's key, cuts
// short.
func (s *server) lasting(ctx context.Context) (context.Context, func(), error) {
	waiting, end := s.served(ctx)
	waiting, over, err := s.gate.Lasting(waiting)
	if err != nil {
		end()
		return nil, nil, err
	}
	return waiting, func() { over(); end() }, nil
}

// waited is how a claim ends that has waited. Nothing is handed to a key that was
// revoked meanwhile.
func (s *server) waited(ctx, waiting context.Context, leases []pawl.Lease, err error) ([]pawl.Lease, error) {
	why := access.Ended(waiting)
	if len(leases) > 0 && why == nil {
		why = s.gate.Still(waiting, access.Of(ctx))
	}
	switch {
	case why != nil && len(leases) > 0:
		s.giveBack(ctx, leases)
		fallthrough
	case why != nil:
		return nil, why
	case err != nil && waiting.Err() != nil && ctx.Err() == nil:
		return nil, nil
	}
	return leases, err
}

// served is a context that the server's end cuts short.
func (s *server) served(ctx context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(s.opts.Stopping, cancel)
	return ctx, func() {
		unhook()
		cancel()
	}
}

// giveBack releases what was claimed for a caller that has gone: he would never
// learn of it, and it would wait for its lease to run out.
func (s *server) giveBack(ctx context.Context, leases []pawl.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	calls := make([]pawl.ReleaseCall, len(leases))
	for i, l := range leases {
		calls[i].Fence = l.Fence()
	}
	if _, err := s.svc.Release(ctx, calls); err != nil {
		s.problem(ctx, err) // logged; the leases run out by themselves
	}
}
