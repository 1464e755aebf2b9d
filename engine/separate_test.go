package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// An approver is compared with the requester and the workers of a task by name, by
// API key and, for agents without a key, as agents.
func TestSeparationOfDuties(t *testing.T) {
	const manual = `{"name":"report","approval":{"mode":"manual"}}`
	key := func(id, name string) pawl.Caller {
		return pawl.Caller{Key: id, ActorType: pawl.ActorAPI, ActorID: name}
	}
	user := func(name string) pawl.Caller { return pawl.Caller{ActorType: pawl.ActorUser, ActorID: name} }
	agent := func(name string) pawl.Caller { return pawl.Caller{ActorType: pawl.ActorAgent, ActorID: name} }
	unnamed := pawl.Caller{}
	for _, c := range []struct {
		name, def                  string
		creator, claimer, approver pawl.Caller
		requestedBy                string
		worker                     string
		refused                    bool
	}{
		{"one key claims and approves", manual, unnamed, pawl.Caller{Key: "k1"}, key("k1", "ana"), "", "w", true},
		{"one key asks and approves", manual, key("k1", "app"), unnamed, pawl.Caller{Key: "k1", ActorType: pawl.ActorUser, ActorID: "ana"}, "",
			"w", true},
		{"two keys", manual, key("k1", "app"), pawl.Caller{Key: "k2"}, key("k3", "ana"), "", "w", false},
		{"two keys of one actor", manual, key("k1", "ana"), unnamed, key("k2", "ana"), "", "w", true},
		{"the requester that an application names", manual, key("k1", "app"), unnamed, user("ana"), "ana", "w", true},
		{"the worker by its name", manual, unnamed, unnamed, user("w"), "", "w", true},
		{"an actor that claimed for a worker", manual, unnamed, user("ana"), user("ana"), "", "w", true},
		{"another user", manual, user("ben"), user("cid"), user("ana"), "dan", "w", false},
		{"no caller has a name", manual, unnamed, unnamed, unnamed, "", "w", false},
		{"an agent that takes another name", manual, unnamed, agent("w"), agent("reviewer"), "", "w", true},
		{"an agent that asked", manual, agent("planner"), unnamed, agent("reviewer"), "", "w", true},
		{"an agent after a user", manual, user("ben"), unnamed, agent("reviewer"), "", "w", false},
		{"a user after an agent", manual, agent("planner"), agent("w"), user("ana"), "", "w", false},
		{"switched off", `{"name":"report","approval":{"mode":"manual","not_by_requester":false,"not_by_worker":false}}`,
			key("k1", "ana"), key("k1", "ana"), key("k1", "ana"), "ana", "ana", false},
		{"only the requester is kept off", `{"name":"report","approval":{"mode":"manual","not_by_worker":false}}`,
			user("ben"), user("ana"), user("ana"), "", "ana", false},
		{"asked for in a type of mode auto", `{"name":"report","approval":{"mode":"auto","when":false,"not_by_requester":true}}`,
			unnamed, key("k1", "ana"), key("k1", "ana"), "", "w", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			withType(t, c.def, pawl.Hooks{}, func(o typeFixture) {
				nt := pawl.NewTask{Type: "report"}
				if c.requestedBy != "" {
					nt.RequestedBy = &pawl.Requester{Type: pawl.ActorUser, ID: c.requestedBy}
				}
				task := need[pawl.Task](t)(pawl.Create(pawl.As(o.Context(), c.creator), o.Engine, nt))
				ctx := pawl.As(o.Context(), c.claimer)
				ls := need[[]pawl.Lease](t)(o.Engine.Claim(ctx, pawl.ClaimRequest{WorkerID: c.worker, TaskID: task.ID}))
				_, err := pawltest.First(o.Engine.Submit(ctx, []pawl.SubmitCall{{Fence: ls[0].Fence(), Result: []byte("1")}}))
				o.OK(err)
				_, err = pawltest.First(o.Engine.ApproveTasks(pawl.As(o.Context(), c.approver), []pawl.ApproveCall{{TaskID: task.ID}}))
				if errors.Is(err, pawl.ErrForbidden) != c.refused || !c.refused && err != nil {
					t.Errorf("refused: %v (%v), want %v", errors.Is(err, pawl.ErrForbidden), err, c.refused)
				}
			})
		})
	}
}

// An actor that replaced the payload of a task has asked for what is approved. One that changed its title has not.
func TestWhoReplacedThePayloadMayNotApprove(t *testing.T) {
	user := func(name string) pawl.Caller { return pawl.Caller{ActorType: pawl.ActorUser, ActorID: name} }
	for name, with := range map[string]pawl.NewTask{
		"replace":  {Unique: &pawl.Unique{By: pawl.UniqueByKey, Key: "k", OnConflict: pawl.OnConflictReplace}},
		"debounce": {Debounce: &pawl.Debounce{Key: "k", Seconds: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			withType(t, `{"name":"report","approval":{"mode":"manual"}}`, pawl.Hooks{}, func(o typeFixture) {
				var task pawl.Task
				for payload, who := range []string{"ana", "ben"} {
					with.Type, with.Payload = "report", fmt.Append(nil, payload)
					task = need[pawl.Task](t)(pawl.Create(pawl.As(o.Context(), user(who)), o.Engine, with))
				}
				title := "t"
				_, err := pawltest.First(o.Engine.UpdateTasks(pawl.As(o.Context(), user("cid")), []pawl.TaskUpdate{{TaskID: task.ID, Title: &title}}))
				o.OK(err)
				o.Advance(time.Minute)
				need[pawl.SweepStats](t)(o.Engine.Sweep(o.Context()))
				o.submit(leases(t, o.Engine, pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID}, 1)[0], "1")
				for _, who := range []string{"ana", "ben"} {
					_, err := pawltest.First(o.Engine.ApproveTasks(pawl.As(o.Context(), user(who)), []pawl.ApproveCall{{TaskID: task.ID}}))
					if !errors.Is(err, pawl.ErrForbidden) {
						t.Errorf("%s: %v", who, err)
					}
				}
				_, err = pawltest.First(o.Engine.ApproveTasks(pawl.As(o.Context(), user("cid")), []pawl.ApproveCall{{TaskID: task.ID}}))
				o.OK(err)
			})
		})
	}
}

// An actor that claimed an item of a task has worked on it, even if another one claimed
// it later.
func TestEveryWorkerOfATaskIsKeptFromApproving(t *testing.T) {
	withType(t, `{"name":"report","approval":{"mode":"manual"}}`, pawl.Hooks{}, func(o typeFixture) {
		first := pawl.As(o.Context(), pawl.Caller{Key: "k1"})
		task := need[pawl.Task](o.T)(pawl.Create(o.Context(), o.Engine, pawl.NewTask{Type: "report"}))
		ls := need[[]pawl.Lease](o.T)(o.Engine.Claim(first, pawl.ClaimRequest{WorkerID: "ana", TaskID: task.ID}))
		_, err := pawltest.First(o.Engine.Release(first, []pawl.ReleaseCall{{Fence: ls[0].Fence()}}))
		o.OK(err)
		ls = leases(o.T, o.Engine, pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID}, 1)
		o.submit(ls[0], "1")
		for _, c := range []pawl.Caller{{Key: "k1", ActorType: pawl.ActorAPI, ActorID: "x"}, {ActorType: pawl.ActorUser, ActorID: "ana"},
			{ActorType: pawl.ActorUser, ActorID: "w"}} {
			if _, err := pawltest.First(o.Engine.ApproveTasks(pawl.As(o.Context(), c), []pawl.ApproveCall{{TaskID: task.ID}})); !errors.Is(err,
				pawl.ErrForbidden) {
				o.Errorf("%+v: %v", c, err)
			}
		}
	})
}

// Each event of a call with an API key names the key, whichever statement wrote it.
// Without a key, no event names one.
func TestEventsNameTheirKey(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		for _, key := range []string{"", "key_1"} {
			ctx := pawl.As(t.Context(), pawl.Caller{Key: key})
			many := need[pawl.Task](t)(pawl.Create(ctx, p.Service, pawl.NewTask{Type: "a", Items: make([]pawl.NewItem, 4)}))
			ls := need[[]pawl.Lease](t)(p.Service.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", TaskID: many.ID, Limit: 4}))
			stage := "half"
			for _, call := range []func() error{
				func() error { return errOf(p.Service.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: ls[0].Fence()}})) },
				func() error {
					return errOf(p.Service.Progress(ctx, []pawl.ProgressCall{{Fence: ls[1].Fence(), Stage: &stage}}))
				},
				func() error {
					return errOf(p.Service.Checkpoint(ctx, []pawl.CheckpointCall{{Fence: ls[2].Fence(),
						NewCheckpoint: pawl.NewCheckpoint{Type: pawl.ManualCheckpoint, Snapshot: []byte("1")}}}))
				},
				func() error { return errOf(p.Service.Complete(ctx, []pawl.CompleteCall{{Fence: ls[0].Fence()}})) },
				func() error {
					return errOf(p.Service.Fail(ctx, []pawl.FailCall{{Fence: ls[1].Fence(), Error: pawl.Failure{Message: "no"}}}))
				},
				func() error { return errOf(p.Service.Release(ctx, []pawl.ReleaseCall{{Fence: ls[2].Fence()}})) },
				func() error { return errOf(p.Service.RevokeLeases(ctx, []pawl.RevokeCall{{ItemID: ls[3].ID}})) },
				func() error { return errOf(p.Service.CancelTasks(ctx, []pawl.TaskCall{{TaskID: many.ID}})) },
			} {
				p.OK(call())
			}
			solo := need[pawl.Task](t)(pawl.Create(ctx, p.Service, pawl.NewTask{Type: "a"}))
			var seen []string
			for _, id := range []string{many.ID, solo.ID} {
				events := need[pawl.List[pawl.Event]](t)(p.Service.ListEvents(ctx, pawl.EventFilter{TaskID: id}))
				for _, e := range events.Items {
					seen = append(seen, e.Event)
					if e.KeyID != key && e.ActorType != pawl.ActorSystem {
						t.Errorf("%s: key %q, want %q", e.Event, e.KeyID, key)
					}
				}
			}
			for _, name := range []string{"proposed", "planned", "leased", "in_progress", "progressed", "checkpointed", "completed", "failed",
				"released", "lease_revoked", "cancelled"} {
				if !slices.Contains(seen, name) {
					t.Errorf("no event %s", name)
				}
			}
		}
	})
}
