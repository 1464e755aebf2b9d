package tasktypes

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

// Leases sets the lease seconds of items of queues of a claim's namespace, for claimants that name none.
func (r *Registry) Leases(ctx context.Context, cl *store.Claim, queues iter.Seq[string]) error {
	all, err := r.names(ctx)
	if err != nil {
		return err
	}
	cl.Leases = map[string]int{}
	for name := range queues {
		if cl.Leases[name] > 0 {
			continue
		}
		typ := typeName{cl.Namespace, typeOfQueue(name)}
		if cl.Leases[name], err = r.leaseOf(ctx, all, typ, name); err != nil {
			return err
		}
		if all.leases[typ] {
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
func (r *Registry) leaseOf(ctx context.Context, all registered, typ typeName, queue string) (int, error) {
	version := cmp.Or(all.live[typ], all.removed[typ])
	if version == 0 {
		return pawl.DefaultLeaseSeconds, nil
	}
	of, err := r.At(ctx, typ.namespace, typ.name, version)
	if err != nil {
		return 0, err
	}
	return of.leaseIn(queue), nil
}

// leaseIn returns the lease seconds of items of a queue.
func (r *Rules) leaseIn(queue string) int {
	own := 0
	if strings.HasSuffix(queue, pawl.PlanSuffix) {
		own = r.Plan.LeaseSeconds
	} else if strings.HasSuffix(queue, pawl.ApplySuffix) {
		own = r.Apply.LeaseSeconds
	}
	return cmp.Or(own, r.LeaseSeconds, pawl.DefaultLeaseSeconds)
}

// FitLeases gives the claimed items of tasks with an older version of their type the lease of that version.
func (r *Registry) FitLeases(ctx context.Context, tx store.Tx, cl *store.Claim, rows []store.Claimed) error {
	var mixed []*store.Claimed
	var tasks []string
	for i := range rows {
		if c := &rows[i]; cl.Claimants[c.Claimant].LeaseSeconds == 0 && slices.Contains(cl.Mixed, c.Type) {
			mixed, tasks = append(mixed, c), append(tasks, c.TaskID)
		}
	}
	if len(mixed) == 0 {
		return nil
	}
	types, err := store.TypesOfTasks(ctx, tx, tasks)
	if err != nil {
		return err
	}
	by := map[int][]*store.Claimed{}
	for _, c := range mixed {
		t := types[c.TaskID]
		if t.Version == 0 || t.Name != typeOfQueue(c.Type) { // no version of the item's type is its task's
			continue
		}
		of, err := r.In(ctx, tx, t.Namespace, t.Name, t.Version)
		if err != nil {
			return err
		}
		if s := of.leaseIn(c.Type); s != c.LeaseSeconds {
			by[s] = append(by[s], c)
		}
	}
	for _, s := range slices.Sorted(maps.Keys(by)) {
		if err := fit(ctx, tx, by[s], s); err != nil {
			return err
		}
	}
	return nil
}

// fit gives claimed items of this transaction another lease than that of their queue.
func fit(ctx context.Context, tx store.Tx, rows []*store.Claimed, seconds int) error {
	ids, of := make([]string, len(rows)), map[string]*store.Claimed{}
	for i, c := range rows {
		ids[i], of[c.ItemID] = c.ItemID, c
	}
	return store.EachRow(ctx, tx, func(rows store.Rows) error {
		var id string
		var expires int64
		err := rows.Scan((*store.ItemID)(&id), &expires)
		if err == nil {
			of[id].LeaseSeconds, of[id].LeaseExpiresAt = seconds, expires
		}
		return err
	}, texts["fit leases"], store.ItemList(ids), seconds, 1_000_000)
}
