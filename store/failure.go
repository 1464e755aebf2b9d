package store

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
)

var failureSQL = Texts(sqlFiles, "failure.sql")

// FailureKey returns the group of failures that an error belongs to, among those of its type; nil without an error.
func FailureKey(failure Text) *int64 {
	f := FailureOf(failure)
	if f == nil {
		return nil
	}
	key := f.Key()
	return &key
}

// failureStates are the states of items that belong to groups of failures.
var failureStates = []string{string(pawl.ItemFailed), string(pawl.ItemDeadLettered)}

func isFailure(state string) bool { return slices.Contains(failureStates, state) }

// maxFailureGroups bounds the groups that a list reads. Those with fewer items are left out.
const maxFailureGroups = 10_000

// ListFailures lists groups of failures, those with the most items first.
func ListFailures(ctx context.Context, tx Tx, namespace string, q pawl.FailureFilter) (out pawl.List[pawl.FailureGroup], err error) {
	states := failureStates
	if q.State != "" {
		states = []string{string(q.State)}
	}
	groups, err := failureGroups(ctx, tx, namespace, q.Types, states)
	if err != nil {
		return out, err
	}
	if q.Cursor != "" {
		count, name, _ := strings.Cut(q.Cursor, "_")
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil {
			return out, NotACursor()
		}
		at, found := slices.BinarySearchFunc(groups, pawl.FailureGroup{Count: n, Failure: name}, compareFailures)
		if found {
			at++
		}
		groups = groups[at:]
	}
	out = Paged(groups[:min(len(groups), q.Limit+1)], q.Limit, func(g pawl.FailureGroup) string {
		return strconv.FormatInt(g.Count, 10) + "_" + g.Failure
	})
	return out, readExamples(ctx, tx, out.Items)
}

func compareFailures(a, b pawl.FailureGroup) int {
	return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Failure, b.Failure))
}

// failureGroups counts the groups of failures, in the order of a list.
func failureGroups(ctx context.Context, tx Tx, namespace string, types, states []string) ([]pawl.FailureGroup, error) {
	hidden, err := Copies(ctx, tx)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, failureSQL["groups"], namespace, List(types), List(states), maxFailureGroups, TaskList(hidden))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	byName := map[string]*pawl.FailureGroup{}
	for rows.Next() {
		var typ, state, example string
		var key, n, first, last int64
		if err := rows.Scan(&typ, &key, &state, &n, &first, &last, (*ItemID)(&example)); err != nil {
			return nil, err
		}
		name := pawl.FailureName(typ, key)
		g := byName[name]
		if g == nil {
			g = &pawl.FailureGroup{Failure: name, Type: typ, FirstAt: Stamp(first)}
			byName[name] = g
		}
		g.Count += n
		if state == string(pawl.ItemFailed) {
			g.Failed = n
		} else {
			g.DeadLettered = n
		}
		if at := Stamp(first); at.Before(g.FirstAt) {
			g.FirstAt = at
		}
		if at := Stamp(last); at.After(g.LastAt) {
			g.LastAt, g.ItemID = at, example
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	rows.Close()
	if err := addFailedTasks(ctx, tx, namespace, types, states, byName); err != nil {
		return nil, err
	}
	out := make([]pawl.FailureGroup, 0, len(byName))
	for _, g := range byName {
		out = append(out, *g)
	}
	slices.SortFunc(out, compareFailures)
	return out, nil
}

// readExamples sets the members of groups that their examples have: an item, or the task itself.
func readExamples(ctx context.Context, tx Tx, groups []pawl.FailureGroup) error {
	var items, tasks []string
	at := make(map[string]*pawl.FailureGroup, len(groups))
	for i := range groups {
		if g := &groups[i]; g.ItemID != "" {
			items, at[g.ItemID] = append(items, g.ItemID), g
		} else {
			tasks, at[g.TaskID] = append(tasks, g.TaskID), g
		}
	}
	err := EachRow(ctx, tx, func(rows Rows) error {
		var item, task string
		var failure Text
		err := rows.Scan((*ItemID)(&item), (*TaskID)(&task), &failure)
		if err == nil {
			at[item].TaskID = task
			setExample(at[item], failure)
		}
		return err
	}, failureSQL["examples"], ItemList(items))
	if err != nil || len(tasks) == 0 {
		return err
	}
	return EachRow(ctx, tx, func(rows Rows) error {
		var task string
		var failure Text
		err := rows.Scan((*TaskID)(&task), &failure)
		if err == nil {
			setExample(at[task], failure)
		}
		return err
	}, failureSQL["example tasks"], TaskList(tasks))
}

func setExample(g *pawl.FailureGroup, failure Text) {
	if f := FailureOf(failure); f != nil {
		g.Code, g.Error, g.Message = f.Code, f.Normalized(), f.Message
	}
}

// ItemsOfFailure returns those items of tasks that belong to a group of failures, by task. A task that belongs to the group
// itself has none.
func ItemsOfFailure(ctx context.Context, tx Tx, namespace, failure string, taskIDs []string) (map[string][]string, error) {
	typ, key, _ := pawl.ParseFailureName(failure)
	rows, err := tx.Query(ctx, failureSQL["items of group"], TaskList(taskIDs), key, namespace, typ)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string][]string{}
	for rows.Next() {
		var task, item string
		if err := rows.Scan((*TaskID)(&task), (*ItemID)(&item)); err != nil {
			return nil, err
		}
		out[task] = append(out[task], item)
	}
	if err := rows.Err(); err != nil || len(out) > 0 || len(taskIDs) == 0 {
		return out, err
	}
	rows.Close()
	if is, err := isOfItems(ctx, tx, namespace, failure); err != nil || is {
		return out, err
	}
	tasks, err := tasksOfFailure(ctx, tx, namespace, failure, taskIDs)
	for _, id := range tasks {
		out[id] = nil
	}
	return out, err
}
