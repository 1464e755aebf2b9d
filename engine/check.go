package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/relocate"
)

// Breach is a violation of an invariant; see store.Rules.
type Breach = store.Breach

// Warning is a condition that violates no invariant but puts a guarantee at risk, or slows work down.
type Warning = store.Warning

// breachesShown is how many breaches of one rule an answer lists at most.
const breachesShown = 20

// checkLimit is the time limit of one statement, which may read the whole database.
const checkLimit = time.Hour

// Check checks the invariants in all namespaces of the database. It changes nothing, and
// other calls can run meanwhile. It returns the first 20 violations of each invariant and
// then the number of further ones. An empty list means that all invariants hold. A namespace that is being moved in, or
// out, is left out.
func (e *Engine) Check(ctx context.Context) ([]Breach, error) {
	var out []Breach
	found := map[string]int{}
	report := func(b Breach) {
		if found[b.Rule]++; found[b.Rule] <= breachesShown {
			out = append(out, b)
		}
	}
	ctx = forAll(store.WithLimit(ctx, checkLimit))
	rules := doctorRules()
	db := relocate.Settled(e.db)
	err := store.Check(ctx, db, rules, report)
	if found["file"] == 0 {
		if err == nil {
			err = e.k.Blobs.Check(ctx, db, report)
		}
		if err == nil {
			err = e.sweeper.Check(ctx, db, report)
		}
	}
	for _, r := range rules {
		if n := found[r.Name]; n > breachesShown {
			out = append(out,
				Breach{Rule: r.Name, Subject: fmt.Sprintf("%d more", n-breachesShown), Found: fmt.Sprintf("%d in all", n), Repair: r.Repair})
		}
	}
	return out, err
}

// doctorRules are the rules of the store and those of the rooms.
func doctorRules() []store.RuleSearch {
	return append(store.RuleSearches(), ofRooms(func(r kernel.Room) []store.RuleSearch { return r.Rules })...)
}
