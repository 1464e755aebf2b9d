package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/pawl-work/pawl"
)

// The pages of flow control: queues, schedules and budgets.

// queuePage is a queue with its queued tasks.
type queuePage struct {
	pawl.Queue
	Work    section[pawl.Task]
	MayKeep bool // the caller may pause and resume it
}

func (d *server) queues(v *request) (any, error) {
	list, err := d.svc.ListQueues(v.Context(), v.pageOf("cursor", manyRows))
	return &list, err
}

func (d *server) queue(v *request) (any, error) {
	q, err := d.svc.GetQueue(v.Context(), v.PathValue("id"))
	if err != nil {
		return nil, err
	}
	f := pawl.TaskFilter{Types: []string{q.Type}, States: []pawl.TaskState{pawl.TaskQueued}, Page: v.pageOf("cursor", mediumRows)}
	return &queuePage{q, sectionOf(d.svc.ListTasks(v.Context(), f)), v.pass.May("operator", false) == nil}, nil
}

// schedulePage is a schedule with what became of its ticks.
type schedulePage struct {
	pawl.Schedule
	Firings section[pawl.Firing]
	MayKeep bool
}

func (d *server) schedules(v *request) (any, error) {
	list, err := d.svc.ListSchedules(v.Context(), v.pageOf("cursor", manyRows))
	return &list, err
}

func (d *server) schedule(v *request) (any, error) {
	s, err := d.svc.GetSchedule(v.Context(), v.PathValue("id"))
	if err != nil {
		return nil, err
	}
	f := pawl.FiringFilter{Schedule: s.Name, Page: v.pageOf("cursor", mediumRows)}
	return &schedulePage{s, sectionOf(d.svc.ListFirings(v.Context(), f)), v.pass.May("operator", false) == nil}, nil
}

// budgetPage is a budget with what was spent of it.
type budgetPage struct {
	pawl.Budget
	By       string
	Spending section[pawl.SpendingItem]
}

func (d *server) budgets(v *request) (any, error) {
	list, err := d.svc.ListBudgets(v.Context(), v.pageOf("cursor", manyRows))
	return &list, err
}

func (d *server) budget(v *request) (any, error) {
	b, err := d.svc.GetBudget(v.Context(), v.PathValue("id"))
	if err != nil {
		return nil, err
	}
	p := &budgetPage{Budget: b, By: cmp.Or(v.param("by"), "task")}
	s, err := d.svc.BudgetSpending(v.Context(), b.Name, pawl.BudgetSpendingFilter{By: p.By})
	p.Spending = sectionOf(pawl.List[pawl.SpendingItem]{Items: s.Items}, err)
	return p, nil
}

// switches are what an operator can do on the pages of queues and schedules. They can all be
// undone or repeated, so no page asks whether they are meant.
var switches = map[string]func(ctx context.Context, s Service, id string) error{
	"/ui/queues/pause":     ignored(Service.PauseQueue),
	"/ui/queues/resume":    ignored(Service.ResumeQueue),
	"/ui/schedules/pause":  ignored(Service.PauseSchedule),
	"/ui/schedules/resume": ignored(Service.ResumeSchedule),
	"/ui/schedules/run":    ignored(Service.RunSchedule),
}

// ignored leaves out the answer of a call: its page is read again.
func ignored[V any](call func(Service, context.Context, string) (V, error)) func(context.Context, Service, string) error {
	return func(ctx context.Context, s Service, id string) error {
		_, err := call(s, ctx, id)
		return err
	}
}

// performSwitch returns the handler of the switches of a kind of page.
func (d *server) performSwitch(pages string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		do, known := switches[pages+r.PathValue("verb")]
		r, err := d.authorize(r, "operator")
		if err != nil {
			d.deny(w, r, err)
			return
		}
		d.touchSession(w, r)
		if err = pawl.ErrNotFound; known {
			err = do(r.Context(), d.svc, r.PathValue("id"))
		}
		if err != nil {
			d.showError(w, r, err)
			return
		}
		http.Redirect(w, r, pages+escape(r.PathValue("id")), http.StatusSeeOther)
	}
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
		if len(k.Weights) > 0 {
			out = append(out, fmt.Sprintf("%d keys with weights", len(k.Weights)))
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
	return fmt.Sprintf("every %s", time.Duration(s.EverySeconds)*time.Second)
}
