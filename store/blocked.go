package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
)

var blockedSQL = Texts(sqlFiles, "blocked.sql")

// typesSampled is how many items at each end of a task are read for their type.
const typesSampled = 100

// liveTypes has one list of types for each live worker of a namespace: the types that it
// takes. A nil list belongs to a worker that never registered; such a worker may take any
// type.
type liveTypes [][]string

// claiming is what of a namespace decides whether an item can be claimed.
type claiming struct {
	live    liveTypes
	limited []LimitedQueue
	all     bool            // the namespace is paused
	paused  map[string]bool // types
}

func (c *claiming) isPaused(typ string) bool { return c.all || c.paused[typ] }

func readClaiming(ctx context.Context, tx Tx, namespace string, now int64) (c claiming, err error) {
	c.live, c.paused = liveTypes{}, map[string]bool{}
	err = EachRow(ctx, tx, func(rows Rows) error {
		var what string
		var q LimitedQueue
		var text Text
		if err := rows.Scan(&what, &q.ID, &q.Type, &text); err != nil {
			return err
		}
		switch what {
		case "live":
			c.live = append(c.live, text.List())
		case "limits":
			q.Limits = LimitsOf(string(text))
			c.limited = append(c.limited, q)
		case "paused":
			c.paused[q.Type] = true
		default:
			c.all = true
		}
		return nil
	}, blockedSQL["who claims"], namespace, now-pawl.WorkerLive.Microseconds(), now)
	return c, err
}

// take says whether a live worker takes the type. Plan and apply items are claimed only by
// workers that name their type.
func (l liveTypes) take(typ string) bool {
	aside := strings.HasSuffix(typ, pawl.PlanSuffix) || strings.HasSuffix(typ, pawl.ApplySuffix)
	return slices.ContainsFunc(l, func(types []string) bool {
		return types == nil || len(types) == 0 && !aside || slices.Contains(types, typ)
	})
}

func noWorker(types []string) *pawl.Blocked {
	slices.Sort(types)
	return &pawl.Blocked{Reason: pawl.BlockedByNoWorker, Detail: "no live worker takes " + strings.Join(types, ", ")}
}

func byPause(types []string) *pawl.Blocked {
	slices.Sort(types)
	return &pawl.Blocked{Reason: pawl.BlockedByPause, Detail: "paused: " + strings.Join(types, ", ")}
}

// BlockItems sets for each item what it waits for at the time now.
func BlockItems(ctx context.Context, tx Tx, namespace string, items []pawl.Item, now int64) error {
	var parked []string
	queued := map[string]string{} // types by id
	for i := range items {
		switch items[i].State {
		case pawl.ItemScheduled, pawl.ItemWaiting:
			parked = append(parked, items[i].ID)
		case pawl.ItemQueued:
			queued[items[i].ID] = items[i].Type
		}
	}
	reasons, err := parkedReasons(ctx, tx, parked)
	if err != nil {
		return err
	}
	var is claiming
	var limits map[string]*pawl.Blocked
	if len(queued) > 0 {
		if is, err = readClaiming(ctx, tx, namespace, now); err == nil {
			limits, err = limitReasons(ctx, tx, is.limited, queued, now)
		}
		if err != nil {
			return err
		}
	}
	for i := range items {
		it := &items[i]
		it.BlockedBy = reasons[it.ID]
		switch {
		case it.State != pawl.ItemQueued:
		case is.isPaused(it.Type):
			it.BlockedBy = byPause([]string{it.Type})
		case limits[it.ID] != nil:
			it.BlockedBy = limits[it.ID]
		case !is.live.take(it.Type):
			it.BlockedBy = noWorker([]string{it.Type})
		}
	}
	return nil
}

// parkedReasons returns for each of the scheduled and waiting items what it waits for.
func parkedReasons(ctx context.Context, tx Tx, ids []string) (map[string]*pawl.Blocked, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, blockedSQL["blocked items"], ItemList(ids))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]*pawl.Blocked{}
	var suspended []string
	for rows.Next() {
		var id string
		var until *int64
		var signal, key, first, firstKey, left Text
		var needs, failures int
		if err := rows.Scan((*ItemID)(&id), &until, &signal, &key, &needs, (*ItemID)(&first), &firstKey, &failures, &left); err != nil {
			return nil, err
		}
		if out[id] = parkedReason(until, signal, key, first, firstKey, left, needs, failures); needs > 0 && left == "suspended" {
			suspended = append(suspended, id)
		}
	}
	if err := rows.Err(); err != nil || len(suspended) == 0 {
		return out, err
	}
	rows.Close()
	return out, childReasons(ctx, tx, suspended, out)
}

// childReasons sets what items wait for that wait for children.
func childReasons(ctx context.Context, tx Tx, ids []string, out map[string]*pawl.Blocked) error {
	return EachRow(ctx, tx, func(rows Rows) error {
		var id string
		var ended, total int
		if err := rows.Scan((*ItemID)(&id), &ended, &total); err != nil {
			return err
		}
		out[id] = &pawl.Blocked{Reason: pawl.BlockedByChildren, Detail: fmt.Sprintf("%d of %d ended", ended, total)}
		return nil
	}, blockedSQL["waits for children"], ItemList(ids))
}

// parkedReason returns what a scheduled or waiting item waits for. first and firstKey name
// the first of its dependencies.
func parkedReason(until *int64, signal, key, first, firstKey, left Text, needs, failures int) *pawl.Blocked {
	b := &pawl.Blocked{Reason: pawl.BlockedByTime, Until: StampOf(until)}
	switch {
	case signal == pawl.BudgetSignal:
		b.Reason, b.Detail = pawl.BlockedByBudget, pawl.BudgetOfSignal(string(key))
		if _, task, asks := strings.Cut(string(key), "/"); asks {
			b.Detail += ", asked in " + task
		}
	case signal == pawl.EffectSignal:
		b.Reason, b.Detail = pawl.BlockedByEffect, string(key)
	case signal != "":
		b.Reason, b.Detail = pawl.BlockedBySignal, string(signal)
		if key != "" {
			b.Detail += ", key " + string(key)
		}
	case needs > 0:
		b.Reason, b.Detail = pawl.BlockedByDependency, string(first)
		if firstKey != "" {
			b.Detail = fmt.Sprintf("%s (%s)", firstKey, first)
		}
		if needs > 1 {
			b.Detail += fmt.Sprintf(" and %d more", needs-1)
		}
	case left == "failed" || left == "expired":
		b.Detail = fmt.Sprintf("back-off after failure %d", failures)
	case left == "suspended":
		b.Detail = "sleep"
	case left == "released":
		b.Detail = "released with a delay"
	default:
		b.Detail = "run_at"
	}
	return b
}

// taskPlaces counts the items of a task that are scheduled, waiting or leased.
type taskPlaces struct {
	pawl.Pending
	leased             int64
	scheduled, waiting string // the item that says what the task waits for
}

// BlockTasks sets for each task what it waits for, and counts its items that no worker
// holds. The amount of data that it reads does not depend on the number of items of the
// tasks.
func BlockTasks(ctx context.Context, tx Tx, namespace string, tasks []pawl.Task, now int64) error {
	var ids []string
	for i := range tasks {
		if unfinished(&tasks[i]) {
			ids = append(ids, tasks[i].ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	at, err := placesOf(ctx, tx, ids)
	if err != nil {
		return err
	}
	queued, parked := countPending(tasks, at)
	idle, err := notClaimable(ctx, tx, namespace, tasks, queued, now)
	if err != nil {
		return err
	}
	reasons, err := parkedReasons(ctx, tx, slices.DeleteFunc(parked, func(id string) bool { return id == "" }))
	if err != nil {
		return err
	}
	for i := range tasks {
		t := &tasks[i]
		p := at[t.ID]
		if p == nil {
			continue
		}
		if t.BlockedBy = idle[t.ID]; p.leased > 0 || p.Queued > 0 || t.BlockedBy != nil {
			continue
		}
		id := p.waiting
		if b := reasons[id]; p.scheduled != "" && (b == nil || b.Reason == pawl.BlockedByDependency) {
			id = p.scheduled
		}
		if t.BlockedBy = reasons[id]; t.BlockedBy != nil && t.Items > 1 {
			t.BlockedBy.Detail = id + ": " + t.BlockedBy.Detail
		}
	}
	return nil
}

// countPending counts the items of tasks that no worker holds. queued has the tasks that
// may need a worker. parked has the items that say what the other tasks wait for.
func countPending(tasks []pawl.Task, at map[string]*taskPlaces) (queued, parked []string) {
	for i := range tasks {
		t := &tasks[i]
		if !unfinished(t) {
			continue
		}
		p := at[t.ID]
		if p == nil {
			p = &taskPlaces{}
			at[t.ID] = p
		}
		if t.State != pawl.TaskApproved { // the apply item of an approved task, if any, is not counted
			open := max(int64(t.ItemsOpen), 1) // the plan's item is not counted
			p.Queued = max(open-p.leased-p.Scheduled-p.Waiting, 0)
			pending := p.Pending
			t.ItemsPending = &pending
		}
		switch {
		case p.leased > 0:
		case p.Queued > 0 || t.State == pawl.TaskApproved && p.Pending == pawl.Pending{}:
			queued = append(queued, t.ID)
		default:
			parked = append(parked, p.scheduled, p.waiting)
		}
	}
	return queued, parked
}

// unfinished says whether a task may have items that a worker can claim, now or later.
func unfinished(t *pawl.Task) bool {
	return slices.Contains([]pawl.TaskState{pawl.TaskQueued, pawl.TaskCheckedOut, pawl.TaskInProgress, pawl.TaskApproved}, t.State)
}

func placesOf(ctx context.Context, tx Tx, ids []string) (map[string]*taskPlaces, error) {
	out := map[string]*taskPlaces{}
	err := EachRow(ctx, tx, func(rows Rows) error {
		var task, place, item string
		var n int64
		if err := rows.Scan((*TaskID)(&task), &place, &n, (*ItemID)(&item)); err != nil {
			return err
		}
		p := out[task]
		if p == nil {
			p = &taskPlaces{}
			out[task] = p
		}
		switch place {
		case "scheduled":
			p.Scheduled, p.scheduled = n, item
		case "waiting":
			p.Waiting, p.waiting = n, item
		default:
			p.leased = n
		}
		return nil
	}, blockedSQL["places of tasks"], TaskList(ids))
	return out, err
}

// notClaimable returns the tasks with queued items that are all of paused types, or of types
// that no live worker takes. Of a task of many items, only the first and the last hundred are
// read for their type. When none of these is queued, the task's own type counts.
func notClaimable(ctx context.Context, tx Tx, namespace string, tasks []pawl.Task, ids []string,
	now int64) (map[string]*pawl.Blocked, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	is, err := readClaiming(ctx, tx, namespace, now)
	if err != nil || len(is.limited) == 0 && !is.all && len(is.paused) == 0 &&
		slices.ContainsFunc(is.live, func(types []string) bool { return types == nil }) {
		return nil, err
	}
	rows, err := tx.Query(ctx, blockedSQL["queued types"], TaskList(ids), typesSampled)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	types := map[string][]string{}
	for rows.Next() {
		var task, typ string
		if err := rows.Scan((*TaskID)(&task), &typ); err != nil {
			return nil, err
		}
		types[task] = append(types[task], typ)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	rows.Close()
	limits, err := limitsOfTasks(ctx, tx, is.limited, tasks, types, now)
	if err != nil {
		return nil, err
	}
	out := map[string]*pawl.Blocked{}
	for _, t := range tasks {
		mine := types[t.ID]
		if mine == nil && t.State != pawl.TaskApproved {
			mine = []string{t.Type}
		}
		if mine == nil || !slices.Contains(ids, t.ID) {
			continue
		}
		open := slices.DeleteFunc(slices.Clone(mine), is.isPaused)
		switch {
		case len(open) == 0:
			out[t.ID] = byPause(mine)
		case limits[t.ID] != nil:
			out[t.ID] = limits[t.ID]
		case !slices.ContainsFunc(open, is.live.take):
			out[t.ID] = noWorker(open)
		}
	}
	return out, nil
}
