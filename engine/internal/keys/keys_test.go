package keys_test

import (
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// A list of keys has each of them once, also those of one name that began at one time in several scopes.
func TestAListOfKeysHasAllScopes(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		scopes := map[string]bool{}
		for _, scope := range []string{"a.b", "b", "c"} { // the clock of the test stands still
			need[pawl.KeyBegun](t)(pawltest.First(p.Engine.BeginKeys(t.Context(), []pawl.KeyBegin{{Scope: scope, Key: "k", RequestHash: "h"}})))
			scopes[scope] = true
		}
		f := pawl.KeyFilter{Page: pawl.Page{Limit: 1}}
		for {
			list := need[pawl.List[pawl.Key]](t)(p.Engine.ListKeys(t.Context(), f))
			for _, k := range list.Items {
				if !scopes[k.Scope] {
					t.Errorf("%s is there twice", k.Scope)
				}
				delete(scopes, k.Scope)
			}
			if f.Cursor = list.Next; f.Cursor == "" {
				break
			}
		}
		if len(scopes) > 0 {
			t.Errorf("the list leaves out %v", scopes)
		}
	})
}

// A key goes when it expires, or with the age of keys after its run has ended. One without expiry whose run never ended stays.
func TestKeysGoWhenTheirTimeIsUp(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, day := t.Context(), 24*time.Hour
		begin := func(key string, ttl int64, end bool) {
			k := pawl.KeyBegin{Scope: "s", Key: key, RequestHash: "h", TTLSeconds: ttl}
			begun := need[pawl.KeyBegun](t)(pawltest.First(p.Engine.BeginKeys(ctx, []pawl.KeyBegin{k})))
			if done := (pawl.KeyDone{Scope: "s", Key: key, Token: begun.Token, Response: []byte(`1`)}); end {
				need[pawl.Key](t)(pawltest.First(p.Engine.CompleteKeys(ctx, []pawl.KeyDone{done})))
			}
		}
		begin("day", 0, true)
		begin("month", 30*86400, true)
		begin("for ever", -1, true)
		begin("for ever, pending", -1, false)
		for _, after := range []struct {
			wait time.Duration
			gone int64
		}{{day - time.Second, 0}, {time.Second, 1}, {6*day - time.Second, 0}, {time.Second, 1}, {60 * day, 1}} {
			p.Advance(after.wait)
			if n := need[pawl.Prunable](t)(p.Engine.Prunable(ctx)).Keys; n != after.gone {
				t.Errorf("another %s: %d would go, want %d", after.wait, n, after.gone)
			}
			if n := need[pawl.SweepStats](t)(p.Engine.Sweep(ctx)).KeysPruned; n != after.gone {
				t.Errorf("another %s: %d went, want %d", after.wait, n, after.gone)
			}
		}
		list := need[pawl.List[pawl.Key]](t)(p.Engine.ListKeys(ctx, pawl.KeyFilter{}))
		if len(list.Items) != 1 || list.Items[0].Status != pawl.KeyPending {
			t.Errorf("left are %+v", list.Items)
		}
	})
}
