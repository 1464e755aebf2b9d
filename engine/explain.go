package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/shellwords"
)

// whyFacts is what Explain knows about an item. What does not apply is nil or zero.
type whyFacts struct {
	Now  time.Time
	Item pawl.Item // with BlockedBy
	Task pawl.Task

	Queue      *pawl.Queue // of a queued item
	LastSeen   *time.Time  // of a queued item: when a worker that takes its type was last seen
	Signal     string      // of a waiting item: the signal that it waits for
	SignalKey  string
	Budget     *pawl.Budget // that it waits for
	Question   string       // the task by which it asks for more of the budget
	Cause      *explanation // of the item that it waits for, or that failed before it
	Pending    int          // of a submitted item: how many items of its task have work left
	DecideBy   *time.Time   // of a submitted item: when its approval expires
	BuryAfter  time.Duration
	SweepsRest bool // no server runs sweeps
}

// explanation is why an item has its state.
type explanation struct {
	pawl.Why
	Headline string // the first sentence of Detail
}

// explain says why an item has its state; see pawl.Explainer.
func explain(f whyFacts) explanation {
	it := &f.Item
	e := explanation{Why: pawl.Why{ItemID: it.ID, Status: it.Status, Since: it.UpdatedAt}}
	switch {
	case f.Task.FailedIn != "" && f.Task.State.Over() && !f.Task.State.Ended() && (!it.State.Ended() || it.Kind == f.Task.FailedIn):
		f.aside(&e)
	case it.State.Ended():
		f.ended(&e)
	case it.State == pawl.ItemFailed || it.State == pawl.ItemDeadLettered:
		f.failed(&e)
	case it.State.Leased():
		f.leased(&e)
	case it.State == pawl.ItemSubmitted || it.State == pawl.ItemAccepted:
		f.submitted(&e)
	case it.BlockedBy != nil:
		f.blocked(&e)
	default:
		e.Reason, e.Headline = pawl.WhyQueued, "It is queued: a live worker takes "+it.Type+", and claims it in turn."
		e.Detail = "A higher priority brings it forward."
		e.Command = f.command("task update", []string{"--priority", fmt.Sprint(min(it.Priority+1, 32767))}, it.TaskID)
	}
	e.Detail = strings.Join(sentences(e.Headline, f.history(), e.Detail), " ")
	return e
}

func sentences(all ...string) (out []string) {
	for _, s := range all {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}

// history says who held the item last and what failed.
func (f *whyFacts) history() string {
	it, out := &f.Item, ""
	switch last := cmp.Or(it.WorkerID, it.LastWorkerID); {
	case it.State.Leased() || it.Attempt == 0 && it.State.Ended():
	case it.Attempt == 0:
		out = "No worker has held it yet."
	case last != "":
		out = fmt.Sprintf("Worker %s held it last, in attempt %d.", last, it.Attempt)
	}
	if it.Error != nil {
		out = strings.Join(sentences(out, fmt.Sprintf("Failure %d of %d, the last error%s.", it.Failures, it.MaxAttempts, said(it.Error))), " ")
	}
	return out
}

func clip(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

func (f *whyFacts) ended(e *explanation) {
	it := &f.Item
	e.Reason, e.Headline = pawl.WhyEnded, fmt.Sprintf("It is %s, which is final.", it.State)
	if it.CompletedAt != nil {
		e.Since = *it.CompletedAt
	}
	if it.State == pawl.ItemCompleted {
		e.Command = f.command("item get", nil, it.ID)
		return
	}
	e.Detail = "A copy of the task can start again."
	e.Command = f.command("task clone", nil, it.TaskID)
}

func (f *whyFacts) failed(e *explanation) {
	it := &f.Item
	if it.CompletedAt != nil {
		e.Since = *it.CompletedAt
	}
	f.stays(e, it.State == pawl.ItemDeadLettered)
	e.Command = f.command("task retry", []string{"--item", it.ID}, it.TaskID)
	switch {
	case f.Task.State.Ended():
		e.NextAt, e.Detail = nil, fmt.Sprintf("Its task is %s, which is final. A copy of the task can start again.", f.Task.State)
		e.Command = f.command("task clone", nil, it.TaskID)
	case f.Cause != nil:
		e.Detail = "It goes on when what it depends on has completed, or is retried then if it was dead-lettered."
		f.because(e)
		e.Detail = "An item that it depends on has not completed. " + e.Detail
	}
}

// stays says that something failed, or was dead-lettered, and how long it stays so.
func (f *whyFacts) stays(e *explanation, dead bool) {
	e.Reason = pawl.WhyFailed
	if dead {
		e.Headline, e.Detail = "It is dead-lettered.", "It stays so until it is retried, cancelled or removed with its task."
		return
	}
	e.Headline, e.Detail = "It has failed.", "It stays so until it is retried or cancelled."
	if f.BuryAfter > 0 {
		at := e.Since.Add(f.BuryAfter)
		e.NextAt, e.Detail = &at, fmt.Sprintf("It is dead-lettered %s after it failed, unless it is retried or cancelled before.",
			f.BuryAfter)
	}
}

// aside explains an item of a task that could not be planned or applied.
func (f *whyFacts) aside(e *explanation) {
	e.Since = f.Task.LastTransitionedAt
	f.stays(e, f.Task.State == pawl.TaskDeadLettered)
	how := map[string]string{pawl.KindPlan: "planned", pawl.KindApply: "applied"}[f.Task.FailedIn]
	e.Headline = fmt.Sprintf("Its task failed when it was %s%s.", how, said(f.Task.Error))
	e.Command = f.command("task retry", nil, f.Item.TaskID)
}

// said returns a failure as the end of a sentence.
func said(f *pawl.Failure) string {
	if f == nil {
		return ""
	}
	text := strings.TrimSuffix(clip(cmp.Or(f.Message, f.Code), 400), ".")
	if f.Code != "" && f.Message != "" {
		text = f.Code + ": " + text
	}
	return ": " + text
}

// leased explains an item that a worker holds.
func (f *whyFacts) leased(e *explanation) {
	it := &f.Item
	lease := time.Duration(it.LeaseSeconds) * time.Second
	since, called, sign := it.UpdatedAt, it.UpdatedAt, "its last heartbeat"
	if it.LeaseAcquiredAt != nil {
		since = *it.LeaseAcquiredAt
	}
	if it.HeartbeatAt != nil {
		called = *it.HeartbeatAt
	}
	if it.State == pawl.ItemLeased {
		sign = "its claim"
	}
	e.NextAt = it.LeaseExpiresAt
	silent := max(0, f.Now.Sub(called)).Truncate(time.Second)
	e.Holder = &pawl.Holder{WorkerID: it.WorkerID, ItemID: it.ID, SilentSeconds: int64(silent / time.Second)}
	who := fmt.Sprintf("Worker %s holds it, in attempt %d", it.WorkerID, it.Attempt)
	e.Command = f.command("item revoke-lease", []string{"--attempt", fmt.Sprint(it.Attempt)}, it.ID)
	missed := pawl.DefaultStaleBeats * lease / pawl.HeartbeatsPerLease
	switch {
	case it.LeaseExpiresAt != nil && !f.Now.Before(*it.LeaseExpiresAt):
		e.Reason, e.Since, e.NextAt = pawl.WhyStalled, *it.LeaseExpiresAt, nil
		e.Headline = who + ", but its lease is over."
		e.Detail = "The next sweep queues it again, or fails it if that was its last attempt."
		if f.SweepsRest {
			e.Detail += " No server runs sweeps."
		}
		e.Command = f.command("sweep", nil)
	case f.Now.Sub(called) > missed:
		e.Reason, e.Since = pawl.WhyStalled, called
		e.Headline = fmt.Sprintf("%s, but has not called since %s %s ago; a lease of %s needs a heartbeat every %s.", who, sign,
			silent, lease, lease/pawl.HeartbeatsPerLease)
		e.Detail = "Without a call its lease ends, and the item is queued again or fails."
	default:
		e.Reason, e.Since = pawl.WhyRunning, since
		e.Headline = fmt.Sprintf("%s, at %d %%%s; it last called %s ago.", who, it.Progress, stage(it.Stage), silent)
		e.Detail = "Each heartbeat extends its lease."
	}
}

func stage(s string) string {
	if s == "" {
		return ""
	}
	return ", stage " + s
}

// submitted explains an item whose result waits for its task.
func (f *whyFacts) submitted(e *explanation) {
	it := &f.Item
	e.Reason = pawl.WhyNeedsApproval
	e.Since = f.Task.LastTransitionedAt
	switch {
	case it.State == pawl.ItemAccepted:
		e.Reason, e.Headline = pawl.BlockedByDependency, "It is accepted, and waits until its task is applied."
		f.because(e)
	case f.Task.State != pawl.TaskSubmitted:
		e.Since = it.UpdatedAt
		e.Headline = fmt.Sprintf("Its result is submitted; the task can be approved when %d other items have ended.", f.Pending)
		f.because(e)
	default:
		e.NextAt = f.DecideBy
		e.Headline = "Its result is submitted, and its task waits for an approval."
		e.Command = f.command("task approve", nil, it.TaskID)
		if !f.Task.ReadyForApproval {
			e.Headline = "Its result is submitted, and its task waits for a decision; its checks have not passed" + said(f.Task.Error) + "."
			e.Command = f.command("task reject", []string{"--rework", "--error", "checks=its checks have not passed"}, it.TaskID)
		}
		if !f.Task.ReadyForApproval && f.Task.Error == nil {
			e.Headline = "Its result is submitted, and its task waits for its checks: a process that has the hooks of its type runs them."
			e.Command = ""
		}
	}
	if e.Command == "" {
		e.Command = f.command("task cancel", nil, it.TaskID)
	}
}

// because adds what the item is that this one waits for, and takes over the command that
// changes it.
func (f *whyFacts) because(e *explanation) {
	if c := f.Cause; c != nil {
		e.Detail = strings.Join(sentences(fmt.Sprintf("Item %s (%s): %s", c.ItemID, c.Reason, c.Headline), e.Detail), " ")
		e.Command, e.Holder = c.Command, c.Holder
	}
}

// command writes a command line. A value that begins with a dash is an argument, not a flag.
func (f *whyFacts) command(verb string, flags []string, args ...string) string {
	words := append(slices.Clone(args), flags...)
	if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		words = append(append(slices.Clone(flags), "--"), args...)
	}
	return shellwords.Line(f.Item.Namespace, verb, words...)
}

// listed quotes a value of a flag that takes a list, whose values are read as CSV.
func listed(s string) string {
	if strings.ContainsAny(s, ",\"\n\r") || s == "" {
		return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
	}
	return s
}

// mostTelling lists the reasons, with those first that tell most about the state of a task.
var mostTelling = []string{pawl.WhyStalled, pawl.WhyFailed, pawl.BlockedByNoWorker, pawl.BlockedByPause, pawl.BlockedByBudget,
	pawl.BlockedBySignal, pawl.BlockedByConcurrency, pawl.BlockedByRate, pawl.BlockedByOrder, pawl.BlockedByChildren,
	pawl.WhyRunning, pawl.WhyQueued, pawl.BlockedByTime, pawl.BlockedByDependency, pawl.WhyNeedsApproval, pawl.WhyEnded}
