package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-work/pawl/store"
)

// Breach is one thing found that a rule forbids: see store.Rules.
type Breach = store.Breach

// Warning is something that breaks no rule and puts a promise at risk.
type Warning = store.Warning

// Warnings lists what puts a promise at risk: how the database is set up, and
// whether it went back in time. Nothing is changed.
func (e *Engine) Warnings(ctx context.Context) ([]Warning, error) { return store.Warnings(ctx, e.db) }

// breachesShown bounds the breaches of one rule in an answer.
const breachesShown = 20

// checkLimit is of one statement: it may read the whole database.
const checkLimit = time.Hour

// Check holds the database, all its namespaces, against the rules that always
// hold. Nothing is changed, and it can run beside everything else. Of each rule
// the first 20 breaches are answered and then how many there are in all; none is
// a clean bill.
func (e *Engine) Check(ctx context.Context) ([]Breach, error) {
	var out []Breach
	found := map[string]int{}
	err := store.Check(store.WithLimit(ctx, checkLimit), e.db, func(b Breach) {
		if found[b.Rule]++; found[b.Rule] <= breachesShown {
			out = append(out, b)
		}
	})
	for _, r := range store.Rules {
		if n := found[r.Name]; n > breachesShown {
			out = append(out, Breach{Rule: r.Name, Subject: fmt.Sprintf("%d more", n-breachesShown), Found: fmt.Sprintf("%d in all", n), Mend: r.Mend})
		}
	}
	return out, err
}
