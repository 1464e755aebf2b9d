// Package budgets is the room of budgets: what items may spend, what they reserve and settle, and the tasks by which they
// ask people for more. The hot verbs of a reservation and its settlement are in store.
package budgets

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

// Budgets are the budgets of a database. Its methods are those of pawl.Service.
type Budgets struct{ k *kernel.Kernel }

// New returns the budgets of a database.
func New(k *kernel.Kernel) *Budgets { return &Budgets{k} }

// Type has the rules of the tasks by which items ask for more of a budget.
var Type = pawl.Type{Name: pawl.TypeBudget, Acceptance: true, Approval: pawl.Approval{Mode: pawl.ApprovalManual}}

// Declared is the declaration of the room. A reservation stays when its task is removed: it then has no task.
func Declared() kernel.Room {
	return kernel.Room{
		Name: "budgets",
		Tables: []kernel.Table{
			{Name: "budgets", Key: "namespace", Plain: []string{"id", "namespace", "name", "unit", "for_type", "for_key", "period",
				"on_exhausted", "on_lost"}, Changes: "at any time; no event tells of it"},
			{Name: "budget_reservations", Key: "budget", Plain: []string{"id", "namespace", "budget_id", "key", "agent", "model"},
				Changes: "when it is settled, taken over or lost; no event tells of it"},
			{Name: "budget_totals", Key: "budget", Plain: []string{"budget_id", "namespace", "agent", "model"},
				Changes: "when old reservations are summed up; no event tells of it"},
			{Name: "budget_questions", Key: "budget", Plain: []string{"budget_id", "namespace", "key"},
				Changes: "when its item asks again, and when the question is rejected, of which the event of its task tells"},
		},
		Steps: []store.Step{
			{Name: "lost reservations of budgets", Run: reclaimAll},
			{Name: "questions about budgets", Run: endQuestions},
			{Name: "old reservations of budgets", Run: store.Repeat(sumOld)},
			{Name: "reservations of deleted budgets", Run: store.Repeat(removeOf("remove reservations without budget"))},
			{Name: "totals of deleted budgets", Run: store.Repeat(removeOf("remove totals without budget"))},
		},
		Rules: []store.RuleSearch{
			{Rule: store.Rule{Name: "spending", Says: "what a budget has spent and reserved in its period is the sum of its reservations " +
				"and totals", Repair: "set budgets.spent and budgets.reserved to these sums"}, SQL: texts["wrong spending"]},
			{Rule: store.Rule{Name: "reservations", Says: "a reservation of an item has its item and counts as its state says", Repair: "set " +
				"item_id and task_id to NULL, and charged to what the state says, or delete a reservation that no state fits"},
				SQL: texts["wrong reservations"]},
		},
		Gauges: gauges,
	}
}

// gaugesOf is how many budgets have gauges at most.
const gaugesOf = 1000

// gauges returns the metrics of budgets.
func gauges(ctx context.Context, tx store.Tx, now int64) (out []pawl.Gauge, err error) {
	err = store.EachRow(ctx, tx, func(rows store.Rows) error {
		var namespace, name string
		var limit, spent, reserved int64
		if err := rows.Scan(&namespace, &name, &limit, &spent, &reserved); err != nil {
			return err
		}
		labels := []string{"namespace", namespace, "budget", name}
		out = append(out,
			pawl.Gauge{Name: "pawl_budget_limit", Help: "What a budget allows in its period.", Labels: labels, Value: float64(limit)},
			pawl.Gauge{Name: "pawl_budget_spent", Help: "What was spent of a budget in its period.", Labels: labels, Value: float64(spent)},
			pawl.Gauge{Name: "pawl_budget_reserved", Help: "What is reserved of a budget.", Labels: labels, Value: float64(reserved)})
		return nil
	}, texts["monitored"], now, gaugesOf)
	return out, err
}
