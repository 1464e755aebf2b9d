package engine

import (
	"context"
	"fmt"

	"github.com/pawl-work/pawl/engine/internal/archives"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/relocate"
)

// Breach is a violation of an invariant; see store.Rules.
type Breach = store.Breach

// Warning is a condition that violates no invariant but puts a guarantee at risk, or slows work down.
type Warning = store.Warning

// Check checks the invariants in all namespaces of the database. It changes nothing, and
// other calls can run meanwhile. It returns the first 20 violations of each invariant and
// then the number of further ones. An empty list means that all invariants hold. A namespace that is being moved in, or
// out, is left out.
func (e *Engine) Check(ctx context.Context) ([]Breach, error) {
	var out []Breach
	found := map[string]int{}
	report := func(b Breach) {
		if found[b.Rule]++; found[b.Rule] <= kernel.BreachesShown {
			out = append(out, b)
		}
	}
	ctx = forAll(store.WithLimit(ctx, kernel.CheckLimit))
	rules := doctorRules()
	db := relocate.Settled(e.db)
	err := store.Check(ctx, db, rules, report)
	if found["file"] == 0 {
		if err == nil {
			err = e.k.Blobs.Check(ctx, db, report)
		}
		if err == nil {
			err = archives.Of(e.archived).Check(ctx, db, report)
		}
		if err == nil {
			err = e.sweeper.Check(ctx, db, report)
		}
	}
	for _, r := range rules {
		if n := found[r.Name]; n > kernel.BreachesShown {
			out = append(out,
				Breach{Rule: r.Name, Subject: fmt.Sprintf("%d more", n-kernel.BreachesShown), Found: fmt.Sprintf("%d in all", n), Repair: r.Repair})
		}
	}
	return out, err
}

// doctorRules are the rules of the store and those of the rooms.
func doctorRules() []store.RuleSearch {
	return append(store.RuleSearches(), ofRooms(func(r kernel.Room) []store.RuleSearch { return r.Rules })...)
}

// Warnings lists the conditions that put a guarantee at risk or slow work down, in all
// namespaces: settings and state of the database, work that stands still. Nothing is changed.
func (e *Engine) Warnings(ctx context.Context) ([]Warning, error) {
	ctx = forAll(ctx)
	out, err := store.Warnings(ctx, e.db, ofRooms(func(r kernel.Room) []store.Look { return r.Warnings }))
	if err != nil {
		return out, err
	}
	if why := e.k.Guard.Why(); why != "" {
		out = append([]Warning{{Code: "quarantined", Detail: "nothing acts: " + why, Command: "pawl adopt"}}, out...)
	}
	if stale, err := e.unfinishedMove(ctx); err != nil {
		return out, err
	} else if stale != nil {
		out = append([]Warning{*stale}, out...)
	}
	for _, of := range e.k.Warnings {
		more, err := of(ctx)
		if err != nil {
			return out, err
		}
		out = append(more, out...)
	}
	return out, nil
}
