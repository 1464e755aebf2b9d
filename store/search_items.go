package store

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
)

// searchItems adds the conditions of a filter on what is joined to items, and those that search,
// and the sets in which the items are found.
func (l *listing[T]) searchItems(ctx context.Context, tx Tx, namespace string, q *pawl.ItemFilter, now int64) error {
	if low, high, of := idRange(q.Search); of != "" {
		l.itemsOfIDs(low, high, of)
	} else if q.Search != "" {
		types, err := typesWith(ctx, tx, namespace, q.Search)
		if err != nil {
			return err
		}
		if len(q.Types) > 0 {
			types = slices.DeleteFunc(types, func(t string) bool { return !slices.Contains(q.Types, t) })
		}
		q.Types = append(types, "") // of no item
	}
	if len(q.Types) > 0 {
		l.own.And("i.type @among(?)", List(q.Types))
		l.queue = func(typ string) bool { return slices.Contains(q.Types, typ) }
	}
	if q.Failure != "" {
		typ, key, _ := pawl.ParseFailureName(q.Failure)
		l.own.And("i.type = ?", typ)
		l.own.And("EXISTS (SELECT 1 FROM pawl.parked_items f WHERE f.item_id = i.id AND f.failure = ?)", key)
		l.sets = append(l.sets, failureSource("item_id", key, typ))
	}
	if q.Error != "" {
		l.errors("item", q.Error)
	}
	states := l.placed(q, now)
	if q.TaskID != "" || len(q.IDs) > 0 {
		l.sets, l.indexed = nil, true // these conditions find fewer rows
		l.inStates(states)
	}
	if q.TaskID != "" && len(q.IDs) == 0 {
		l.whole = true
		l.sets = []candidates{{args: []any{TaskID(q.TaskID)}, sources: []source{from("id", "all_items", " AND task_id = $3")}}}
	} else if len(q.IDs) > 0 {
		return nil
	} else if len(l.sets) == 0 {
		few, err := fewTasks(ctx, tx, namespace)
		if err != nil || !few {
			return err
		}
		l.sets = []candidates{{sources: []source{itemsOfTasks}}}
	}
	return nil
}

// inStates adds the condition that an item has a row in the table of one of the states, so that
// the wide rows of others are not read. A scalar subquery is a look-up by the table's key for each
// item; EXISTS could read the whole table.
func (l *listing[T]) inStates(states []string) {
	var tables, places []string
	of := map[string][]string{} // numbers of states by table
	for _, s := range states {
		info := itemState(s)
		tables, of[info.Table] = append(tables, info.Table), append(of[info.Table], strconv.Itoa(info.Code))
	}
	slices.Sort(tables)
	for _, table := range slices.Compact(tables) {
		switch table {
		case "ready":
			for _, rank := range []string{"@new_rank", "@requeue_rank", "@lowered_rank"} {
				places = append(places, "(SELECT 1 FROM pawl.ready x WHERE x.queue_id = i.queue_id AND x.rank = "+rank+
					"(i.priority) AND x.item_id = i.id) = 1")
			}
		case "scheduled", "waiting":
			places = append(places, "(SELECT 1 FROM pawl."+table+" x WHERE x.item_id = i.id) = 1")
		default:
			places = append(places, "(SELECT x.state FROM pawl."+table+" x WHERE x.item_id = i.id) IN ("+strings.Join(of[table], ", ")+")")
		}
	}
	if len(places) > 0 {
		l.own.And("(" + strings.Join(places, " OR ") + ")")
	}
}

// placed adds the conditions on the places of items: their states, statuses and workers. It returns
// the states; none = any.
func (l *listing[T]) placed(q *pawl.ItemFilter, now int64) (states []string) {
	for _, s := range pawl.ItemStates {
		if s.Shown && s.Name != completed && q.Error != "" && s.Table != "finished_items" {
			states = append(states, s.Name) // only these have errors to search
		}
	}
	if len(q.States) > 0 {
		states = texts(q.States)
		l.derived.And("i.state @among(?)", List(states))
	}
	if len(q.Statuses) > 0 {
		states = l.derived.statuses(q.Statuses, now)
	}
	set := candidates{ordered: true}
	var cond string
	if len(q.Types) > 0 {
		set.args = append(set.args, List(q.Types))
		cond = " AND queue_id IN (SELECT q.id FROM pawl.queues q WHERE q.namespace = $1 AND q.type IN @list($3))"
	}
	if q.WorkerID != "" {
		l.derived.And("i.last_worker = @worker(?)", q.WorkerID)
		set.args = append(set.args, q.WorkerID)
		cond += " AND worker = @worker(" + placeholder(2+len(set.args)) + ")"
	}
	if q.Error != "" {
		cond += " AND error IS NOT NULL"
	}
	if slices.Equal(q.Statuses, []pawl.Status{pawl.StatusExpired}) { // all are in leases
		set.args = append(set.args, now)
		cond += " AND lease_expires_at <= " + placeholder(2+len(set.args))
	}
	set.sources = itemSources(states, false, cond)
	for i := range set.sources {
		if s := &set.sources[i]; q.Error != "" && s.table != "parked_items" {
			s.cond += failedBefore // has an index
		}
	}
	if len(set.sources) > 0 {
		l.sets = append(l.sets, set)
	}
	return states
}

// itemsOfIDs adds the condition that the id of an item, of its task or of one of its messages
// lies in a range.
func (l *listing[T]) itemsOfIDs(low, high, of string) {
	switch of {
	case itemPrefix:
		l.own.And("i.id >= ?", ItemID(low))
		l.own.And("i.id <= ?", ItemID(high))
		l.indexed = true
	case taskPrefix:
		l.own.And("i.task_id >= ?", TaskID(low))
		l.own.And("i.task_id <= ?", TaskID(high))
		l.sets = append(l.sets, candidates{args: []any{TaskID(low), TaskID(high)},
			sources: []source{from("id", "all_items", " AND task_id >= $3 AND task_id <= $4")}})
	default:
		l.own.And("EXISTS (SELECT 1 FROM pawl.messages m WHERE m.item_id = i.id AND m.id >= ? AND m.id <= ?)", low, high)
		l.sets = append(l.sets, candidates{args: []any{low, high}, sources: []source{from("item_id", "messages", " AND id >= $3 AND id <= $4")}})
	}
}

// statuses adds a condition on statuses, and returns the states of which items may have them. A
// lease that has run out is expired and not in_progress.
func (w *Where) statuses(statuses []pawl.Status, now int64) (states []string) {
	expired := slices.Contains(statuses, pawl.StatusExpired)
	running := slices.Contains(statuses, pawl.StatusInProgress)
	for _, s := range pawl.ItemStates {
		if slices.Contains(statuses, s.Status) || expired && s.Leased {
			states = append(states, s.Name)
		}
	}
	w.And("i.state @among(?)", List(states))
	if expired && !running {
		w.And("(i.lease_expires_at IS NULL OR i.lease_expires_at <= ?)", now)
	}
	if running && !expired {
		w.And("(i.lease_expires_at IS NULL OR i.lease_expires_at > ?)", now)
	}
	return states
}
