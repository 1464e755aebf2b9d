package engine_test

import (
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// A list of keys has each of them once, also those of one name that began at one time in several scopes.
func TestAListOfKeysHasAllScopes(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		scopes := map[string]bool{}
		for _, scope := range []string{"a.b", "b", "c"} { // the clock of the test stands still
			need[pawl.KeyBegun](t)(first(p.Engine.BeginKeys(t.Context(), []pawl.KeyBegin{{Scope: scope, Key: "k", RequestHash: "h"}})))
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
