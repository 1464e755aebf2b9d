package stats

import (
	"context"
	"maps"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// counted are the totals, added up.
type counted struct {
	events       map[string]int64            // by namespace
	items, tasks map[string]map[string]int64 // by namespace and state; tasks by their stored state
	queues       map[store.QueueName]map[string]int64
}

// readTotals is store.ReadTotals.
func readTotals(ctx context.Context, tx store.Tx, namespace string) (c counted, known, exact bool, err error) {
	totals, known, exact, err := store.ReadTotals(ctx, tx, namespace)
	c = counted{map[string]int64{}, map[string]map[string]int64{}, map[string]map[string]int64{}, map[store.QueueName]map[string]int64{}}
	for k, n := range totals {
		c.events[k.Namespace] += n
		m, _ := k.Move()
		from, to := m.TaskFrom, m.TaskTo
		if m.Class == store.MoveOfTask {
			from, to = m.From, m.To
		} else {
			move(c.items, k.Namespace, m.From, m.To, n)
			move(c.queues, k.QueueName, m.From, m.To, n)
		}
		move(c.tasks, k.Namespace, from, to, n)
	}
	for _, states := range c.items {
		maps.DeleteFunc(states, func(state string, n int64) bool { return state == "" || n <= 0 })
	}
	return c, known, exact, err
}

// move moves n from one state to another; "" is none.
func move[K comparable](counts map[K]map[string]int64, of K, from, to string, n int64) {
	if counts[of] == nil {
		counts[of] = map[string]int64{}
	}
	counts[of][from] -= n
	counts[of][to] += n
}

// openTasks returns how many tasks of a namespace have neither ended nor failed.
func (c *counted) openTasks(namespace string) (n int64) {
	for state, tasks := range c.tasks[namespace] {
		if state != "" && !pawl.TaskState(state).Over() {
			n += tasks
		}
	}
	return n
}
