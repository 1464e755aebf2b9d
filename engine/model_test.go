package engine_test

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
)

// model is Pawl in memory, as simple as docs/contract.md allows. The random walk is
// compared with it.
type model struct {
	now    time.Time
	tasks  []*modelTask
	fences []pawl.Fence // every claim of the walk
}

type modelTask struct {
	id          string
	stored      pawl.TaskState
	version     int
	checkpoints int64
	items       []*modelItem
}

type modelItem struct {
	task                           *modelTask
	id, typ                        string
	state                          pawl.ItemState
	priority, order                int
	again                          bool // it was queued again
	low                            bool // soon after its second claim or a later one
	clock                          *time.Time
	claimed                        time.Time
	attempt, failures, max, spared int
	holder, last, left             string
	prefetch                       bool
	seconds                        int
	until                          time.Time // leased: its end; scheduled, waiting: when it is queued
}

func (m *model) all() []*modelItem {
	var out []*modelItem
	for _, t := range m.tasks {
		out = append(out, t.items...)
	}
	return out
}

func (m *model) item(id string) *modelItem {
	for _, i := range m.all() {
		if i.id == id {
			return i
		}
	}
	return nil
}

func (t *modelTask) count(states ...pawl.ItemState) int {
	n := 0
	for _, i := range t.items {
		if slices.Contains(states, i.state) {
			n++
		}
	}
	return n
}

func (t *modelTask) open() int {
	return t.count(pawl.ItemQueued, pawl.ItemScheduled, pawl.ItemWaiting, pawl.ItemLeased, pawl.ItemInProgress)
}

func (t *modelTask) move(to pawl.TaskState) {
	t.stored = to
	t.version++
}

// settle ends an open task whose last item has no work left.
func (t *modelTask) settle() {
	if t.stored == pawl.TaskOpen && t.open() == 0 {
		t.move(t.settled())
	}
}

func (t *modelTask) settled() pawl.TaskState {
	switch {
	case t.count(pawl.ItemFailed) > 0:
		return pawl.TaskFailed
	case t.count(pawl.ItemDeadLettered) > 0:
		return pawl.TaskDeadLettered
	case t.count(pawl.ItemCancelled) == len(t.items):
		return pawl.TaskCancelled
	}
	return pawl.TaskCompleted
}

// shown returns the state that callers read.
func (t *modelTask) shown() pawl.TaskState {
	switch {
	case t.stored != pawl.TaskOpen:
		return t.stored
	case t.count(pawl.ItemInProgress) > 0, t.open() < len(t.items):
		return pawl.TaskInProgress
	case t.count(pawl.ItemLeased) > 0:
		return pawl.TaskCheckedOut
	}
	return pawl.TaskQueued
}

// status returns an item's status: expired if its lease has run out.
func (m *model) status(i *modelItem) pawl.Status {
	if i.state.Leased() && !m.now.Before(i.until) {
		return pawl.StatusExpired
	}
	return i.state.Status()
}

func (m *model) claim(req pawl.ClaimRequest) []*modelItem {
	var queue []*modelItem
	for _, i := range m.all() {
		if i.state == pawl.ItemQueued && (len(req.Types) == 0 || slices.Contains(req.Types, i.typ)) &&
			(req.TaskID == "" || req.TaskID == i.task.id) {
			queue = append(queue, i)
		}
	}
	slices.SortFunc(queue, func(a, b *modelItem) int {
		return cmp.Or(a.rank()-b.rank(), a.order-b.order)
	})
	queue = queue[:min(len(queue), req.Limit)]
	for _, i := range queue {
		i.state, i.holder, i.last, i.left = pawl.ItemLeased, req.WorkerID, req.WorkerID, ""
		i.attempt++
		i.claimed = m.now
		i.prefetch, i.seconds = req.Prefetch, req.LeaseSeconds
		i.until = m.now.Add(time.Duration(req.LeaseSeconds) * time.Second)
		m.fences = append(m.fences, pawl.Fence{ItemID: i.id, WorkerID: req.WorkerID, Attempt: i.attempt})
	}
	return queue
}

// verdict returns the answer to a fenced verb in the order of docs/contract.md §3: a
// code, and the reason or state.
func (m *model) verdict(i *modelItem, f pawl.Fence) (pawl.Code, string) {
	switch {
	case f.Attempt != i.attempt || f.WorkerID != i.last:
		return pawl.CodeLeaseLost, pawl.ReasonTaken
	case i.state.Ended():
		return pawl.CodeConflict, string(i.state)
	case i.state.Leased() && !m.now.Before(i.until), i.left == "expired":
		return pawl.CodeLeaseLost, pawl.ReasonExpired
	case i.left == "released", i.left == "suspended":
		return pawl.CodeLeaseLost, pawl.ReasonReleased
	case !i.state.Leased():
		return pawl.CodeConflict, string(i.state)
	}
	return "", ""
}

// leave ends the lease of an item.
// back notes that the item comes back to the queue, or will.
func (i *modelItem) back() {
	i.again, i.low = true, i.attempt > 1 && i.clock.Sub(i.claimed) < pawl.MinReturnSeconds*time.Second
}

// rank orders claims: what comes back, fresh items, what comes back soon again.
func (i *modelItem) rank() int {
	switch {
	case !i.again:
		return 1 - 2*i.priority
	case i.low:
		return 2 - 2*i.priority
	}
	return -2 * i.priority
}

func (i *modelItem) leave(to pawl.ItemState, by string, until time.Time) {
	i.state, i.holder, i.left, i.until = to, "", by, until
	i.back()
	i.task.settle()
}

func (i *modelItem) fail(by string, retry bool, at, now time.Time) {
	i.failures++
	i.task.checkpoints++
	switch {
	case !retry || i.failures >= i.max:
		i.leave(pawl.ItemFailed, by, time.Time{})
	case at.After(now):
		i.leave(pawl.ItemScheduled, by, at)
	default:
		i.leave(pawl.ItemQueued, by, time.Time{})
	}
}

func (m *model) sweep() {
	for _, i := range m.all() {
		if !i.state.Leased() || m.now.Before(i.until) {
			continue
		}
		if i.prefetch && i.state == pawl.ItemLeased && i.spared < i.max {
			i.spared++
			i.leave(pawl.ItemQueued, "expired", time.Time{})
		} else {
			i.fail("expired", true, m.now, m.now)
		}
	}
	for _, i := range m.all() {
		if (i.state == pawl.ItemScheduled || i.state == pawl.ItemWaiting) && !m.now.Before(i.until) {
			i.state = pawl.ItemQueued
			i.back()
		}
	}
}

// due makes the model follow what Pawl may do at any moment: queue the items that are
// due.
func (m *model) due(i *modelItem, seen pawl.ItemState) {
	if i != nil && seen == pawl.ItemQueued && (i.state == pawl.ItemScheduled || i.state == pawl.ItemWaiting) && !m.now.Before(i.until) {
		i.state = pawl.ItemQueued
		i.back()
	}
}

// operate is a cancel, retry or bury of a task or one of its items.
func (m *model) operate(verb string, t *modelTask, only *modelItem) (pawl.Code, string) {
	from := map[string][]pawl.ItemState{
		"retry": {pawl.ItemFailed, pawl.ItemDeadLettered}, "bury": {pawl.ItemFailed},
		"cancel": {pawl.ItemQueued, pawl.ItemScheduled, pawl.ItemWaiting, pawl.ItemLeased, pawl.ItemInProgress, pawl.ItemFailed,
			pawl.ItemDeadLettered},
	}[verb]
	again := verb == "retry" && t.stored == pawl.TaskOpen && t.count(from...) > 0
	if only == nil && !again && !slices.Contains(t.stored.Allowed(), verb) {
		return pawl.CodeConflict, string(t.shown())
	}
	if only != nil && !slices.Contains(from, only.state) {
		return pawl.CodeConflict, string(only.state)
	}
	for _, i := range t.items {
		if (only != nil && i != only) || !slices.Contains(from, i.state) {
			continue
		}
		switch i.holder = ""; verb {
		case "retry":
			i.state, i.failures = pawl.ItemQueued, 0
			i.back()
		case "bury":
			i.state = pawl.ItemDeadLettered
		case "cancel":
			i.state = pawl.ItemCancelled
		}
	}
	switch {
	case verb == "cancel" && only == nil:
		t.move(pawl.TaskCancelled)
	case verb == "cancel" && slices.Contains([]pawl.TaskState{pawl.TaskFailed, pawl.TaskDeadLettered}, t.stored):
		if to := t.settled(); to != t.stored {
			t.move(to)
		}
	case verb == "retry" && t.stored != pawl.TaskOpen:
		t.move(pawl.TaskOpen)
	case verb == "bury" && t.stored == pawl.TaskFailed && t.count(pawl.ItemFailed) == 0:
		t.move(pawl.TaskDeadLettered)
	default:
		t.settle()
	}
	return "", ""
}
