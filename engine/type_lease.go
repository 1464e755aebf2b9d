package engine

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// leasesOf sets the lease seconds of items of types, for claims that name none. If all claims of the group name one, it reads
// nothing.
func (e *Engine) leasesOf(ctx context.Context, cl *store.Claim, group []claimCall, types iter.Seq[string]) error {
	if !slices.ContainsFunc(group, func(c claimCall) bool { return c.who.LeaseSeconds == 0 }) {
		return nil
	}
	newest, err := e.registry(ctx)
	if err != nil {
		return err
	}
	cl.Leases = map[string]int{}
	for name := range types {
		if cl.Leases[name] > 0 {
			continue
		}
		typ := store.TypeName{Namespace: group[0].namespace, Name: typeOfQueue(name)}
		if cl.Leases[name], err = e.leaseOf(ctx, newest, typ, name); err != nil {
			return err
		}
		if newest.Leases[typ] {
			cl.Mixed = append(cl.Mixed, name)
		}
	}
	return nil
}

// typeOfQueue returns the type that has the rules of the items of a queue: that of a plan or apply item's task.
func typeOfQueue(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, pawl.PlanSuffix), pawl.ApplySuffix)
}

// leaseOf returns the lease seconds of the newest version. A removed type has its last one.
func (e *Engine) leaseOf(ctx context.Context, newest registered, typ store.TypeName, queue string) (int, error) {
	version := cmp.Or(newest.Live[typ], newest.Removed[typ])
	if version == 0 {
		return pawl.DefaultLeaseSeconds, nil
	}
	r, err := e.rulesAt(ctx, typ.Namespace, typ.Name, version)
	if err != nil {
		return 0, err
	}
	return r.leaseIn(queue), nil
}

// leaseIn returns the lease seconds of items of a queue.
func (r *typeRules) leaseIn(queue string) int {
	own := 0
	if strings.HasSuffix(queue, pawl.PlanSuffix) {
		own = r.Plan.LeaseSeconds
	} else if strings.HasSuffix(queue, pawl.ApplySuffix) {
		own = r.Apply.LeaseSeconds
	}
	return cmp.Or(own, r.LeaseSeconds, pawl.DefaultLeaseSeconds)
}

// fitLeases gives the claimed items of tasks with an older version of their type the lease of that version.
func (e *Engine) fitLeases(ctx context.Context, tx store.Tx, cl *store.Claim, rows []store.Claimed) error {
	var fit []*store.Claimed
	var tasks []string
	for i := range rows {
		if r := &rows[i]; cl.Claimants[r.Claimant].LeaseSeconds == 0 && slices.Contains(cl.Mixed, r.Type) {
			fit, tasks = append(fit, r), append(tasks, r.TaskID)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	types, err := store.TypesOfTasks(ctx, tx, tasks)
	if err != nil {
		return err
	}
	by := map[int][]*store.Claimed{}
	for _, r := range fit {
		t := types[r.TaskID]
		if t.Version == 0 || t.Name != typeOfQueue(r.Type) { // no version of the item's type is its task's
			continue
		}
		of, err := e.rulesOf(ctx, tx, t.Namespace, t.Name, t.Version)
		if err != nil {
			return err
		}
		if s := of.leaseIn(r.Type); s != r.LeaseSeconds {
			by[s] = append(by[s], r)
		}
	}
	for _, s := range slices.Sorted(maps.Keys(by)) {
		if err := cl.Fit(ctx, tx, by[s], s); err != nil {
			return err
		}
	}
	return nil
}
