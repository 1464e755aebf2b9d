package engine

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

// blocked explains an item that cannot be claimed.
func (f *whyFacts) blocked(e *explanation) {
	it, b := &f.Item, f.Item.BlockedBy
	e.Reason, e.NextAt = b.Reason, b.Until
	e.Headline = "It waits: " + b.Detail + "."
	switch b.Reason {
	case pawl.BlockedByPause:
		f.paused(e)
	case pawl.BlockedByNoWorker:
		e.Headline = "It is queued, but no live worker takes " + it.Type + "."
		if f.LastSeen != nil {
			e.Since = later(e.Since, *f.LastSeen)
			e.Detail = fmt.Sprintf("A worker that takes it was last seen %s ago.", f.Now.Sub(*f.LastSeen).Round(time.Second))
		}
		e.Detail = strings.Join(sentences(e.Detail, "It is claimed when a worker starts that takes this type."), " ")
		e.Command = f.command("worker", []string{"--type", listed(it.Type), "--exec", "--", "./handler"})
	case pawl.BlockedByConcurrency, pawl.BlockedByRate, pawl.BlockedByOrder:
		f.limited(e)
	case pawl.BlockedBySignal:
		e.Headline = "It waits for the signal " + b.Detail + "."
		e.Detail = "It is queued when the signal is sent" + orUntil(b.Until) + "."
		var key []string
		if f.SignalKey != "" {
			key = []string{"--signal-key", f.SignalKey}
		}
		e.Command = f.command("signal send", key, f.Signal)
	case pawl.BlockedByBudget:
		f.budget(e)
	case pawl.BlockedByEffect:
		e.Headline = "It waits for a decision about effect " + b.Detail + "."
		e.Detail = "It is queued when a person approves or resolves the effect" + orUntil(b.Until) + "."
		e.Command = f.command("effect get", nil, b.Detail)
	case pawl.BlockedByTime:
		f.scheduled(e)
	case pawl.BlockedByDependency:
		e.Headline = "It waits for an item to complete: " + b.Detail + "."
		f.because(e)
	case pawl.BlockedByChildren:
		e.Headline = "It waits for children of its task: " + b.Detail + "."
		f.because(e)
	}
	if e.Command == "" {
		e.Command = f.command("task cancel", []string{"--item", it.ID}, it.TaskID)
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func orUntil(t *time.Time) string {
	if t == nil {
		return ""
	}
	return ", or at " + t.UTC().Format(time.RFC3339)
}

func (f *whyFacts) paused(e *explanation) {
	typ := f.Item.Type
	e.Headline = "It is queued, but queue " + typ + " is paused."
	e.Detail = "Nothing is claimed from the queue until it is resumed."
	e.Command = f.command("queue resume", nil, typ)
	q := f.Queue
	if q == nil {
		return
	}
	if q.PausedAt != nil {
		e.Since = later(e.Since, *q.PausedAt)
	}
	if q.NamespacePausedAt == nil {
		return
	}
	e.Since = later(e.Since, *q.NamespacePausedAt)
	e.Headline = "It is queued, but all queues of namespace " + f.Item.Namespace + " are paused."
	e.Detail = "Nothing is claimed until the namespace is resumed."
	if q.PausedAt != nil {
		e.Detail = "Nothing is claimed until the namespace is resumed, and queue " + typ + " too, which is paused itself."
	}
	e.Command = f.command("queue resume", []string{"--all"})
}

// limitOfQueue reports whether it is a limit of a whole queue, not of a key.
func limitOfQueue(b *pawl.Blocked) bool { return strings.HasPrefix(b.Detail, "queue ") }

// limited explains an item that the limits of its queue hold back.
func (f *whyFacts) limited(e *explanation) {
	b, typ := f.Item.BlockedBy, f.Item.Type
	if f.Queue == nil {
		return
	}
	ofQueue := limitOfQueue(b)
	limits := &f.Queue.QueueLimits
	concurrency, rate, flag := limits.Concurrency, limits.Rate, "--"
	if k := limits.PerKey; !ofQueue && k != nil {
		concurrency, rate, flag = k.Concurrency, k.Rate, "--key-"
	}
	switch {
	case b.Reason == pawl.BlockedByConcurrency && concurrency != nil:
		e.Headline = "It is queued, but its limit of leases is reached: " + b.Detail + "."
		f.because(e)
		if c := f.Cause; c != nil && c.Reason == pawl.WhyStalled { // a higher limit would keep the lost lease
			e.Detail += " It is claimed when this lease ends, in its turn."
			return
		}
		e.Detail += " It is claimed when one of these leases ends, in its turn. A higher limit lets it start at once."
		if h := e.Holder; h != nil {
			e.Detail += " If " + h.WorkerID + " hangs, end its lease: `" + f.command("item revoke-lease", nil, h.ItemID) + "`."
		}
		e.Detail = strings.TrimPrefix(e.Detail, " ")
		e.Command = f.command("queue set", []string{flag + "concurrency", strconv.Itoa(*concurrency + 1)}, typ)
	case b.Reason == pawl.BlockedByRate && rate != nil:
		e.Headline = "It is queued, but its rate is used up: " + b.Detail + "."
		e.Detail = "The rate allows the next start then. A larger burst allows it now."
		burst := rate.Burst
		if burst == 0 {
			burst = rate.Limit
		}
		e.Command = f.command("queue set", []string{flag + "rate", fmt.Sprintf("%d/%ds,%d", rate.Limit, rate.Seconds, 2*burst)}, typ)
	case b.Reason == pawl.BlockedByOrder:
		e.Headline = "It is queued, but the items of its key are claimed one at a time: " + b.Detail + "."
		f.because(e)
		if e.Command == "" {
			e.Command = f.command("queue set", []string{"--order", "none"}, typ)
		}
	}
}

func (f *whyFacts) budget(e *explanation) {
	b := f.Budget
	if b == nil { // it was deleted, or the signal's key names none
		e.Headline = "It waits for a budget."
		if name := f.Item.BlockedBy.Detail; name != "" {
			e.Headline = "It waits for a budget that does not exist: " + name + "."
		}
		e.Detail = "It is queued when the signal is sent" + orUntil(f.Item.BlockedBy.Until) + "."
		return
	}
	e.Headline = fmt.Sprintf("It waits for budget %s: %d of %d %s are spent and %d reserved.", b.Name, b.Spent, b.Limit, b.Unit, b.Reserved)
	if f.Question != "" {
		e.Detail = "It asks a person for more in task " + f.Question + "."
		e.Command = f.command("task approve", nil, f.Question)
		return
	}
	e.Detail = "It is queued when the budget is changed" + orUntil(f.Item.BlockedBy.Until) + "."
	limit := b.Limit + max(b.Limit, 1-b.Remaining)
	e.Command = f.command("budget set", []string{"--limit", strconv.FormatInt(min(limit, pawl.MaxBudgetAmount), 10)}, b.Name)
	if c := f.Cause; c != nil { // an attempt that has reserved some of it; if it goes on, it settles
		raise := e.Command
		if f.because(e); c.Reason != pawl.WhyStalled {
			e.Command = raise
		}
	}
}

func (f *whyFacts) scheduled(e *explanation) {
	it, b := &f.Item, f.Item.BlockedBy
	what := map[string]string{"sleep": "sleeps", "run_at": "has a later start"}[b.Detail]
	if what == "" {
		what = "waits, " + b.Detail
	}
	e.Headline = "It " + what + "."
	if b.Until != nil {
		e.Headline = fmt.Sprintf("It %s until %s.", what, b.Until.UTC().Format(time.RFC3339))
	}
	if b.Until != nil && !f.Now.Before(*b.Until) {
		e.Detail, e.NextAt = "This time has come: the next sweep queues it.", nil
		if f.SweepsRest {
			e.Detail += " No server runs sweeps."
		}
		e.Command = f.command("sweep", nil)
		return
	}
	e.Detail = "It is queued by itself at that time. Nothing makes it start earlier; it can only be cancelled."
	if f.SweepsRest {
		e.Detail += " No server runs sweeps now."
	}
	e.Command = f.command("task cancel", []string{"--item", it.ID}, it.TaskID)
}
