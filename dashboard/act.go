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

// deed is what somebody can do to a task, or to one item of it.
type deed struct {
	Verb, Role string
	Items      bool   // to an item too
	Means      string // what comes of it
	Asks       string // what the form asks for
	do         func(ctx context.Context, s Service, c pawl.TaskCall, form url.Values) ([]pawl.Result[pawl.Task], error)
}

// Label is the verb in words.
func (d deed) Label() string { return strings.ReplaceAll(d.Verb, "_", " ") }

var deeds = []deed{
	{"approve", "approver", false, "Its results are accepted and take effect. The first decision counts.", "Comment", func(ctx context.Context, s Service, c pawl.TaskCall, form url.Values) ([]pawl.Result[pawl.Task], error) {
		return s.ApproveTasks(ctx, []pawl.ApproveCall{{TaskID: c.TaskID, Version: seen(form), Comment: c.Reason}})
	}},
	{"reject", "approver", false, "Its results are not accepted. The first decision counts.", "Reasons, one a line", reject},
	{stop, "submitter", false, "What was said stays; its worker is told and completes the item.", "Reason", nil},
	{"retry", "operator", true, "What failed is queued again, its failures forgotten.", "Reason", func(ctx context.Context, s Service, c pawl.TaskCall, _ url.Values) ([]pawl.Result[pawl.Task], error) {
		return s.RetryTasks(ctx, []pawl.TaskCall{c})
	}},
	{"bury", "operator", true, "What failed is set aside as a dead letter.", "Reason", func(ctx context.Context, s Service, c pawl.TaskCall, _ url.Values) ([]pawl.Result[pawl.Task], error) {
		return s.BuryTasks(ctx, []pawl.TaskCall{c})
	}},
	{"revoke_lease", "operator", true, "Its worker loses the lease, and the item is queued again. It does not count as a failure.", "Reason", func(ctx context.Context, s Service, c pawl.TaskCall, form url.Values) ([]pawl.Result[pawl.Task], error) {
		attempt, err := strconv.Atoi(form.Get("attempt"))
		if len(c.ItemIDs) != 1 || err != nil {
			return nil, pawl.Invalid("/attempt", "is missing: a lease is revoked by its item and attempt")
		}
		rs, err := s.RevokeLeases(ctx, []pawl.RevokeCall{{ItemID: c.ItemIDs[0], Attempt: attempt, Reason: c.Reason}})
		if err == nil {
			err = rs[0].Err
		}
		return []pawl.Result[pawl.Task]{{}}, err
	}},
	{"cancel", "submitter", true, "What has not ended is cancelled for good; whoever works on it is told.", "Reason", func(ctx context.Context, s Service, c pawl.TaskCall, _ url.Values) ([]pawl.Result[pawl.Task], error) {
		return s.CancelTasks(ctx, []pawl.TaskCall{c})
	}},
}

// stop is the one that is done to a message.
const stop = "stop"

// seen is the version of the task that the form showed.
func seen(form url.Values) *int {
	v, err := strconv.Atoi(form.Get("version"))
	if err != nil {
		return nil
	}
	return &v
}

func reject(ctx context.Context, s Service, c pawl.TaskCall, form url.Values) ([]pawl.Result[pawl.Task], error) {
	call := pawl.RejectCall{TaskID: c.TaskID, Version: seen(form), AllowRework: form.Get("rework") != ""}
	for line := range strings.Lines(c.Reason) {
		if line = strings.TrimSpace(line); line != "" {
			call.Errors = append(call.Errors, pawl.Complaint{Code: "rejected", Message: line})
		}
	}
	return s.RejectTasks(ctx, []pawl.RejectCall{call})
}

// verbsOf are what can be done to an item: a lease can be ended by an operator.
func verbsOf(s pawl.ItemState) []string {
	if s.Leased() {
		return append(slices.Clone(s.Allowed()), "revoke_lease")
	}
	return s.Allowed()
}

// deedsFor are those that a state allows and a visitor may do.
func deedsFor(pass access.Pass, item bool, allowed []string) []deed {
	return slices.DeleteFunc(slices.Clone(deeds), func(a deed) bool {
		return item && !a.Items || !slices.Contains(allowed, a.Verb) || pass.May(a.Role, false) != nil
	})
}

// question is what is asked before something is done.
type question struct {
	deed
	Task    pawl.Task
	Item    *pawl.Item
	Message *pawl.Message
	Work    *part[handedIn] // what is decided about
	Back    string          // the page of what it is done to
}

// verbOf is what a path says is to be done, at its end.
func verbOf(r *http.Request) string { return r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:] }

// ask reads what is to be done, and to what.
func (d *desk) ask(r *http.Request) (*question, error) {
	i := slices.IndexFunc(deeds, func(a deed) bool { return a.Verb == verbOf(r) })
	item, message := strings.HasPrefix(r.URL.Path, "/ui/items/"), strings.HasPrefix(r.URL.Path, "/ui/messages/")
	if i < 0 || item && !deeds[i].Items || message != (deeds[i].Verb == stop) {
		return nil, pawl.ErrNotFound
	}
	if message {
		m, err := d.svc.GetMessage(r.Context(), r.PathValue("id"))
		return &question{deed: deeds[i], Message: &m, Back: "/ui/messages/" + escape(m.ID)}, err
	}
	q, id := &question{deed: deeds[i], Back: "/ui/tasks/"}, r.PathValue("id")
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

func (d *desk) confirm(v *visit) (any, error) {
	q, err := d.ask(v.Request)
	if err == nil {
		err = v.pass.May(q.Role, false)
	}
	if err == nil && (q.Verb == "approve" || q.Verb == "reject") {
		var work part[handedIn]
		work, err = d.work(v, q.Task.ID)
		q.Work = &work
	}
	return q, err
}

// act does what was asked for and confirmed. Whoever saw an older version of the
// task is asked to look again.
func (d *desk) act(w http.ResponseWriter, r *http.Request) {
	role := "reader" // what is no deed is nothing to be found
	if i := slices.IndexFunc(deeds, func(a deed) bool { return a.Verb == verbOf(r) }); i >= 0 {
		role = deeds[i].Role
	}
	r, err := d.enter(r, role)
	if err != nil {
		d.turnAway(w, r, err)
		return
	}
	d.used(w, r)
	if err := r.ParseForm(); err != nil {
		d.refuse(w, r, &pawl.Error{Code: pawl.CodeTooLarge, Message: fmt.Sprintf("the form is over %d bytes, or is none", maxForm)})
		return
	}
	q, err := d.ask(r)
	if err == nil && r.PostForm.Get("version") != "" && r.PostForm.Get("version") != strconv.Itoa(q.Task.Version) {
		err = &pawl.Error{Code: pawl.CodePrecondition, Message: "the task has changed since you looked", State: string(q.Task.State), Allowed: q.Task.State.Allowed()}
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
		}
	}
	if err != nil {
		d.refuse(w, r, err)
		return
	}
	http.Redirect(w, r, q.Back, http.StatusSeeOther)
}

func (d *desk) stop(ctx context.Context, id, reason string) error {
	rs, err := d.svc.StopMessages(ctx, []pawl.StopCall{{MessageID: id, Reason: reason}})
	if err != nil {
		return err
	}
	return rs[0].Err
}
