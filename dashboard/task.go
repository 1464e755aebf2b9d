package dashboard

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// taskPage is a task with what belongs to it.
type taskPage struct {
	pawl.Task
	Why        *pawl.Why // nil = it has ended
	Result     *pawl.TaskResult
	Tree       *tree
	Timeline   *timeline
	Graph      *graph
	Work       section[pawl.Item]
	Messages   section[pawl.Message]
	Streaming  *messagePage // that is being written
	Steps      steps
	Compared   *comparison
	Provenance section[pawl.ProvenanceRecord]
	Spent      section[pawl.TaskSpending]
	Record     *record
	Events     section[pawl.Event]
	Items      names       // of the task, for its events
	Parents    names       // of the parent and the task that it is a fork of
	Blobs      []pawl.Blob // that the payload and the result refer to
}

func (d *server) task(v *request) (any, error) {
	ctx, id := v.Context(), v.PathValue("id")
	t, err := d.svc.GetTask(ctx, id)
	if err != nil {
		return nil, err
	}
	v.shows("/v1/tasks/"+escape(id), pawlCommand("task", "get").on(id), pawlCommand("event", "list", "--task="+id))
	s := &taskPage{
		Task:       t,
		Work:       sectionOf(d.svc.ListItems(ctx, pawl.ItemFilter{TaskID: id, Page: v.pageOf("items", mediumRows)})),
		Messages:   sectionOf(d.svc.ListMessages(ctx, pawl.MessageFilter{TaskID: id, Page: v.pageOf("messages", mediumRows)})),
		Steps:      d.steps(v, pawl.CheckpointFilter{TaskID: id}),
		Provenance: sectionOf(d.svc.ListProvenance(ctx, pawl.ProvenanceFilter{TaskID: id, Page: pawl.Page{Limit: mediumRows}})),
		Record:     d.record(v, id),
		Events:     sectionOf(d.svc.ListEvents(ctx, pawl.EventFilter{TaskID: id, Page: v.pageOf("events", manyRows)})),
	}
	if i := slices.IndexFunc(s.Messages.Items, func(m pawl.Message) bool { return m.Status == pawl.MessageStreaming }); i >= 0 {
		s.Streaming = &messagePage{Message: s.Messages.Items[i], Hidden: !v.pass.Payloads()}
	}
	s.Items = labels(s.Work.Items)
	s.Parents = d.tasksNamed(ctx, []string{t.ParentID, t.ForkedFrom})
	s.Why = d.whyTask(v, s)
	if t.Children > 0 {
		s.Tree = d.children(v, id)
	}
	s.Graph = graphOf(t, s.Work.Items, s.Tree)
	s.Timeline = d.timeline(ctx, id, "", s.Work.Items, s.Messages.Items, s.Tree)
	if d.opts.Spending != nil {
		spent, err := d.opts.Spending(ctx, id)
		s.Spent = sectionOf(pawl.List[pawl.TaskSpending]{Items: spent}, err)
	}
	if s.Compared, err = d.compare(v, id); err != nil {
		return nil, err
	}
	var result json.RawMessage
	if r, err := d.svc.TaskResult(ctx, id); err == nil { // otherwise it has no result yet
		s.Result, result = &r, r.Payload
	}
	s.Blobs = d.blobs(v, t.Payload, result)
	return s, nil
}

// maxExplained is the size of tasks whose items are all looked at for the one that tells most.
// Of larger tasks the first open item on the page is explained.
const maxExplained = 500

func (d *server) whyTask(v *request, s *taskPage) *pawl.Why {
	if s.Task.Items <= maxExplained {
		return d.why(v, s.ID, s.State.Ended())
	}
	i := slices.IndexFunc(s.Work.Items, func(it pawl.Item) bool { return !it.State.Ended() })
	if i < 0 {
		return nil
	}
	return d.why(v, s.Work.Items[i].ID, false)
}

// why explains the state of a task or item that has not ended.
func (d *server) why(v *request, id string, ended bool) *pawl.Why {
	if ended {
		return nil
	}
	w, err := d.svc.Why(v.Context(), id)
	if err != nil { // the page says what it waits for without it, in fewer words
		return nil
	}
	return &w
}

// Held is how many items a worker holds or has handed in: those open that are not pending.
func (s *taskPage) Held() int64 {
	if p := s.ItemsPending; p != nil {
		return int64(s.ItemsOpen) - p.Queued - p.Scheduled - p.Waiting
	}
	return int64(s.ItemsOpen)
}

// Ended is how many items have no work left.
func (s *taskPage) Ended() int { return s.Task.Items - s.ItemsOpen }

// The bounds of a tree of children: levels, and tasks of one level.
const (
	maxTreeDepth = 4
	maxTreeLevel = 50
)

// tree is a task's children, with theirs, in levels.
type tree struct {
	Tasks   []treeTask // in the order in which they are shown
	More    bool       // some children are left out
	Problem *api.Problem
}

type treeTask struct {
	pawl.Task
	Depth int
}

// children reads the descendants of a task, one read for each level.
func (d *server) children(v *request, id string) *tree {
	out, byParent := &tree{}, map[string][]pawl.Task{}
	parents := []string{id}
	for range maxTreeDepth {
		l, err := d.svc.ListTasks(v.Context(), pawl.TaskFilter{ParentIDs: parents, Asc: true, Page: pawl.Page{Limit: maxTreeLevel}})
		if err != nil {
			p := api.ProblemOf(err, "")
			out.Problem = &p
			break
		}
		out.More = out.More || l.Next != ""
		parents = nil
		for _, t := range l.Items {
			byParent[t.ParentID] = append(byParent[t.ParentID], t)
			if t.Children > 0 {
				parents = append(parents, t.ID)
			}
		}
		if len(parents) == 0 {
			break
		}
	}
	out.More = out.More || len(parents) > 0
	var add func(id string, depth int)
	add = func(id string, depth int) {
		for _, t := range byParent[id] {
			out.Tasks = append(out.Tasks, treeTask{t, depth})
			add(t.ID, depth+1)
		}
	}
	add(id, 1)
	return out
}

// steps are the checkpoints of a task or item, newest first.
type steps struct {
	section[pawl.Checkpoint]
	MayFork  bool
	Compares bool // two of them can be chosen and compared
	from, to string
}

func (d *server) steps(v *request, f pawl.CheckpointFilter) steps {
	f.Desc, f.Page = true, v.pageOf("checkpoints", mediumRows)
	s := steps{section: sectionOf(d.svc.ListCheckpoints(v.Context(), f)), MayFork: v.pass.May(forking.Role, false) == nil}
	s.Compares, s.from, s.to = f.TaskID != "" && len(s.Items) > 1, v.param("from"), v.param("to")
	if s.from == "" && s.Compares { // the newest with the one before
		s.from, s.to = strconv.FormatInt(s.Items[1].Sequence, 10), strconv.FormatInt(s.Items[0].Sequence, 10)
	}
	return s
}

// IsFrom and IsTo report whether a checkpoint is the chosen one of the two.
func (s steps) IsFrom(n int64) bool { return s.from == strconv.FormatInt(n, 10) }
func (s steps) IsTo(n int64) bool   { return s.to == strconv.FormatInt(n, 10) }

// comparison is two checkpoints that are compared.
type comparison struct{ From, To pawl.Checkpoint }

// Diff is the difference. It is made when it is shown: the snapshots are hidden by then from
// callers who may not see them.
func (c *comparison) Diff() *diff { return &diff{Before: c.From.Snapshot, After: c.To.Snapshot} }

// compare compares the checkpoints whose numbers are in the parameters from and to.
func (d *server) compare(v *request, id string) (*comparison, error) {
	if v.param("from") == "" && v.param("to") == "" {
		return nil, nil
	}
	from, err := d.checkpoint(v.Context(), id, "from", v.param("from"))
	if err != nil {
		return nil, err
	}
	to, err := d.checkpoint(v.Context(), id, "to", v.param("to"))
	if err != nil {
		return nil, err
	}
	return &comparison{from, to}, nil
}

// checkpoint reads the checkpoint of a task whose number is in a parameter.
func (d *server) checkpoint(ctx context.Context, taskID, param, number string) (pawl.Checkpoint, error) {
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 {
		return pawl.Checkpoint{}, pawl.Invalid("/"+param, "must be the number of a checkpoint")
	}
	// the cursor of a task's checkpoints is the number before
	f := pawl.CheckpointFilter{TaskID: taskID, Page: pawl.Page{Limit: 1, Cursor: strconv.FormatInt(n-1, 10)}}
	l, err := d.svc.ListCheckpoints(ctx, f)
	if err == nil && (len(l.Items) == 0 || l.Items[0].Sequence != n) {
		err = &pawl.Error{Code: pawl.CodeNotFound, Message: "the task has no checkpoint " + number}
	}
	if err != nil {
		return pawl.Checkpoint{}, err
	}
	return l.Items[0], nil
}

// record is what proves that the events of a task were not changed.
type record struct {
	pawl.TaskProof
	None bool // no checkpoint of the log was signed yet
}

// record reads the proofs of the first events of a task; nil = they cannot be read.
func (d *server) record(v *request, id string) *record {
	p, err := d.svc.ProveTask(v.Context(), id, pawl.Page{Limit: mediumRows})
	switch {
	case pawl.CodeOf(err) == pawl.CodeNotFound:
		return &record{None: true}
	case err != nil:
		return nil
	}
	return &record{TaskProof: p}
}

// MessageTable, EventTable and ProvenanceTable are lists of the page with the names of the items.
func (s *taskPage) MessageTable() messageTable {
	return messageTable{s.Messages.Items, names{s.ID: titleOf(s.Task)}}
}

func (s *taskPage) EventTable() eventTable { return eventTable{s.Events.Items, s.Items} }

func (s *taskPage) ProvenanceTable() provenanceTable {
	return provenanceTable{s.Provenance.Items, s.Items}
}

// eventTable is events with the names of their items.
type eventTable struct {
	Items []pawl.Event
	Names names
}

// provenanceTable is records with the names of their items.
type provenanceTable struct {
	Items []pawl.ProvenanceRecord
	Names names
}
