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
	s.addVerb(verbOf(api.Heartbeat), asAnswer)
	s.addVerb(verbOf(api.Checkpoint), asAnswer)
	s.addVerb(verbOf(api.Progress), asItem)
	s.addVerb(verbOf(api.Complete), asItem)
	s.addVerb(verbOf(api.Fail), asItem)
	s.addVerb(verbOf(api.Release), asItem)
	s.addVerb(verbOf(api.Suspend), asItem)
	s.addVerb(verbOf(api.RevokeLeases), asItem)
	s.addVerb(verbOf(api.Spawn), asCreated)
	s.ofItem()
}

// ofItem registers the reads of items.
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
		return page(s.itemViews(ctx, f, in.Include))
	})
	add(s, "get_item", func(ctx context.Context, in *struct {
		ID string `path:"id" doc:"The id."`
		api.ItemShape
	}) (*answer[api.ItemView], error) {
		i, err := s.itemOf(ctx, in.ID, in.Fields)
		if err != nil {
			return nil, err
		}
		return reply(s.viewItem(ctx, i, in.Include))
	})
	add(s, "why_item", func(ctx context.Context, in *struct {
		ID string `path:"id" doc:"The id of an item or of a task."`
	}) (*answer[pawl.Why], error) {
		return reply(s.svc.Why(ctx, in.ID))
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

// claim first tries once without waiting, so a claim that finds work is not cut short.
// Otherwise it waits, but not past the server's stop. It also waits if the first try failed
// because the database was unavailable.
func (s *server) claim(ctx context.Context, svc pawl.Service, in *body[pawl.ClaimRequest]) (*answer[api.Leases], error) {
	var next time.Time
	ctx = pawl.WithNextAt(ctx, &next)
	first := in.Body
	waits := first.WaitSeconds > 0 && first.WaitSeconds <= pawl.MaxWaitSeconds
	if waits {
		first.WaitSeconds = 0
	}
	keyed := callOf(ctx).keyed != nil
	if keyed && callOf(ctx).long.end != nil { // it has waited, and holds no transaction yet
		if why := s.gate.CheckAgain(ctx, access.Of(ctx)); why != nil {
			return nil, why
		}
	}
	leases, err := svc.Claim(ctx, first)
	if err != nil && !errors.Is(err, pawl.ErrUnavailable) || len(leases) > 0 || !waits {
		return s.claimed(ctx, leases, next, err)
	}
	if s.opts.Stopping.Err() != nil {
		return nil, errStopping
	}
	if keyed { // the wait happens outside the transaction of the key
		if err := s.waitKeyed(&callOf(ctx).long); err != nil {
			return nil, err
		}
		leases, err := svc.Claim(ctx, in.Body)
		return s.claimed(ctx, leases, next, err)
	}
	callOf(ctx).rest = func(w http.ResponseWriter, r *http.Request) {
		leases, err := s.await(ctx, svc, &in.Body)
		out, err := s.claimed(ctx, leases, next, err)
		if err != nil {
			s.write(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = encode(w, out.Body) // the caller may have gone
	}
	return &answer[api.Leases]{}, nil
}

// claimed answers with leases. It releases them if the caller has gone; those of a call under a key are
// not committed yet, or its caller may ask again.
func (s *server) claimed(ctx context.Context, leases []pawl.Lease, next time.Time, err error) (*answer[api.Leases], error) {
	if err != nil {
		return nil, err
	}
	if len(leases) > 0 && ctx.Err() != nil && callOf(ctx).keyed == nil {
		s.giveBack(ctx, leases)
	}
	if len(leases) == 0 {
		leases = []pawl.Lease{}
		callOf(ctx).nothing = true
	}
	out := api.Leases{Items: leases}
	if !next.IsZero() {
		out.NextAt = &next
	}
	return &answer[api.Leases]{out}, nil
}

// await claims and waits for work; it returns no leases if the server stops meanwhile. It is a
// function of its own so that each waiting caller keeps only this small stack frame.
func (s *server) await(ctx context.Context, svc pawl.Service, req *pawl.ClaimRequest) ([]pawl.Lease, error) {
	waiting, end, err := s.longCall(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	leases, err := svc.Claim(waiting, *req)
	return s.waited(ctx, waiting, leases, err)
}

// longCall returns a context that ends when the server stops or when the caller's key ends.
func (s *server) longCall(ctx context.Context) (context.Context, func(), error) {
	waiting, end := s.served(ctx)
	waiting, over, err := s.gate.BeginLongCall(waiting)
	if err != nil {
		end()
		return nil, nil, err
	}
	return waiting, func() { over(); end() }, nil
}

// waited turns the outcome of a waiting claim into its answer. A caller whose key was revoked
// meanwhile gets no leases: they are released.
func (s *server) waited(ctx, waiting context.Context, leases []pawl.Lease, err error) ([]pawl.Lease, error) {
	why := access.Ended(waiting)
	if len(leases) > 0 && why == nil {
		why = s.gate.CheckAgain(waiting, access.Of(ctx))
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

// served returns a context that ends when the server stops.
func (s *server) served(ctx context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(s.opts.Stopping, cancel)
	return ctx, func() {
		unhook()
		cancel()
	}
}

// giveBack releases the leases of a caller that has gone. It would never learn of them, and
// their items would stay leased until the leases expire.
func (s *server) giveBack(ctx context.Context, leases []pawl.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	calls := make([]pawl.ReleaseCall, len(leases))
	for i, l := range leases {
		calls[i].Fence = l.Fence()
	}
	if _, err := s.svc.Release(ctx, calls); err != nil {
		s.problem(ctx, err) // this logs the error; the leases expire by themselves
	}
}
