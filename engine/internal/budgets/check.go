package budgets

import (
	"regexp"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// budgetName is what names and units of budgets look like.
var budgetName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func plainName(f *rules.Fields, pointer, name string, longest int) {
	before := len(*f)
	if f.Text(pointer, name, 1, longest); len(*f) == before && !budgetName.MatchString(name) {
		f.Add(pointer, `has other characters than letters, digits, ".", "_" and "-", or begins with one of the last three`)
	}
}

// checkName checks the name of a budget.
func checkName(op, name string) error {
	var f rules.Fields
	plainName(&f, "/name", name, pawl.MaxBudgetNameLen)
	return f.Err(op)
}

// check checks what an operator says about a budget, and fills in what is left out.
func check(name string, b *pawl.NewBudget) error {
	var f rules.Fields
	plainName(&f, "/name", name, pawl.MaxBudgetNameLen)
	plainName(&f, "/unit", b.Unit, pawl.MaxUnitLen)
	amount(&f, "/limit", b.Limit, 1)
	first := func(pointer string, word *string, words []string) {
		if *word == "" {
			*word = words[0]
		}
		rules.Choice(&f, pointer, *word, words...)
	}
	first("/period", &b.Period, pawl.BudgetPeriods)
	first("/on_exhausted", &b.OnExhausted, pawl.BudgetPolicies)
	first("/on_lost", &b.OnLost, pawl.BudgetLosses)
	if a := b.AppliesTo; a != nil {
		f.Text("/applies_to/type", a.Type, 0, pawl.MaxTypeLen)
		f.Text("/applies_to/key", a.Key, 0, pawl.MaxKeyLen)
		f.Text("/applies_to/task_id", a.TaskID, 0, pawl.MaxIDLen)
		if *a == (pawl.BudgetScope{}) {
			b.AppliesTo = nil
		}
	}
	return f.Err("put")
}

// amount checks an amount of the unit of a budget.
func amount(f *rules.Fields, pointer string, n, low int64) {
	if n < low || n > pawl.MaxBudgetAmount {
		f.Add(pointer, "is %d; it must lie between %d and %d", n, low, pawl.MaxBudgetAmount)
	}
}

// checkReserve checks a call to reserve.
func checkReserve(budget string, c *pawl.ReserveCall) error {
	f := spender(budget, c.Fence())
	amount(&f, "/amount", c.Amount, 1)
	f.Text("/key", c.Key, 1, pawl.MaxKeyLen)
	if strings.HasPrefix(c.Key, store.FirstSpendKey) {
		f.Add("/key", "begins with %q, which is kept for what effects reserve", store.FirstSpendKey)
	}
	f.Text("/unit", c.Unit, 0, pawl.MaxUnitLen)
	f.Text("/agent_id", c.AgentID, 0, pawl.MaxIDLen)
	f.Text("/model", c.Model, 0, pawl.MaxIDLen)
	return f.Err("reserve")
}

// checkSettle checks a call to settle.
func checkSettle(budget string, c *pawl.SettleCall) error {
	f := spender(budget, c.Fence())
	f.Text("/reservation", c.Reservation, 1, pawl.MaxIDLen)
	amount(&f, "/amount", c.Amount, 0)
	return f.Err("settle")
}

// spender checks the name of a budget, and a fencing token whose members are named as these
// calls name them.
func spender(budget string, c pawl.Fence) (f rules.Fields) {
	plainName(&f, "/budget", budget, pawl.MaxBudgetNameLen)
	f.FenceOf("/item_id", c)
	return f
}

// checkSpending checks what is asked about the spending of a budget.
func checkSpending(name string, q *pawl.BudgetSpendingFilter) error {
	var f rules.Fields
	plainName(&f, "/name", name, pawl.MaxBudgetNameLen)
	if q.By == "" {
		q.By = pawl.SpendingGroups[0]
	}
	rules.Choice(&f, "/by", q.By, pawl.SpendingGroups...)
	if q.Limit == 0 {
		q.Limit = pawl.DefaultPage
	}
	f.Number("/limit", q.Limit, 1, pawl.MaxPage)
	f.Number("/period", q.Ago, 0, pawl.MaxPeriodsAgo)
	if q.All && q.Ago > 0 {
		f.Add("/period", "is of all periods, or of one")
	}
	return f.Err("spending")
}
