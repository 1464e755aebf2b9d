package engine_test

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
)

// walkTheme is what a round is about.
type walkTheme struct {
	name  string
	types []string // of most tasks; none = any
	verbs []string // that are called often
}

// walkThemes are the themes of rounds, in turn. Faults where two features meet need many calls of
// the same few verbs.
var walkThemes = []walkTheme{
	{"families", []string{"family", "brief"},
		[]string{"raise a family", "spawn", "await", "delete beside a child", "cancel", "age", "restore"}},
	{"limits", []string{"limited", "plain"}, []string{"set limits", "claim", "complete", "open a transaction", "time passes"}},
	{"ages", []string{"brief"}, []string{"wear out", "age", "append", "append checkpoints", "fork", "restore"}},
	{"replaced", []string{"plain", "brief"}, []string{"replace", "claim", "age", "delete"}},
	{name: "anything"},
}

// walkRecord is what the answers of a round have promised.
type walkRecord struct {
	mu          sync.Mutex
	checkpoints map[string][]int64           // of a task: the numbers of those that were accepted
	chunks      map[string]int64             // of a message: how many were accepted
	tasks       map[string]string            // of a message
	children    map[string]map[string]string // of a task: by key
	parents     map[string]string            // of a task
	gone        map[string]bool              // tasks whose deletion was asked for
	signals     map[walkSignal]bool
	payloads    map[string][]string // of a unique key: those that were sent
	unique      map[string]string   // of a task: its unique key
	limited     map[string]string   // of a task with limits: the key of its queue
}

func newWalkRecord() *walkRecord {
	return &walkRecord{checkpoints: map[string][]int64{}, chunks: map[string]int64{}, tasks: map[string]string{},
		children: map[string]map[string]string{}, parents: map[string]string{}, gone: map[string]bool{}, signals: map[walkSignal]bool{},
		payloads: map[string][]string{}, unique: map[string]string{}, limited: map[string]string{}}
}

// checkpoint notes that a task's checkpoint was accepted.
func (r *walkRecord) checkpoint(task string, number int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checkpoints[task] = append(r.checkpoints[task], number)
}

// chunk notes that a message has at least n chunks.
func (r *walkRecord) chunk(message string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.chunks[message] = max(r.chunks[message], n)
}

// checkRecord compares what is in the database with what was acknowledged.
func (w *concurrentWalk) checkRecord(when string) {
	w.Helper()
	there := map[string]pawl.Task{}
	for _, task := range w.readTasks() {
		there[task.ID] = task
	}
	for id, numbers := range w.record.checkpoints {
		if there[id].ID == "" {
			continue // it was deleted, or readTasks has said that it is missing
		}
		all := pawl.CheckpointFilter{TaskID: id, Brief: true, Page: pawl.Page{Limit: pawl.MaxPage}}
		list, err := w.p.Service.ListCheckpoints(w.Context(), all)
		w.accept(err)
		for _, number := range numbers {
			if !slices.ContainsFunc(list.Items, func(c pawl.Checkpoint) bool { return c.Sequence == number }) {
				w.Errorf("%s: the checkpoint %d of %s %s was accepted and is not there", when, number, there[id].Type, id)
			}
		}
	}
	for id, n := range w.record.chunks {
		if there[w.record.tasks[id]].ID == "" {
			continue
		}
		m, err := w.p.Service.GetMessage(w.Context(), id)
		if w.accept(err); err == nil && m.Offset < n {
			w.Errorf("%s: %d chunks of %s were accepted and there are %d", when, n, id, m.Offset)
		}
	}
	for id, key := range w.record.unique {
		if t, is := there[id]; is && !slices.Contains(w.record.payloads[key], string(w.payloadOf(t.ID))) {
			w.Errorf("%s: task %s of %q has a payload that was not sent: %s", when, id, key, w.payloadOf(t.ID))
		}
	}
	w.checkFamilies(when, there)
	w.checkSignals(when)
}

func (w *concurrentWalk) payloadOf(task string) []byte {
	t, err := w.p.Service.GetTask(w.Context(), task)
	w.accept(err)
	return t.Payload
}

// checkFamilies checks that each child is listed as one of its parent, and that none goes on after
// the parent was cancelled.
func (w *concurrentWalk) checkFamilies(when string, there map[string]pawl.Task) {
	w.Helper()
	for child, parent := range w.record.parents {
		p, c := there[parent], there[child]
		if p.ID == "" || c.ID == "" {
			continue
		}
		list, err := w.p.Service.ListTasks(w.Context(), pawl.TaskFilter{ParentIDs: []string{parent}})
		w.accept(err)
		if !slices.ContainsFunc(list.Items, func(t pawl.Task) bool { return t.ID == child }) {
			w.Errorf("%s: the task %s has lost its child %s", when, parent, child)
		}
		if !c.State.Ended() && p.State == pawl.TaskCancelled {
			w.Errorf("%s: the child %s is %s, its parent %s was cancelled", when, child, c.State, parent)
		}
	}
	for parent, children := range w.record.children {
		for key, child := range children {
			if there[parent].ID != "" && there[child].ID != "" && w.keyOf(child) != key {
				w.Errorf("%s: the child %s of %s has the key %q, it was spawned with %q", when, child, parent, w.keyOf(child), key)
			}
		}
	}
}

func (w *concurrentWalk) keyOf(child string) (key string) {
	w.lookUp(&key, "SELECT COALESCE(key, '') FROM pawl.child_links WHERE child_id = '"+child+"'")
	return key
}

func (w *concurrentWalk) checkSignals(when string) {
	w.Helper()
	for s := range maps.Keys(w.record.signals) {
		n := w.count("SELECT COUNT(*) FROM pawl.signals WHERE sent_at IS NOT NULL AND name = $1 AND key = $2", s.Name, s.Key)
		if n != 1 {
			w.Errorf("%s: the signal %q %q was accepted and is stored %d times", when, s.Name, s.Key, n)
		}
	}
}

// retire lets the short retention pass: all tasks that have it are archived. What comes back from the
// archives is all that was acknowledged.
func (w *concurrentWalk) retire() {
	w.Helper()
	if !w.archives() || w.Failed() {
		return
	}
	w.p.Advance(2 * time.Minute)
	for range 4 { // later passes have what another one was doing at the time of the first; on a busy machine it may be slow
		_, err := w.p.Service.Sweep(w.Context())
		w.accept(err)
	}
	for _, id := range w.tasks {
		_, err := w.p.Service.GetTask(w.Context(), id)
		gone := errors.Is(err, pawl.ErrNotFound)
		if !gone {
			w.accept(err)
		}
		if gone != walkBrief(w.types[id]) {
			w.Errorf("two minutes after its end a task of type %s is gone: %v", w.types[id], gone)
		}
	}
	w.checkRules("with archived tasks")
	w.restoreApart()
	w.checkRecord("after the archives were restored")
	w.checkRules("after the archives were restored")
}

// checkLog compares the whole transparency log with the events.
func (w *concurrentWalk) checkLog() {
	w.Helper()
	_, err := w.p.Service.Sweep(w.Context()) // the log is up to date after it
	w.accept(err)
	breaches, _, err := w.p.Engine.CheckLog(w.Context(), -1)
	w.accept(err)
	for _, b := range breaches {
		w.Errorf("the log: %s: %s", b.Subject, b.Found)
	}
}
