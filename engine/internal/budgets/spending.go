package budgets

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

const day = 24 * time.Hour

// spendingOf groups what was spent of a budget.
func spendingOf(ctx context.Context, tx store.Tx, namespace, name string, q pawl.BudgetSpendingFilter,
	now int64) (pawl.BudgetSpending, error) {
	b, err := Get(ctx, tx, namespace, name, now)
	if err != nil {
		return pawl.BudgetSpending{}, err
	}
	out := pawl.BudgetSpending{Budget: b.Name, Unit: b.Unit, By: q.By, Items: []pawl.SpendingItem{}}
	since, from, to := &b.Start, b.PeriodNumber, b.PeriodNumber
	switch {
	case q.All:
		since, from = nil, 0
	case q.Ago > 0:
		since, from = nil, 0 // no period has this number
		if _, err := store.Row(ctx, tx, []any{&from}, texts["past period"], b.ID, to, q.Ago); err != nil {
			return out, err
		}
		to = from
		if _, err := store.Row(ctx, tx, []any{&since}, texts["first of period"], b.ID, from); err != nil {
			return out, err
		}
	}
	out.Since = store.StampOf(since)
	if _, err := store.Row(ctx, tx, []any{&out.Spent}, texts["spent"], b.ID, from, to); err != nil {
		return out, err
	}
	args := []any{b.ID, from, to, q.Limit}
	if q.By == "day" {
		args = append(args, day.Microseconds())
	}
	err = store.EachRow(ctx, tx, func(rows store.Rows) error {
		var s pawl.SpendingItem
		if err := rows.Scan(&s.Name, &s.Spent, &s.Reservations); err != nil {
			return err
		}
		if q.By == "day" && s.Name != "" {
			n, _ := strconv.ParseInt(s.Name, 10, 64) // the statement wrote it
			s.Name = time.UnixMicro(n * day.Microseconds()).UTC().Format(time.DateOnly)
		}
		out.Items = append(out.Items, s)
		return nil
	}, texts["spending by "+q.By], args...)
	return out, err
}

// spendingOfTask lists what a task spent of each budget, by name, of at most limit budgets.
func spendingOfTask(ctx context.Context, tx store.Tx, namespace, taskID string, limit int) ([]pawl.TaskSpending, error) {
	return store.All(ctx, tx, texts["spending of task"], []any{store.TaskID(taskID), namespace, limit},
		func(rows store.Rows, s *pawl.TaskSpending) error {
			return rows.Scan(&s.Budget, &s.Unit, &s.Spent, &s.Reserved, &s.Reservations)
		})
}

// budgetTotal is the key of a row of budget_totals.
type budgetTotal struct {
	budget, namespace string
	period            int64
	agent, model      string
}

func (t budgetTotal) compare(o budgetTotal) int {
	return cmp.Or(strings.Compare(t.budget, o.budget), cmp.Compare(t.period, o.period), strings.Compare(t.agent, o.agent),
		strings.Compare(t.model, o.model))
}

// sumOld removes up to limit reservations that ended longer than pawl.BudgetDetailKept ago, of items without
// work left, and adds what they spent to the totals. It returns how many it removed.
func sumOld(ctx context.Context, tx store.Tx, now int64, limit int) (int64, error) {
	rows, err := tx.Query(ctx, texts["old reservations"], now-pawl.BudgetDetailKept.Microseconds(), limit)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var ids []string
	type sum struct{ charged, n int64 }
	sums := map[budgetTotal]sum{}
	for rows.Next() {
		var id string
		var t budgetTotal
		var charged int64
		if err := rows.Scan(&id, &t.namespace, &t.budget, &t.period, &t.agent, &t.model, &charged); err != nil {
			return 0, err
		}
		ids = append(ids, id)
		sums[t] = sum{sums[t].charged + charged, sums[t].n + 1}
	}
	if err := rows.Err(); err != nil || len(ids) == 0 {
		return 0, err
	}
	rows.Close()
	for _, t := range slices.SortedFunc(maps.Keys(sums), budgetTotal.compare) {
		_, err := tx.Exec(ctx, texts["add total"], t.budget, t.namespace, t.period, t.agent, t.model, sums[t].charged, sums[t].n)
		if err != nil {
			return 0, err
		}
	}
	return tx.Exec(ctx, texts["remove reservations"], store.List(ids))
}
