package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/queue"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/engine/internal/tasktypes"
	"github.com/pawl-work/pawl/engine/internal/unique"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/tracing"
)

// draft is a task that is being created: its rows, and its answer except for the time.
type draft struct {
	ord      int
	task     store.NewTask
	items    []store.NewItem
	parts    string // keys of the parts that its items need, as a list; "" = none
	plans    bool   // its only item is a plan item
	ignores  bool   // failed items do not count when it settles
	thread   string
	messages []kernel.NewMessage
	fork     *store.Fork   // the checkpoints that it begins with; nil = none
	staged   *staged       // what is in the database already; nil = nothing
	hold     *unique.Ask   // the key that it is to have; nil = none
	given    *pawl.NewTask // what hold was asked by
}

// hasDeadline reports whether an item of the draft has a deadline: it has a row of its own.
func (d *draft) hasDeadline() bool {
	return slices.ContainsFunc(d.items, func(it store.NewItem) bool { return it.Deadline != nil })
}

// needsOwnTx reports whether more rows are written than by a plain create.
func (d *draft) needsOwnTx() bool { return d.parts != "" || d.plans || d.ignores && !d.task.Solo }

// setTaskType writes what the type sets on a task of many items. Ignores has no meaning
// for a task of one item.
func setTaskType(ctx context.Context, tx store.Tx, taskID string, d *draft) (err error) {
	if d.parts != "" {
		if _, err = tx.Exec(ctx, addItemsSQL["need parts"], store.TaskID(taskID), store.Text(d.parts)); err == nil {
			_, err = tx.Exec(ctx, addItemsSQL["need parts of a task of one"], store.TaskID(taskID), store.Text(d.parts))
		}
	}
	if err == nil && d.plans {
		_, err = tx.Exec(ctx, addItemsSQL["begin planning"], store.TaskID(taskID))
	}
	if err == nil && d.ignores {
		_, err = tx.Exec(ctx, addItemsSQL["ignore failures"], store.TaskID(taskID))
	}
	return err
}

// Bytes returns the size of the draft's values.
func (d *draft) Bytes() int {
	n := d.task.Bytes()
	for i := range d.items {
		n += len(d.items[i].Input)
	}
	for i := range d.messages {
		n += len(d.messages[i].Content) + len(d.messages[i].Metadata)
	}
	if d.fork != nil {
		n += d.fork.Bytes()
	}
	return n
}

// CreateTasks creates tasks with their items; see pawl.TaskMaker.
func (e *Engine) CreateTasks(ctx context.Context, tasks []pawl.NewTask) ([]pawl.Result[pawl.Task], error) {
	tasks = idform.Calls(tasks)
	return withProvenance(ctx, e, "create", tasks, subjectOfTask, (*Engine).createTasks)
}

func (e *Engine) createTasks(ctx context.Context, tasks []pawl.NewTask) ([]pawl.Result[pawl.Task], error) {
	out, drafts, err := e.draftAll(ctx, tasks)
	if err != nil {
		return nil, err
	}
	if err := e.createAll(ctx, out, drafts); err != nil {
		return nil, err
	}
	return out, nil
}

// createAll inserts drafts and stores each answer at the index of its call.
func (e *Engine) createAll(ctx context.Context, out []pawl.Result[pawl.Task], drafts []draft) error {
	if err := e.gateDrafts(ctx, nil, drafts); err != nil {
		return err
	}
	plain, timed, children := make([]draft, 0, len(drafts)), []draft(nil), []draft(nil)
	said := kernel.Answers{Op: "create"}
	for i := range drafts {
		d := &drafts[i]
		if d.hold != nil || d.task.Dedupes {
			if out[d.ord].Err = said.Full(); out[d.ord].Err != nil {
				continue
			}
		}
		if out[d.ord].Err = e.referTask(ctx, "create", d.task.ID, d.blobs()); out[d.ord].Err != nil {
			continue
		}
		if d.hold != nil {
			out[d.ord].Value, out[d.ord].Err = d.hold.Create(ctx, e.k, held{e, d})
			said.Found(out[d.ord])
			continue
		}
		if !d.task.Dedupes && !d.needsOwnTx() && !d.hasMessages() && d.fork == nil && d.staged == nil {
			if d.task.ParentID != nil {
				children = append(children, *d)
			} else if d.hasDeadline() {
				timed = append(timed, *d)
			} else {
				plain = append(plain, *d)
			}
			continue
		}
		out[d.ord].Value, out[d.ord].Err = e.createOnce(ctx, *d)
		said.Found(out[d.ord])
	}
	if err := e.createChildren(ctx, out, children); err != nil {
		return err
	}
	if err := e.createTogether(ctx, out, timed); err != nil || len(plain) == 0 {
		return err
	}
	ords := make([]int, len(plain))
	for i := range plain {
		ords[i], plain[i].ord = plain[i].ord, i
	}
	made, err := e.committers.create.Do(ctx, e.db, plain)
	if err != nil {
		return err
	}
	for _, b := range made {
		out[ords[b.ord]].Value = plain[b.ord].Answer(b.now)
	}
	e.after(func() { e.created(plain, made[0].now) })
	return nil
}

// createTogether inserts drafts in one transaction.
func (e *Engine) createTogether(ctx context.Context, out []pawl.Result[pawl.Task], drafts []draft) error {
	if len(drafts) == 0 {
		return nil
	}
	var made []created
	err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		made, err = e.insertDrafts(ctx, tx, drafts)
		return err
	})
	if err != nil {
		return err
	}
	for i := range drafts {
		out[drafts[i].ord].Value = drafts[i].Answer(made[i].now)
	}
	e.after(func() { e.created(drafts, made[0].now) })
	return nil
}

// draftAll checks every call and drafts the valid ones.
func (e *Engine) draftAll(ctx context.Context, tasks []pawl.NewTask) ([]pawl.Result[pawl.Task], []draft, error) {
	if err := rules.CheckBatch("create", len(tasks)); err != nil {
		return nil, nil, err
	}
	out := make([]pawl.Result[pawl.Task], len(tasks))
	drafts := make([]draft, 0, len(tasks))
	room, shared := rules.CallBytes{Op: "create"}, drafting{items: make([]store.NewItem, 0, len(tasks))}
	said := kernel.Answers{Op: "create"}
	for i := range tasks {
		if out[i].Err = said.Full(); out[i].Err != nil {
			continue
		}
		d, err := e.draft(ctx, &tasks[i], "", &shared)
		if err != nil {
			out[i].Err = err
			said.Take(nil, err)
			continue
		}
		if tasks[i].DryRun {
			out[i].Value = d.dryRunAnswer(clock.Now().UnixMicro())
			said.Take(out[i].Value, nil)
			continue
		}
		if out[i].Err = room.Take(d.Bytes()); out[i].Err != nil {
			continue
		}
		d.ord = i
		drafts = append(drafts, d)
	}
	return out, drafts, nil
}

// created is the time at which a draft was inserted.
type created struct {
	ord int
	now int64
}

// insertInTx inserts drafts that were made for this transaction.
func (e *Engine) insertInTx(ctx context.Context, tx store.Tx, drafts []draft) ([]created, error) {
	if err := e.gateDrafts(ctx, tx, drafts); err != nil {
		return nil, err
	}
	return e.insertDrafts(ctx, tx, drafts)
}

// insertDrafts inserts drafts whose items have their gates.
func (e *Engine) insertDrafts(ctx context.Context, tx store.Tx, drafts []draft) ([]created, error) {
	n := 0
	for i := range drafts {
		n += len(drafts[i].items)
	}
	tasks, items := make([]store.NewTask, 0, len(drafts)), make([]store.NewItem, 0, n)
	for i := range drafts {
		tasks, items = append(tasks, drafts[i].task), append(items, drafts[i].items...)
	}
	if err := e.k.Children.Link(ctx, tx, tasks); err != nil {
		return nil, err
	}
	now, err := insertItems(ctx, tx, e.db.Dialect().Hot, tasks, items)
	if err != nil {
		return nil, err
	}
	out := make([]created, len(drafts))
	for i := range drafts {
		d := &drafts[i]
		if d.needsOwnTx() {
			if err := setTaskType(ctx, tx, d.task.ID, d); err != nil {
				return nil, err
			}
		}
		if err := e.k.Messages.Begin(ctx, tx, now, d.task.ID, d.thread, d.messages); err != nil {
			return nil, err
		}
		if d.staged != nil {
			if err := d.staged.begin(ctx, tx, now); err != nil {
				return nil, err
			}
		}
		if d.fork != nil {
			if err := d.fork.Save(ctx, tx, now, d.task.Namespace, d.task.ID); err != nil {
				return nil, err
			}
		}
		out[i] = created{d.ord, now}
	}
	return out, nil
}

// insertItems inserts items and their deadlines, with their tasks if these are new.
func insertItems(ctx context.Context, tx store.Tx, hot store.Hot, tasks []store.NewTask, items []store.NewItem) (now int64, err error) {
	if now, err = hot.Create(ctx, tx, tasks, items); err != nil {
		return 0, err
	}
	return now, putDeadlines(ctx, tx, items)
}

// created reports new work to waiting claims: the first new item of each queue.
func (e *Engine) created(drafts []draft, now int64) {
	e.k.IDs.Set(now, clock.Now())
	first := map[string]map[store.Queue]string{}
	for i := range drafts {
		d := &drafts[i]
		of := first[d.task.Namespace]
		if of == nil {
			of = map[store.Queue]string{}
			first[d.task.Namespace] = of
		}
		for i := range d.items {
			key := store.Queue{Type: d.items[i].Type, Rank: store.NewRank(d.items[i].Priority)}
			if id, known := of[key]; !known || d.items[i].ID < id {
				of[key] = d.items[i].ID
			}
		}
		if d.staged != nil {
			maps.Copy(of, d.staged.first)
		}
	}
	for namespace, of := range first {
		for key, id := range of {
			e.queues.Inserted(namespace, key.Type, key.Rank, id)
		}
		e.ready(namespace)
	}
}

// createOnce creates a task in a separate transaction. If another task holds its input
// hash, it returns that task.
func (e *Engine) createOnce(ctx context.Context, d draft) (pawl.Task, error) {
	for try := 0; ; try++ {
		var older string
		var now int64
		err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			if d.task.Dedupes {
				if older, err = holderOfHash(ctx, tx, d.task.Namespace, d.task.Type, string(d.task.InputHash)); err != nil || older != "" {
					return err
				}
			}
			made, err := e.insertDrafts(ctx, tx, []draft{d})
			if err == nil {
				now = made[0].now
			}
			return err
		})
		if pawl.CodeOf(err) == pawl.CodeConflict && try < 3 {
			continue // another call took the hash between the check and the insert
		}
		if err != nil {
			return pawl.Task{}, err
		}
		if older == "" {
			e.after(func() { e.created([]draft{d}, now) })
			return d.Answer(now), nil
		}
		t, err := e.GetTask(ctx, older)
		t.Deduplicated = true
		return t, err
	}
}

// draft checks a task and makes its rows. of is the id of the task that it clones; "" =
// none.
func (e *Engine) draft(ctx context.Context, t *pawl.NewTask, of string, shared *drafting) (draft, error) {
	d, err := e.draftRows(ctx, t, of, shared)
	if err == nil && (t.Unique != nil || t.Debounce != nil) {
		if of != "" {
			t = asCreated(t)
		}
		err = d.holds(t, shared != nil && shared.stored)
	}
	return d, err
}

func (e *Engine) draftRows(ctx context.Context, t *pawl.NewTask, of string, shared *drafting) (draft, error) {
	now, err := e.checkTask(ctx, t, shared)
	if err != nil {
		return draft{}, err
	}
	hash, err := inputHash(t)
	if err != nil {
		return draft{}, err
	}
	c := pawl.CallerOf(ctx)
	r, err := tasktypes.Of(e.taskTypes).ForNew(ctx, c.Namespace, t.Type)
	if err == nil && r != nil {
		t, err = r.Planned(ctx, t, of != "", now)
	}
	if err == nil {
		err = e.checkItemTypes(ctx, queue.Pair{Type: t.Type, Priority: t.Priority}, "/items", t.Items)
	}
	if err != nil {
		return draft{}, err
	}
	by := actor(c, pawl.ActorAPI, "")
	if t.RequestedBy != nil && c.ActorID == "" {
		by.ID = t.RequestedBy.ID
	}
	solo := !shared.many && (len(t.Items) == 0 || len(t.Items) == 1 && t.Items[0].Key == "" && len(t.Payload) == 0)
	taskID, itemID := e.k.IDs.Pair()
	row := store.NewTask{ID: taskID, Namespace: c.Namespace, Solo: solo, InputHash: store.Text(hash), Dedupes: hash != "",
		Items: max(1, len(t.Items), shared.total), Actor: by}
	row.Take(t)
	if r != nil {
		row.TypeVersion = r.Version
	}
	row.Schedule, row.TraceParent = store.Text(e.origin.Schedule), store.Text(tracing.Of(ctx))
	row.Data = shared.summary(shared.forkOf(&row, summaryOf{Type: t.Type, Title: t.Title, Priority: t.Priority, Items: row.Items, Of: of,
		Schedule: e.origin.Schedule, Tick: e.origin.Tick}))
	if r != nil && r.Plan.Mode == pawl.PlanItem && len(t.Items) == 0 {
		d := planning(r, row, t, itemID)
		return d, e.startConversation(&d, t)
	}
	if solo {
		item := pawl.NewItem{Input: t.Payload}
		if len(t.Items) == 1 {
			item = t.Items[0]
		}
		it := newItem(&row, t, &item, itemID, 0)
		row.Deadline = it.Deadline // both are one row
		it.Data = store.Text(row.Data)
		d := drafted(r, draft{task: row, items: shared.only(it)})
		return d, e.startConversation(&d, t)
	}
	payload := rules.OrNull(t.Payload)
	row.Payload = &payload
	d := draft{task: row, items: make([]store.NewItem, len(t.Items))}
	for i := range t.Items {
		d.items[i] = newItem(&row, t, &t.Items[i], e.k.IDs.Next("itm"), i)
	}
	d = drafted(r, d)
	return d, cmp.Or(e.startConversation(&d, t), link(d.items, t.Items, nil))
}

// newItem returns an item's row. Fields that the item leaves out come from its task.
func newItem(row *store.NewTask, t *pawl.NewTask, i *pawl.NewItem, id string, position int) store.NewItem {
	it := store.NewItem{ID: id, Namespace: row.Namespace, TaskID: row.ID, Kind: pawl.KindWork, Solo: row.Solo, Position: position,
		Priority: row.Priority, RunAt: micros(i.RunAt), Input: rules.OrNull(i.Input), Actor: row.Actor}
	it.Take(i)
	if it.Type == "" {
		it.Type = row.Type
	}
	if i.Priority != nil {
		it.Priority = *i.Priority
	}
	if it.MaxAttempts == 0 {
		it.MaxAttempts = t.MaxAttempts
	}
	if it.MaxAttempts == 0 {
		it.MaxAttempts = pawl.DefaultMaxAttempts
	}
	if it.RunAt == nil {
		it.RunAt = micros(t.RunAt)
	}
	it.Child = row.ParentID != nil
	it.StartToClose, it.ScheduleToStart, it.Deadline = row.StartToClose, row.ScheduleToStart, row.Deadline
	if own := micros(i.Deadline); own != nil && (it.Deadline == nil || *own < *it.Deadline) {
		it.Deadline = own
	}
	return it
}

// summaryOf is the data of the event proposed.
type summaryOf struct {
	Type     string `json:"type"`
	Title    string `json:"title,omitempty"`
	Priority int    `json:"priority,omitempty"`
	Items    int    `json:"items"`
	Of       string `json:"cloned_from,omitempty"`

	ForkedFrom string `json:"forked_from,omitempty"`
	ForkedAt   *int64 `json:"forked_at,omitempty"`

	Schedule string    `json:"schedule,omitempty"`
	Tick     time.Time `json:"tick,omitzero"`
}

// drafting is what the drafts of one call share.
type drafting struct {
	items []store.NewItem // those of tasks of one
	last  summaryOf
	data  string    // of last
	now   time.Time // the database's; zero = not read

	fork     *pawl.TaskFork // the call that makes the only draft; nil = another
	many     bool           // the draft is a part of a task of many items,
	total    int            // of so many
	reserved bool           // Pawl itself makes them: their types may be reserved
	stored   bool           // they are made of what is stored, which older rules may have allowed
}

// forkOf says in the row of a fork, and in its summary, of what it is one.
func (d *drafting) forkOf(row *store.NewTask, s summaryOf) summaryOf {
	if f := d.fork; f != nil {
		row.ForkedFrom, row.ForkedAt = (*store.TaskID)(&f.TaskID), &f.Checkpoint
		s.Of, s.ForkedFrom, s.ForkedAt = "", f.TaskID, &f.Checkpoint
	}
	return s
}

// summary returns the JSON of a summary. Most tasks of a call have the same.
func (d *drafting) summary(s summaryOf) string {
	if d.data == "" || s != d.last {
		b, _ := json.Marshal(s) // can always be encoded
		d.last, d.data = s, string(b)
	}
	return d.data
}

// only returns a list of one item.
func (d *drafting) only(it store.NewItem) []store.NewItem {
	d.items = append(d.items, it)
	n := len(d.items)
	return d.items[n-1 : n : n]
}
