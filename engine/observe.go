package engine

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// Observe tells an observer what the engine does from now on. Without one, nothing is measured.
// Of several engines that run on one database, each tells of what it did, so the sums over all
// of them are right.
func (e *Engine) Observe(o pawl.Observer) {
	for {
		was := e.observers.Load()
		var all []pawl.Observer
		if was != nil {
			all = slices.Clip(*was)
		}
		all = append(all, o)
		if e.observers.CompareAndSwap(was, &all) {
			return
		}
	}
}

// counted tells the observers of events that were counted.
func (e *core) counted(t *store.Tally) {
	observers := e.observers.Load()
	if observers == nil {
		return
	}
	for _, q := range t.Queues() {
		c := pawl.CountedEvents{Namespace: q.Namespace, Type: q.Type, Events: q.Events, Waits: q.Waits, Pickups: q.Pickups,
			Runs: q.Runs, Leases: q.Leases}
		for _, o := range *observers {
			o.Counted(c)
		}
	}
}

// committed tells the observers of calls that were committed together.
func (e *core) committed(verb string, calls int) {
	if observers := e.observers.Load(); observers != nil {
		for _, o := range *observers {
			o.Committed(verb, calls)
		}
	}
}

// swept tells the observers of a pass of the sweep.
func (e *core) swept(s pawl.SweepStats) {
	if observers := e.observers.Load(); observers != nil {
		for _, o := range *observers {
			o.Swept(s)
		}
	}
}

// Pools returns the state of each pool of connections to the database.
func (e *Engine) Pools() []pawl.Pool { return e.db.Dialect().Pools() }

// began returns when a call begins; zero without observers.
func (e *core) began() time.Time {
	if e.observers.Load() == nil {
		return time.Time{}
	}
	return clock.Now()
}

// took tells the observers of a call that has ended. leases are what a claim returned.
func (e *core) took(ctx context.Context, verb string, began time.Time, leases []pawl.Lease) {
	observers := e.observers.Load()
	if observers == nil || began.IsZero() {
		return
	}
	took := clock.Now().Sub(began)
	var types []string
	for i := range leases {
		if typ := leases[i].Type; !slices.Contains(types, typ) {
			types = append(types, typ)
		}
	}
	for _, o := range *observers {
		o.Took(verb, pawl.CallerOf(ctx).Namespace, types, took)
	}
}
