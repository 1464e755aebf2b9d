package engine_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// Revoking, completing, heartbeats and cancelling meet at the same moment, and the first
// of them takes the lease. Each item has one end, and its events say which.
func TestRevokingRaces(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		const n = 24
		ctx, s := t.Context(), p.Service
		task := need[pawl.Task](t)(pawl.Create(ctx, s, pawl.NewTask{Type: "a", Items: make([]pawl.NewItem, n)}))
		ls := leases(t, s, pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID, Limit: n}, n)
		var wg sync.WaitGroup
		completed, revoked := make([]error, n), make([]error, n)
		for i := range ls {
			wg.Go(func() { _, revoked[i] = first(s.RevokeLeases(ctx, []pawl.RevokeCall{{ItemID: ls[i].ID}})) })
			wg.Go(func() { _, completed[i] = first(s.Complete(ctx, []pawl.CompleteCall{{Fence: ls[i].Fence()}})) })
			wg.Go(func() { _, _ = first(s.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: ls[i].Fence()}})) })
			if i%4 == 0 {
				wg.Go(func() {
					_, _ = first(s.CancelTasks(ctx, []pawl.TaskCall{{TaskID: task.ID, ItemIDs: []string{ls[i].ID}}}))
				})
			}
		}
		wg.Wait()
		for i := range ls {
			if completed[i] == nil && revoked[i] == nil {
				t.Errorf("item %d was completed and its lease revoked", i)
			}
			it := need[pawl.Item](t)(s.GetItem(ctx, ls[i].ID))
			events := need[pawl.List[pawl.Event]](t)(s.ListEvents(ctx, pawl.EventFilter{ItemID: it.ID, Asc: true}))
			last := events.Items[len(events.Items)-1]
			if last.ToState != string(it.State) {
				t.Errorf("item %d is %s; its record ends with %s", i, it.State, last.ToState)
			}
			if has := slices.ContainsFunc(events.Items, func(e pawl.Event) bool { return e.Event == "lease_revoked" }); has != (revoked[i] == nil) {
				t.Errorf("item %d: revoked %v, on record %v", i, revoked[i], has)
			}
		}
		if breaches := need[[]engine.Breach](t)(p.Engine.Check(ctx)); len(breaches) > 0 {
			t.Errorf("breaches: %+v", breaches)
		}
	})
}

// Revoking a key ends its leases and their task tokens, at once and for good. A lease
// that is still claimed with the key is ended without a sweep, or by the sweep if its
// server is gone.
func TestARevokedKeyHoldsNothing(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, s := t.Context(), p.Service
		key, _, err := p.Engine.CreateAPIKey(ctx, pawl.NewAPIKey{Name: "w", Roles: []string{"claimer"}})
		if err != nil {
			t.Fatal(err)
		}
		theirs := pawl.As(ctx, pawl.Caller{Key: key.ID})
		task := need[pawl.Task](t)(pawl.Create(ctx, s, pawl.NewTask{Type: "a", Items: make([]pawl.NewItem, 3)}))
		mine := leases(t, s, pawl.ClaimRequest{WorkerID: "other", TaskID: task.ID}, 1)
		ls := need[[]pawl.Lease](t)(s.Claim(theirs, pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID, LeaseSeconds: pawl.MaxLeaseSeconds}))
		if _, err := p.Engine.RevokeAPIKey(ctx, key.ID); err != nil {
			t.Fatal(err)
		}
		late := need[[]pawl.Lease](t)(s.Claim(theirs, pawl.ClaimRequest{WorkerID: "w", ItemID: ls[0].ID}))
		if len(late) != 1 || late[0].Attempt != 2 {
			t.Fatalf("its item was not queued: %+v", late)
		}
		if _, err := s.CheckToken(ctx, ls[0].Token); !errors.Is(err, pawl.ErrLeaseLost) {
			t.Errorf("its task token: %v", err)
		}
		again := func(sweeps bool) {
			t.Helper()
			ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
			defer cancel()
			for {
				if sweeps {
					need[pawl.SweepStats](t)(s.Sweep(ctx))
				}
				it, err := s.GetItem(ctx, ls[0].ID)
				if err != nil {
					t.Fatalf("a lease claimed with a revoked key (sweeps %v): %v", sweeps, err)
				}
				if it.State == pawl.ItemQueued && it.Failures == 0 {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
		again(false) // the server that made the claim checks the key again
		_, _, err = p.Another(engine.Options{}).
			Idempotent(theirs, pawl.KeyBegin{Key: "k", RequestHash: "h"}, func(ctx context.Context, svc pawl.Service) (*pawl.Answer, error) {
				_, err := svc.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", ItemID: ls[0].ID})
				return &pawl.Answer{Code: 200}, err
			})
		if err != nil {
			t.Fatal(err)
		}
		again(false) // also if that was under an idempotency key
		closed := p.Another(engine.Options{})
		need[[]pawl.Lease](t)(closed.Claim(theirs, pawl.ClaimRequest{WorkerID: "w", ItemID: ls[0].ID}))
		if err := closed.Close(); err != nil { // before it could check
			t.Fatal(err)
		}
		again(true)
		if it := need[pawl.Item](t)(s.GetItem(ctx, mine[0].ID)); it.State != pawl.ItemLeased {
			t.Errorf("another's lease is %s", it.State)
		}
	})
}

// The leases of a key that expires end with it, and their task tokens: at once by FindToken, and by the sweep that
// is due at that time. A lease of another key stays.
func TestAnExpiredKeyHoldsNothing(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, s := t.Context(), p.Service
		task := need[pawl.Task](t)(pawl.Create(ctx, s, pawl.NewTask{Type: "a", Items: make([]pawl.NewItem, 2)}))
		var ls []pawl.Lease
		for _, expires := range []time.Duration{time.Hour, 3 * time.Hour} {
			key, _, err := p.Engine.CreateAPIKey(ctx, pawl.NewAPIKey{Name: "w", Roles: []string{"claimer"}, Expires: expires})
			if err != nil {
				t.Fatal(err)
			}
			closed := p.Another(engine.Options{}) // it does not look at the key again
			theirs := pawl.As(ctx, pawl.Caller{Key: key.ID})
			ls = append(ls, need[[]pawl.Lease](t)(closed.Claim(theirs,
				pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID, LeaseSeconds: 4 * 3600}))...)
			if err := closed.Close(); err != nil {
				t.Fatal(err)
			}
		}
		p.Advance(59 * time.Minute)
		for _, l := range ls {
			need[pawl.TaskToken](t)(p.Engine.FindToken(ctx, l.Token))
		}
		if at := need[pawl.Ticked](t)(p.Engine.Tick(ctx)).NextAt; at == nil || at.Sub(p.Now()) > time.Minute {
			t.Errorf("at %s the next sweep is due at %v", p.Now(), at)
		}
		p.Advance(time.Minute)
		if _, err := p.Engine.FindToken(ctx, ls[0].Token); !errors.Is(err, pawl.ErrLeaseLost) {
			t.Errorf("the token of a lease of an expired key: %v", err)
		}
		need[pawl.TaskToken](t)(p.Engine.FindToken(ctx, ls[1].Token))
		need[pawl.SweepStats](t)(s.Sweep(ctx))
		for i, want := range []pawl.ItemState{pawl.ItemQueued, pawl.ItemLeased} {
			if it := need[pawl.Item](t)(s.GetItem(ctx, ls[i].ID)); it.State != want || it.Failures != 0 {
				t.Errorf("item %d is %s with %d failures, want %s", i, it.State, it.Failures, want)
			}
		}
		if _, err := first(s.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: ls[0].Fence()}})); !errors.Is(err, pawl.ErrLeaseLost) {
			t.Errorf("a heartbeat: %v", err)
		}
		events := need[pawl.List[pawl.Event]](t)(s.ListEvents(ctx, pawl.EventFilter{TaskID: task.ID, Event: "lease_revoked"}))
		if len(events.Items) != 1 || events.Items[0].ItemID != ls[0].ID {
			t.Errorf("events lease_revoked: %+v", events.Items)
		}
	})
}
