package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
)

// action is something a user can do to a task, an item or a message.
type action struct {
	Verb, Role string
	OnItems    bool   // on an item too
	Means      string // the effect, for the confirmation page
	Prompt     string // the label of the text field
	do         func(ctx context.Context, s Service, c pawl.TaskCall, form url.Values) ([]pawl.Result[pawl.Task], error)
}

// forking is the action on a checkpoint of a task. It is allowed in every state.
var forking = action{
	"fork",
	"submitter",
	false,
	"A new task is created. It has the checkpoints up to this one, and its items go on from them. This task is not changed.",
	"",
	func(ctx context.Context, s Service, c pawl.TaskCall, form url.Values) ([]pawl.Result[pawl.Task], error) {
		n, err := strconv.ParseInt(form.Get("checkpoint"), 10, 64)
		if err != nil {
			return nil, pawl.Invalid("/checkpoint", "is not the number of a checkpoint")
		}
		return s.ForkTasks(ctx, []pawl.TaskFork{{TaskID: c.TaskID, Checkpoint: n}})
	},
}

// budgetMeans is what a decision about a budget's question means; "" = it is another verb. A
// question that the caller may not see is nil.
func budgetMeans(verb string, q *pawl.BudgetQuestion) string {
	needs, then, ask := "what is needed", "the items that wait for it go on", "Its items are refused when they ask again"
	if q != nil && q.Waiting == 1 {
		needs, then, ask = fmt.Sprintf("what one item needs, %d %s,", q.Needed, q.Unit), "it goes on", "The item is refused when it asks again"
	} else if q != nil {
		needs, then = fmt.Sprintf("what %d items need together, %d %s,", q.Waiting, q.Needed, q.Unit), "all that wait for it go on"
		ask = fmt.Sprintf("The %d items are refused when they ask again", q.Waiting)
	}
	switch verb {
	case "approve":
		return "The limit of the budget is raised, by " + needs + " or to the limit below, and " + then + ". The first decision counts."
	case "reject":
		return "The limit of the budget stays. " + ask + ". Who asks later is another question. The first decision counts."
	}
	return ""
}

// Label is the verb with spaces.
func (d action) Label() string { return strings.ReplaceAll(d.Verb, "_", " ") }

var actions = []action{
	{
		"approve",
		"approver",
		false,
		"Its results are accepted and take effect. The first decision counts.",
		"Comment",
		func(ctx context.Context, s Service, c pawl.TaskCall, form url.Values) ([]pawl.Result[pawl.Task], error) {
			call := pawl.ApproveCall{TaskID: c.TaskID, Version: formVersion(form), Comment: c.Reason}
			if text := strings.TrimSpace(form.Get("limit")); text != "" {
				limit, err := strconv.ParseInt(text, 10, 64)
				if err != nil {
					return nil, pawl.Invalid("/limit", "is not a number")
				}
				call.Limit = &limit
			}
			return s.ApproveTasks(ctx, []pawl.ApproveCall{call})
		},
	},
	{"reject", "approver", false, "Its results are not accepted. The first decision counts.", "Reasons, one a line", reject},
	{stop, "submitter", false, "The chunks stay. The worker is told to stop and completes the item.", "Reason", nil},
	{
		"retry",
		"operator",
		true,
		"Failed items are queued again and their failures reset.",
		"Reason",
		func(ctx context.Context, s Service, c pawl.TaskCall, _ url.Values) ([]pawl.Result[pawl.Task], error) {
			return s.RetryTasks(ctx, []pawl.TaskCall{c})
		},
	},
	{
		"bury",
		"operator",
		true,
		"Failed items become dead letters.",
		"Reason",
		func(ctx context.Context, s Service, c pawl.TaskCall, _ url.Values) ([]pawl.Result[pawl.Task], error) {
			return s.BuryTasks(ctx, []pawl.TaskCall{c})
		},
	},
	{
		"revoke_lease",
		"operator",
		true,
		"Its worker loses the lease, and the item is queued again. It does not count as a failure.",
		"Reason",
		func(ctx context.Context, s Service, c pawl.TaskCall, form url.Values) ([]pawl.Result[pawl.Task], error) {
			attempt, err := strconv.Atoi(form.Get("attempt"))
			if len(c.ItemIDs) != 1 || err != nil {
				return nil, pawl.Invalid("/attempt", "is missing: a lease is revoked by its item and attempt")
			}
			rs, err := s.RevokeLeases(ctx, []pawl.RevokeCall{{ItemID: c.ItemIDs[0], Attempt: attempt, Reason: c.Reason}})
			if err == nil {
				err = rs[0].Err
			}
			return []pawl.Result[pawl.Task]{{}}, err
		},
	},
	{
		"cancel",
		"submitter",
		true,
		"Items that have not ended are cancelled permanently. Their workers are told.",
		"Reason",
		func(ctx context.Context, s Service, c pawl.TaskCall, _ url.Values) ([]pawl.Result[pawl.Task], error) {
			return s.CancelTasks(ctx, []pawl.TaskCall{c})
		},
	},
}

// stop is the only action on messages.
const stop = "stop"

// formVersion is the version of the task that the form showed.
func formVersion(form url.Values) *int {
	v, err := strconv.Atoi(form.Get("version"))
	if err != nil {
		return nil
	}
	return &v
}

func reject(ctx context.Context, s Service, c pawl.TaskCall, form url.Values) ([]pawl.Result[pawl.Task], error) {
	call := pawl.RejectCall{TaskID: c.TaskID, Version: formVersion(form), AllowRework: form.Get("rework") != ""}
	for line := range strings.Lines(c.Reason) {
		if line = strings.TrimSpace(line); line != "" {
			call.Errors = append(call.Errors, pawl.Complaint{Code: "rejected", Message: line})
		}
	}
	return s.RejectTasks(ctx, []pawl.RejectCall{call})
}

// actionsFor are the actions that the state and the caller's role allow.
func actionsFor(pass access.Pass, item bool, allowed []string) []action {
	return slices.DeleteFunc(slices.Clone(actions), func(a action) bool {
		return item && !a.OnItems || !slices.Contains(allowed, a.Verb) || pass.May(a.Role, false) != nil
	})
}

// confirmation is the data of the page that confirms an action.
type confirmation struct {
	action
	Task    pawl.Task
	Item    *pawl.Item
	Message *pawl.Message
	Work    *section[reviewItem] // the results to approve or reject
	Back    string               // the page of the task, item or message
	Point   string               // of a fork: the number of the checkpoint
	Inbox   bool                 // the list of approvals is shown next
}

// verbInPath is the last segment of the path.
func verbInPath(r *http.Request) string { return r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:] }

// actionOf finds the action in the path of a request.
func actionOf(r *http.Request) (action, bool) {
	all := append(slices.Clone(actions), forking)
	i := slices.IndexFunc(all, func(a action) bool { return a.Verb == verbInPath(r) })
	if i < 0 {
		return action{}, false
	}
	return all[i], true
}

// readAction reads the action and its object.
func (d *server) readAction(r *http.Request) (*confirmation, error) {
	a, known := actionOf(r)
	item, message := strings.HasPrefix(r.URL.Path, "/ui/items/"), strings.HasPrefix(r.URL.Path, "/ui/messages/")
	if !known || item && !a.OnItems || message != (a.Verb == stop) {
		return nil, pawl.ErrNotFound
	}
	if message {
		m, err := d.svc.GetMessage(r.Context(), r.PathValue("id"))
		return &confirmation{action: a, Message: &m, Back: "/ui/messages/" + escape(m.ID)}, err
	}
	q, id := &confirmation{action: a, Back: "/ui/tasks/"}, r.PathValue("id")
	if item {
		it, err := d.svc.GetItem(r.Context(), id)
		if err != nil {
			return nil, err
		}
		q.Item, q.Back, id = &it, "/ui/items/"+escape(id), it.TaskID
	}
	t, err := d.svc.GetTask(r.Context(), id)
	if err != nil {
		return nil, err
	}
	if q.Task = t; q.Item == nil {
		q.Back += escape(t.ID)
	}
	return q, nil
}

func (d *server) confirm(v *request) (any, error) {
	q, err := d.readAction(v.Request)
	if err == nil {
		err = v.pass.May(q.Role, false)
	}
	if err == nil && (q.Verb == "approve" || q.Verb == "reject") {
		var work section[reviewItem]
		work, err = d.reviewItems(v, q.Task.ID)
		q.Work = &work
		if q.Task.Type == pawl.TypeBudget {
			q.Means = budgetMeans(q.Verb, questionOf(v, &q.Task, &work))
		}
	}
	if err == nil {
		q.Inbox = v.param("from") == "approvals"
	}
	if err == nil && q.Verb == forking.Verb {
		q.Point = v.param("checkpoint")
		_, err = d.checkpoint(v.Context(), q.Task.ID, "checkpoint", q.Point)
	}
	return q, err
}

// perform performs a confirmed action. It refuses a form of an older version of the
// task.
func (d *server) perform(w http.ResponseWriter, r *http.Request) {
	role := "reader" // an unknown verb is not found
	if a, known := actionOf(r); known {
		role = a.Role
	}
	r, err := d.authorize(r, role)
	if err != nil {
		d.deny(w, r, err)
		return
	}
	d.touchSession(w, r)
	if err := r.ParseForm(); err != nil {
		d.showError(w, r, &pawl.Error{Code: pawl.CodeTooLarge, Message: fmt.Sprintf("the form is malformed or over %d bytes", maxForm)})
		return
	}
	q, err := d.readAction(r)
	if err == nil && r.PostForm.Get("version") != "" && r.PostForm.Get("version") != strconv.Itoa(q.Task.Version) {
		err = &pawl.Error{
			Code:    pawl.CodePrecondition,
			Message: "the task has changed since you looked",
			State:   string(q.Task.State),
			Allowed: q.Task.State.Allowed(),
		}
	}
	if err == nil {
		c := pawl.TaskCall{TaskID: q.Task.ID, Reason: strings.TrimSpace(r.PostForm.Get("reason"))}
		if q.Item != nil {
			c.ItemIDs = []string{q.Item.ID}
		}
		if q.Message != nil {
			err = d.stop(r.Context(), q.Message.ID, c.Reason)
		} else {
			var rs []pawl.Result[pawl.Task]
			if rs, err = q.do(r.Context(), d.svc, c, r.PostForm); err == nil {
				err = rs[0].Err
			}
			if err == nil && q.Verb == forking.Verb {
				q.Back = "/ui/tasks/" + escape(rs[0].Value.ID)
			}
			if r.PostForm.Get("from") == "approvals" {
				q.Back = "/ui/approvals"
			}
		}
	}
	if err != nil {
		d.showError(w, r, err)
		return
	}
	d.waits.forget(pawl.CallerOf(r.Context()).Namespace)
	http.Redirect(w, r, q.Back, http.StatusSeeOther)
}

func (d *server) stop(ctx context.Context, id, reason string) error {
	rs, err := d.svc.StopMessages(ctx, []pawl.StopCall{{MessageID: id, Reason: reason}})
	if err != nil {
		return err
	}
	return rs[0].Err
}
