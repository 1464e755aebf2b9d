package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
)

func (s *server) items() {
	change(s, "claim", s.claim)
	both(s, api.Heartbeat)
	both(s, api.Checkpoint)
	onItem(s, api.Progress)
	onItem(s, api.Complete)
	onItem(s, api.Fail)
	onItem(s, api.Release)
	onItem(s, api.Suspend)
	onItem(s, api.RevokeLeases)
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
	add(s, "resume_item", func(ctx context.Context, in *struct {
		ID string `path:"id" doc:"The id."`
		api.ResumeQuery
	}) (*resumed, error) {
		r, err := s.svc.ResumePage(ctx, in.ID, in.Cursor)
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

// claim asks once without waiting, so that nothing cuts a claim that finds
// work; then it waits, but no longer than the server lives. It also waits if that
// first try failed because the database was unavailable.
func (s *server) claim(ctx context.Context, svc pawl.Service, in *body[pawl.ClaimRequest]) (*answer[api.Leases], error) {
	first := in.Body
	waits := first.WaitSeconds > 0 && first.WaitSeconds <= pawl.MaxWaitSeconds
	if waits {
		first.WaitSeconds = 0
	}
	leases, err := svc.Claim(ctx, first)
	if err != nil && !errors.Is(err, pawl.ErrUnavailable) || len(leases) > 0 || !waits {
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
