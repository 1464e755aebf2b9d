package engine_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// Calls that are about no namespace go on in the source and in the target of a namespace that moves, also of that which
// callers have who name none.
func TestCallsAboutNoNamespaceGoOnBesideAMove(t *testing.T) {
	eachMove(t, true, func(t *testing.T, from, to *pawltest.Pawl) {
		other := pawl.As(t.Context(), pawl.Caller{Namespace: "other"})
		leased, keys := map[*pawltest.Pawl]pawl.Lease{}, map[*pawltest.Pawl][]pawl.APIKeyUse{}
		for _, p := range []*pawltest.Pawl{from, to} {
			need[pawl.Task](t)(pawl.Create(other, p.Service, pawl.NewTask{Type: "others", Payload: json.RawMessage("1")}))
			claim := pawl.ClaimRequest{WorkerID: "other", Types: []string{"others"}, Limit: 1, LeaseSeconds: 3600}
			leased[p] = need[[]pawl.Lease](t)(p.Engine.Claim(other, claim))[0]
			for _, ns := range []string{"other", pawl.DefaultNamespace} {
				if ns == pawl.DefaultNamespace && p == to {
					continue // nothing of the namespace may be there
				}
				k, _, err := p.Engine.CreateAPIKey(t.Context(), pawl.NewAPIKey{Namespace: ns, Name: "k", Roles: []string{"reader"}})
				if err != nil {
					t.Fatal(err)
				}
				keys[p] = append(keys[p], pawl.APIKeyUse{ID: k.ID, Refusals: 1})
			}
			if _, ok, err := p.Engine.TakeRelay(t.Context(), "sink", "fake", "holder", time.Hour); err != nil || !ok {
				t.Fatal(ok, err)
			}
		}
		need[pawl.Task](t)(pawl.Create(t.Context(), from.Service, pawl.NewTask{Type: "moves"}))
		engines := map[*pawltest.Pawl]*engine.Engine{from: from.Another(engine.Options{}), to: to.Another(engine.Options{})}
		goOn := func(when string, p *pawltest.Pawl) {
			t.Helper()
			e, ctx := engines[p], t.Context()
			if err := e.LookForMoves(ctx); err != nil {
				t.Fatal(err)
			}
			for name, call := range map[string]func() error{
				"gauges":      func() error { _, err := e.Gauges(ctx); return err },
				"sweeps":      func() error { _, err := e.ListSweeps(ctx, pawl.Page{}); return err },
				"keys":        func() error { _, err := e.ListAPIKeys(ctx); return err },
				"relays":      func() error { _, err := e.ListRelays(ctx); return err },
				"blob stores": func() error { _, err := e.UnknownBlobStores(ctx); return err },
				"warnings":    func() error { _, err := e.Warnings(ctx); return err },
				"a token":     func() error { _, err := e.FindToken(ctx, leased[p].Token); return err },
				"use of keys": func() error { return e.UseAPIKeys(ctx, keys[p]) },
				"take relay": func() error {
					_, _, err := e.TakeRelay(ctx, "sink", "fake", "holder", time.Hour)
					return err
				},
				"keep relay": func() error {
					ok, err := e.KeepRelay(ctx, pawl.Relay{Sink: "sink", Kind: "fake", Holder: "holder"}, time.Hour)
					if err == nil && !ok {
						t.Errorf("%s: the relay is lost", when)
					}
					return err
				},
				"a new key": func() error {
					n := pawl.NewAPIKey{Namespace: "other", Name: when, Roles: []string{"reader"}}
					k, _, err := e.CreateAPIKey(ctx, n)
					if err == nil {
						_, err = e.RevokeAPIKey(ctx, k.ID)
					}
					return err
				},
			} {
				if err := call(); err != nil {
					t.Errorf("%s: %s: %v", when, name, err)
				}
			}
			list, _ := e.ListAPIKeys(ctx)
			for _, k := range list {
				if k.ID == keys[p][0].ID && k.LastUsedAt == nil {
					t.Errorf("%s: the use of a key is not recorded", when)
				}
			}
		}
		moveAll(t, from, to, engine.Move{Namespace: pawl.DefaultNamespace, Step: func(name string) {
			if name == "copied" || name == "flipped" {
				goOn("the source, "+name, from)
				goOn("the target, "+name, to)
			}
		}})
		goOn("the source", from)
		goOn("the target", to)
		if _, err := engines[from].GetTask(t.Context(), "tsk_00000000000000000000000000"); pawl.CodeOf(err) != pawl.CodeMoved {
			t.Errorf("a read of the namespace: %v", err)
		}
		disabled := pawl.Relay{Sink: "sink", Kind: "fake", Holder: "holder", DisabledAt: new(from.Now()), Error: "down"}
		if ok, err := engines[from].KeepRelay(t.Context(), disabled, time.Hour); err != nil || !ok {
			t.Errorf("a relay is disabled: %v, %v", ok, err)
		}
		_, _, err := engines[from].CreateAPIKey(other, pawl.NewAPIKey{Name: "late", Roles: []string{"reader"}})
		if pawl.CodeOf(err) != pawl.CodeMoved {
			t.Errorf("a key of the namespace: %v", err)
		}
	})
}
