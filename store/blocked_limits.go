package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
)

// limitReasons says which limit keeps each of some queued items from being
// claimed now. Items that may be claimed are not in the answer. types has the types of the items.
func limitReasons(ctx context.Context, tx Tx, queues []LimitedQueue, types map[string]string, now int64) (map[string]*pawl.Blocked, error) {
	out := map[string]*pawl.Blocked{}
	for i := range queues {
		var ids []string
		for id, typ := range types {
			if typ == queues[i].Type {
				ids = append(ids, id)
			}
		}
		if len(ids) == 0 {
			continue
		}
		q, err := queueReason(ctx, tx, &queues[i], now)
		if err != nil {
			return nil, err
		}
		if q != nil {
			for _, id := range ids {
				out[id] = q
			}
			continue
		}
		if err := keyReasons(ctx, tx, &queues[i], ids, now, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// limitsOfTasks says which limit keeps each of some tasks with queued items from being worked
// on. types has the types of their queued items. Of a task of many items, only the limits of
// whole queues count.
func limitsOfTasks(ctx context.Context, tx Tx, queues []LimitedQueue, tasks []pawl.Task, types map[string][]string,
	now int64) (map[string]*pawl.Blocked, error) {
	if len(queues) == 0 {
		return nil, nil
	}
	full, only, out := map[string]*pawl.Blocked{}, map[string]string{}, map[string]*pawl.Blocked{}
	for i := range queues {
		b, err := queueReason(ctx, tx, &queues[i], now)
		if err != nil {
			return nil, err
		}
		if b != nil {
			full[queues[i].Type] = b
		}
	}
	items, err := onlyItems(ctx, tx, tasks)
	if err != nil {
		return nil, err
	}
	for _, t := range tasks {
		mine := types[t.ID]
		switch {
		case t.Items == 1 && len(mine) == 1:
			only[items[t.ID]] = mine[0]
		case len(mine) > 0 && !slices.ContainsFunc(mine, func(typ string) bool { return full[typ] == nil }):
			out[t.ID] = full[mine[0]]
		}
	}
	reasons, err := limitReasons(ctx, tx, queues, only, now)
	for _, t := range tasks {
		if b := reasons[items[t.ID]]; b != nil {
			out[t.ID] = b
		}
	}
	return out, err
}

// onlyItems returns the item of each task that has one.
func onlyItems(ctx context.Context, tx Tx, tasks []pawl.Task) (map[string]string, error) {
	out, ids := map[string]string{}, []string(nil)
	for _, t := range tasks {
		if t.Items == 1 {
			ids = append(ids, t.ID)
			out[t.ID] = itemPrefix + strings.TrimPrefix(t.ID, taskPrefix) // of a task of one row
		}
	}
	err := EachRow(ctx, tx, func(rows Rows) error {
		var task, item string
		if err := rows.Scan((*TaskID)(&task), (*ItemID)(&item)); err != nil {
			return err
		}
		out[task] = item
		return nil
	}, limitsSQL["only items"], TaskList(ids))
	return out, err
}

// queueReason returns which limit keeps all items of a queue from being claimed now.
func queueReason(ctx context.Context, tx Tx, q *LimitedQueue, now int64) (*pawl.Blocked, error) {
	if most := q.Limits.Concurrency; most != nil {
		var leased int
		if _, err := Row(ctx, tx, []any{&leased}, limitsSQL["leased of queue"], q.ID); err != nil {
			return nil, err
		}
		if leased >= *most {
			return &pawl.Blocked{Reason: pawl.BlockedByConcurrency,
				Detail: fmt.Sprintf("queue %s: %d leased, the limit is %d", q.Type, leased, *most)}, nil
		}
	}
	row, _, err := readLimits(ctx, tx, q.ID, readOnly)
	if err != nil {
		return nil, err
	}
	return byRate(q.Limits.Rate, row.next, now, "queue "+q.Type), nil
}

func byRate(r *pawl.Rate, next, now int64, whose string) *pawl.Blocked {
	if r == nil || startsAt(r, next, now, 1) > 0 {
		return nil
	}
	from := startFrom(r, onTime(r, next, now))
	return &pawl.Blocked{Reason: pawl.BlockedByRate, Until: StampOf(&from),
		Detail: fmt.Sprintf("%s: %d starts in %d s", whose, r.Limit, r.Seconds)}
}

// keyReasons adds what the limits of their keys keep items from being claimed.
func keyReasons(ctx context.Context, tx Tx, q *LimitedQueue, ids []string, now int64, out map[string]*pawl.Blocked) error {
	k := q.Limits.PerKey
	if k == nil {
		return nil
	}
	gates, of, err := gatesOfItems(ctx, tx, k, ids)
	if err != nil || len(gates) == 0 {
		return err
	}
	if err := countLeased(ctx, tx, q.ID, slices.Collect(maps.Values(gates))); err != nil {
		return err
	}
	var held map[int64]string
	if k.Order == pawl.OrderCreated {
		if held, err = oldestHeld(ctx, tx, slices.Collect(maps.Keys(gates))); err != nil {
			return err
		}
	}
	for id, it := range of {
		it.older = it.older || held[it.id] != "" && held[it.id] < id
		if b := it.reason(k, now); b != nil {
			out[id] = b
		}
	}
	return nil
}

// gatedItem is a queued item with its gate.
type gatedItem struct {
	*gate
	older bool // the gate has an older item that is queued, in back-off or suspended
}

func gatesOfItems(ctx context.Context, tx Tx, k *pawl.KeyLimits, ids []string) (map[int64]*gate, map[string]gatedItem, error) {
	gates, of := map[int64]*gate{}, map[string]gatedItem{}
	err := EachRow(ctx, tx, func(rows Rows) error {
		var id string
		var older int
		g := &gate{}
		if err := rows.Scan((*ItemID)(&id), &g.id, &g.key, &g.next, &older); err != nil {
			return err
		}
		if gates[g.id] == nil {
			gates[g.id] = g
		}
		of[id] = gatedItem{gates[g.id], older == 1}
		return nil
	}, limitsSQL["gates of items"], ItemList(ids), Bit(k.Order == pawl.OrderCreated), k.Pointer)
	return gates, of, err
}

// reason says which limit of its key keeps the item from being claimed; nil = none does.
func (it *gatedItem) reason(k *pawl.KeyLimits, now int64) *pawl.Blocked {
	key := fmt.Sprintf("key %q", it.key)
	if k.Order == pawl.OrderCreated && (it.leased > 0 || it.older) {
		return &pawl.Blocked{Reason: pawl.BlockedByOrder, Detail: key + ": an item before it has not ended"}
	}
	if most := k.Concurrency; most != nil && it.leased >= *most {
		return &pawl.Blocked{Reason: pawl.BlockedByConcurrency, Detail: fmt.Sprintf("%s: %d leased, the limit is %d", key, it.leased, *most)}
	}
	return byRate(k.Rate, it.next, now, key)
}
