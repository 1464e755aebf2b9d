package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
)

// postponed are the tasks whose next step this process could not take, for the lack of a hook or since the check failed,
// and when its loop tries again. Another process may take the step before.
type postponed struct {
	mu    sync.Mutex
	tasks map[string]postponement
	pass  int      // of the loop
	notes []string // the hooks that processes had of types when they were read last
}

type postponement struct {
	state string // of the task: in another one, another step is owed
	tries int
	until int64 // by the database's clock
	pass  int   // the last one that has seen the task
}

// maxPostponed bounds the tasks that are remembered.
const maxPostponed = 100_000

// hookBackoff is the delay before a step that could not be taken is tried again.
var hookBackoff = pawl.Backoff{BaseSeconds: int(often / time.Second), MaxSeconds: 300}

// note remembers whether the step of a task in a state was taken.
func (p *postponed) note(taskID, state string, now int64, taken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if taken {
		delete(p.tasks, taskID)
		return
	}
	if p.tasks == nil || len(p.tasks) >= maxPostponed { // of a process without Run, none is forgotten
		p.tasks = map[string]postponement{}
	}
	tries := 1
	if t := p.tasks[taskID]; t.state == state {
		tries += t.tries
	}
	delay := float64(hookBackoff.After(tries).Microseconds()) * hookBackoff.Jitter()
	p.tasks[taskID] = postponement{state, tries, now + int64(delay), p.pass}
}

// waits reports whether the loop leaves a task in a state alone for now.
func (p *postponed) waits(taskID, state string, now int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, found := p.tasks[taskID]
	if found {
		t.pass = p.pass
		p.tasks[taskID] = t
	}
	return found && t.state == state && t.until > now
}

func (p *postponed) any() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.tasks) > 0
}

// begin begins a pass of the loop. A hook that was taken back, or is new, may let each task go on.
func (p *postponed) begin(notes []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.notes != nil && !slices.Equal(p.notes, notes) {
		p.tasks = nil
	}
	p.notes = notes
	p.pass++
}

// end forgets the tasks that a whole pass has not seen: no step is owed to them.
func (p *postponed) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, t := range p.tasks {
		if t.pass < p.pass {
			delete(p.tasks, id)
		}
	}
}
