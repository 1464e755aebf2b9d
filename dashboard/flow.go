package dashboard

import (
	"cmp"
	"fmt"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// The pages of flow control: queues, schedules and budgets.

// queuePage is a queue with its queued tasks.
type queuePage struct {
	pawl.Queue
	Work    section[pawl.Task]
	Held    section[pawl.Item] // leased, with who holds them
	Names   names              // of those
	MayKeep bool               // the caller may pause and resume it, and change its limits
}

func (d *server) queues(v *request) (any, error) {
	v.shows("/v1/queues", pawlCommand("queue", "ls"))
	list, err := d.svc.ListQueues(v.Context(), v.pageOf("cursor", manyRows))
	if err != nil {
		return nil, err
	}
	p := &queuesPage{List: list, failed: map[string]int64{}, dead: map[string]int64{}}
	counts, err := d.counts.get(v.Context(), d.opts.Gauges)
	p.Problem = sectionOf(counts, err).Problem
	for _, c := range counts.Items {
		p.failed[c.Type], p.dead[c.Type] = c.Counts[string(pawl.ItemFailed)], c.Counts[string(pawl.ItemDeadLettered)]
	}
	return p, nil
}

// queuesPage is queues with how many of their items have failed.
type queuesPage struct {
	pawl.List[pawl.Queue]
	Problem      *api.Problem // of the failed
	failed, dead map[string]int64
}

// Failed and Dead are how many items of a type have failed, and are dead letters.
func (p *queuesPage) Failed(typ string) int64 { return p.failed[typ] }
func (p *queuesPage) Dead(typ string) int64   { return p.dead[typ] }

func (d *server) queue(v *request) (any, error) {
	q, err := d.svc.GetQueue(v.Context(), v.PathValue("id"))
	if err != nil {
		return nil, err
	}
	f := pawl.TaskFilter{Types: []string{q.Type}, States: []pawl.TaskState{pawl.TaskQueued}, Page: v.pageOf("cursor", mediumRows)}
	held := pawl.ItemFilter{Types: []string{q.Type}, States: leasedStates(), Fields: leaseFields, Page: v.pageOf("held", mediumRows)}
	v.shows("/v1/queues/"+escape(q.Type), pawlCommand("queue", "get").on(q.Type))
	p := &queuePage{
		Queue:   q,
		Work:    sectionOf(d.svc.ListTasks(v.Context(), f)),
		Held:    sectionOf(d.svc.ListItems(v.Context(), held)),
		MayKeep: v.pass.May("operator", false) == nil,
	}
	p.Names = d.tableOf(v.Context(), p.Held.Items).Names
	return p, nil
}

// leaseFields are what a queue's page shows of a leased item.
var leaseFields = []string{"id", "task_id", "key", "state", "status", "worker_id", "attempt", "progress", "stage", "lease_expires_at"}

// leasedStates lists the states of items that a worker holds.
func leasedStates() (out []pawl.ItemState) {
	for _, s := range pawl.ItemStates {
		if s.Leased {
			out = append(out, pawl.ItemState(s.Name))
		}
	}
	return out
}

// textAt is the text that a pointer points to.
func textAt(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// schedulesPage is schedules with the names of their last tasks.
type schedulesPage struct {
	pawl.List[pawl.Schedule]
	Names names
}

// schedulePage is a schedule with what became of its ticks.
type schedulePage struct {
	pawl.Schedule
	Firings section[pawl.Firing]
	Names   names // of the tasks
	MayKeep bool
}

func (d *server) schedules(v *request) (any, error) {
	v.shows("/v1/schedules", pawlCommand("schedule", "ls"))
	list, err := d.svc.ListSchedules(v.Context(), v.pageOf("cursor", manyRows))
	ids := distinct(list.Items, func(s pawl.Schedule) string { return textAt(s.LastTaskID) })
	return &schedulesPage{list, d.tasksNamed(v.Context(), ids)}, err
}

func (d *server) schedule(v *request) (any, error) {
	s, err := d.svc.GetSchedule(v.Context(), v.PathValue("id"))
	if err != nil {
		return nil, err
	}
	v.shows("/v1/schedules/"+escape(s.Name), pawlCommand("schedule", "get").on(s.Name), pawlCommand("schedule", "firings").on(s.Name))
	f := pawl.FiringFilter{Schedule: s.Name, Page: v.pageOf("cursor", mediumRows)}
	p := &schedulePage{Schedule: s, Firings: sectionOf(d.svc.ListFirings(v.Context(), f)), MayKeep: v.pass.May("operator", false) == nil}
	ids := distinct(p.Firings.Items, func(f pawl.Firing) string { return f.TaskID })
	p.Names = d.tasksNamed(v.Context(), append(ids, textAt(s.LastTaskID)))
	return p, nil
}

// budgetPage is a budget with what was spent of it.
type budgetPage struct {
	pawl.Budget
	By       string
	All      bool   // of all periods
	Shown    string // the shown period or periods, "" = the current one
	Before   string // the period before the shown one
	Since    *time.Time
	Names    names
	Spending section[pawl.SpendingItem]
	MayKeep  bool
}

func (d *server) budgets(v *request) (any, error) {
	v.shows("/v1/budgets", pawlCommand("budget", "ls"))
	list, err := d.svc.ListBudgets(v.Context(), v.pageOf("cursor", manyRows))
	return &list, err
}

func (d *server) budget(v *request) (any, error) {
	b, err := d.svc.GetBudget(v.Context(), v.PathValue("id"))
	if err != nil {
		return nil, err
	}
	f := pawl.BudgetSpendingFilter{By: cmp.Or(v.param("by"), "task")}
	if err := f.SetPeriod(v.param("period")); err != nil {
		return nil, err
	}
	p := &budgetPage{Budget: b, By: f.By, All: f.All, Shown: f.Period(), Before: pawl.BudgetSpendingFilter{Ago: f.Ago + 1}.Period()}
	p.MayKeep = v.pass.May("operator", false) == nil
	spent := []string{"budget", "spent", "--by=" + p.By}
	if p.Shown != "" {
		spent = append(spent, "--period="+p.Shown)
	}
	v.shows("/v1/budgets/"+escape(b.Name), pawlCommand("budget", "get").on(b.Name), pawlCommand(spent...).on(b.Name))
	s, err := d.svc.BudgetSpending(v.Context(), b.Name, f)
	p.Since = s.Since
	p.Spending = sectionOf(pawl.List[pawl.SpendingItem]{Items: s.Items}, err)
	if p.By == "task" {
		p.Names = d.tasksNamed(v.Context(), distinct(s.Items, func(i pawl.SpendingItem) string { return i.Name }))
	}
	return p, nil
}

// limitsOf describes the limits of a queue, one text each.
func limitsOf(l pawl.QueueLimits) (out []string) {
	add := func(n *int, what string) {
		if n != nil {
			out = append(out, fmt.Sprintf("%d %s", *n, what))
		}
	}
	rate := func(r *pawl.Rate, what string) {
		if r != nil {
			out = append(out, fmt.Sprintf("%d starts in %d s%s, %d at once", r.Limit, r.Seconds, what, r.Burst))
		}
	}
	add(l.Concurrency, "leased at once")
	add(l.PerWorker, "of each worker")
	rate(l.Rate, "")
	if k := l.PerKey; k != nil {
		out = append(out, "key "+k.Pointer)
		add(k.Concurrency, "of each key")
		rate(k.Rate, " of each key")
		if k.Order != "" {
			out = append(out, "keys in order of creation")
		}
		if n := len(k.Weights); n == 1 {
			out = append(out, "1 key with a weight")
		} else if n > 1 {
			out = append(out, fmt.Sprintf("%d keys with weights", n))
		}
	}
	return out
}

// ruleOf describes when a schedule fires.
func ruleOf(s pawl.Schedule) string {
	switch {
	case s.Cron != "":
		return s.Cron + " " + cmp.Or(s.Zone, "UTC")
	case s.At != nil:
		return "once at " + s.At.UTC().Format(time.RFC3339)
	}
	return "every " + inUnits(int64(s.EverySeconds))
}
