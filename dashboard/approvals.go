package dashboard

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/pawl-work/pawl"
)

// approvalsPage is what waits for a decision, the oldest task first, and one of it in full.
type approvalsPage struct {
	Waiting  pawl.List[pawl.Task] // results
	Budgets  section[pawl.Task]   // questions of budgets
	Chosen   *pawl.Task
	Work     section[reviewItem]
	Schema   json.RawMessage // of the results of the chosen one
	Question *pawl.BudgetQuestion
	Names    names  // of the task that the question is about
	Apply    string // what applying does, by the type
	May      bool   // the caller may decide
}

func (d *server) approvals(v *request) (any, error) {
	ctx := v.Context()
	fields := []string{"id", "type", "type_version", "title", "state", "status", "version", "items", "last_transitioned_at",
		"ready_for_approval", "requested_by"}
	f := pawl.TaskFilter{States: []pawl.TaskState{pawl.TaskSubmitted}, Asc: true, Fields: fields,
		Page: v.pageOf("cursor", mediumRows)}
	v.shows("/v1/tasks?state=submitted&sort=created_at", pawlCommand("task", "list", "--state=submitted", "--asc"))
	waiting, err := d.resultsWaiting(ctx, f)
	if err != nil {
		return nil, err
	}
	p := &approvalsPage{Waiting: waiting, May: v.pass.May("approver", false) == nil}
	f.Types, f.Page = []string{pawl.TypeBudget}, v.pageOf("budgets", mediumRows)
	p.Budgets = sectionOf(d.svc.ListTasks(ctx, f))
	switch id := v.word("task"); {
	case id != "":
		t, err := d.svc.GetTask(ctx, id)
		if err != nil {
			return nil, err
		}
		p.Chosen = &t
	case len(waiting.Items) > 0:
		p.Chosen = &waiting.Items[0]
	case len(p.Budgets.Items) > 0:
		p.Chosen = &p.Budgets.Items[0]
	default:
		return p, nil
	}
	if p.Work, err = d.reviewItems(v, p.Chosen.ID); err != nil {
		return nil, err
	}
	if typ, err := d.svc.GetType(ctx, p.Chosen.Type, p.Chosen.TypeVersion); err == nil { // otherwise it has none
		p.Schema, p.Apply = typ.ResultSchema, string(typ.Apply.Mode)
	}
	if p.Question = questionOf(v, p.Chosen, &p.Work); p.Question != nil {
		p.Names = d.tasksNamed(ctx, []string{p.Question.TaskID})
	}
	return p, nil
}

// onlyQuestions is how many pages with questions of budgets alone are passed over at most.
const onlyQuestions = 10

// resultsWaiting is the next page that has tasks besides questions of budgets, without these.
func (d *server) resultsWaiting(ctx context.Context, f pawl.TaskFilter) (l pawl.List[pawl.Task], err error) {
	for range onlyQuestions {
		if l, err = d.svc.ListTasks(ctx, f); err != nil {
			return l, err
		}
		l.Items = slices.DeleteFunc(l.Items, func(t pawl.Task) bool { return t.Type == pawl.TypeBudget })
		if len(l.Items) > 0 || l.Next == "" {
			break
		}
		f.Cursor = l.Next
	}
	return l, nil
}

// asking is a task of the list of what waits for a decision.
type asking struct {
	pawl.Task
	May    bool
	Chosen *pawl.Task
}

func askingOf(t pawl.Task, p *approvalsPage) asking { return asking{t, p.May, p.Chosen} }

// questionOf returns what a task asks of a budget; nil if it asks nothing, or the caller may not
// see it.
func questionOf(v *request, t *pawl.Task, work *section[reviewItem]) *pawl.BudgetQuestion {
	var q pawl.BudgetQuestion
	if t.Type != pawl.TypeBudget || len(work.Items) == 0 || !v.pass.Payloads() || json.Unmarshal(work.Items[0].Result, &q) != nil {
		return nil
	}
	return &q
}

// Decidable reports whether the chosen task still waits for a decision.
func (p *approvalsPage) Decidable() bool {
	return p.May && p.Chosen.State == pawl.TaskSubmitted
}
