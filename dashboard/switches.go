package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
)

// pageSwitch is what a user can do on a page, by one button or form.
type pageSwitch struct {
	role   string // "" = operator
	global bool   // it concerns all namespaces
	do     func(ctx context.Context, d *server, id string, form url.Values) error
}

// switches are named by their path, without the id. No page asks whether one is meant: they
// can be undone or repeated, except that a key is revoked for good and that a relay may leave events out, which their
// forms confirm, and that decisions about effects are made on a page that shows the effect.
var switches = map[string]pageSwitch{
	"/ui/queues/pause":     {do: ignored(Service.PauseQueue)},
	"/ui/queues/resume":    {do: ignored(Service.ResumeQueue)},
	"/ui/queues/limit":     {do: setLimits},
	"/ui/queues/raise":     {do: raiseLimit},
	"/ui/budgets/raise":    {do: raiseBudget},
	"/ui/namespace/resume": {do: resumeNamespace},
	"/ui/signals/send":     {role: "submitter", do: sendSignal},
	"/ui/schedules/pause":  {do: ignored(Service.PauseSchedule)},
	"/ui/schedules/resume": {do: ignored(Service.ResumeSchedule)},
	"/ui/schedules/run":    {do: ignored(Service.RunSchedule)},
	"/ui/relays/resume":    {global: true, do: resumeRelay},
	"/ui/keys/revoke":      {global: true, do: revokeKey},
	"/ui/effects/approve":  {role: "approver", do: approveEffect},
	"/ui/effects/reject":   {role: "approver", do: rejectEffect},
	"/ui/effects/resolve":  {role: "approver", do: resolveEffect},
}

// ignored leaves out the answer of a call: its page is read again.
func ignored[V any](call func(Service, context.Context, string) (V, error)) func(context.Context, *server, string, url.Values) error {
	return func(ctx context.Context, d *server, id string, _ url.Values) error {
		_, err := call(d.svc, ctx, id)
		return err
	}
}

func resumeRelay(ctx context.Context, d *server, sink string, form url.Values) error {
	from := form.Get("from")
	if from == pawl.RelayFromNow && form.Get("sure") != sink {
		return pawl.Invalid("/sure", "is not checked: what was not sent yet is left out")
	}
	_, err := d.svc.ResumeRelay(ctx, sink, from)
	return err
}

// performSwitch returns the handler of the switches of a kind of page.
func (d *server) performSwitch(pages string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		op, known := switches[pages+r.PathValue("verb")]
		r, err := d.authorizeFor(r, cmp.Or(op.role, "operator"), op.global)
		if err != nil {
			d.deny(w, r, err)
			return
		}
		d.touchSession(w, r)
		if err = pawl.ErrNotFound; known {
			if err = r.ParseForm(); err == nil {
				err = op.do(r.Context(), d, r.PathValue("id"), r.PostForm)
			}
		}
		if err != nil {
			d.showError(w, r, err)
			return
		}
		d.waits.forget(pawl.CallerOf(r.Context()).Namespace)
		to := pages + escape(r.PathValue("id"))
		if op.global { // these have one page for all
			to = strings.TrimSuffix(pages, "/")
		}
		if next := r.PostForm.Get("next"); next != "" { // the page with the button
			to = safeNext(next)
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
	}
}

// setLimits sets the limits of a queue as its form has them: an empty field removes one. The
// form has no field for limits of keys, which stay.
func setLimits(ctx context.Context, d *server, typ string, form url.Values) error {
	number := func(name string) (*int, error) {
		text := strings.TrimSpace(form.Get(name))
		if text == "" {
			return nil, nil
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, pawl.Invalid("/"+name, "is not a number")
		}
		return &n, nil
	}
	values := map[string]*int{}
	for _, name := range []string{"concurrency", "per_worker", "rate", "seconds", "burst"} {
		n, err := number(name)
		if err != nil {
			return err
		}
		values[name] = n
	}
	patch := map[string]any{"concurrency": values["concurrency"], "per_worker": values["per_worker"], "rate": nil}
	if values["rate"] != nil {
		if values["seconds"] == nil {
			return pawl.Invalid("/seconds", "is missing: a rate is a number of starts in a number of seconds")
		}
		patch["rate"] = map[string]any{"limit": values["rate"], "seconds": values["seconds"], "burst": values["burst"]}
	}
	raw, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = d.svc.SetQueue(ctx, typ, pawl.QueuePatch(raw))
	return err
}
