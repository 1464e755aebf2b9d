package store

import (
	"context"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
)

var decideSQL = Texts(sqlFiles, "decide.sql")

// Aside is the value of solo for a plan or apply item. Such an item is not counted, and
// its moves do not move the task. The engine decides how its task goes on; todo is set
// while there is such an item.
const Aside = 2

// DecideBatch is how many items move in the transaction of a decision. The other items of
// a larger task move afterwards. It is a variable for tests.
var DecideBatch = 10_000

// TaskDecision is a task in the transaction that decides about it. Its row is locked.
type TaskDecision struct {
	Namespace, TaskID string
	ParentID          string // "" = none
	Type              string
	TypeVersion       int
	Solo              bool
	State             string // stored
	Ready             bool
	Todo              bool
	FailedIn          string
	DecideBy          *int64
	Version           int // before the decision
	Now               int64
	Checks, Approves  bool // some process has the type's hook Check, AutoApprove

	holds bool // Together runs: the events are held
	held  []Event
}

// Together runs fn, and records the events of its moves after it, in one statement.
func (c *TaskDecision) Together(ctx context.Context, tx Tx, fn func() error) error {
	c.holds = true
	err := fn()
	c.holds = false
	if err != nil {
		c.held = nil // the transaction is rolled back
		return err
	}
	return c.RecordHeld(ctx, tx)
}

// RecordHeld records the events that Together holds, for what reads them or records others.
func (c *TaskDecision) RecordHeld(ctx context.Context, tx Tx) error {
	held := c.held
	c.held = nil
	return Record(ctx, tx, c.Now, held)
}

func (c *TaskDecision) record(ctx context.Context, tx Tx, events []Event) error {
	if c.holds {
		c.held = append(c.held, events...)
		return nil
	}
	return Record(ctx, tx, c.Now, events)
}

// OpenDecision locks a task for a decision. It returns false when no result was ever
// submitted for the task.
func OpenDecision(ctx context.Context, tx Tx, namespace, taskID string) (*TaskDecision, bool, error) {
	c := &TaskDecision{Namespace: namespace, TaskID: taskID}
	var solo, ready, todo, checks, approves int
	found, err := Row(ctx, tx, []any{&c.Type, &c.TypeVersion, &solo, &c.State, &ready, &todo, &c.FailedIn,
		&c.DecideBy, &c.Version, (*TaskID)(&c.ParentID), &checks, &approves},
		decideSQL["task to decide"], TaskID(taskID), namespace)
	if err != nil || !found {
		return c, false, err
	}
	c.Solo, c.Ready, c.Todo, c.Checks, c.Approves = solo == 1, ready == 1, todo == 1, checks == 1, approves == 1
	c.Now, err = tx.Now(ctx)
	return c, true, err
}

// DecidedBy returns the event of the task's last decision and its actor.
func (c *TaskDecision) DecidedBy(ctx context.Context, tx Tx) (event, who string, err error) {
	var kind, id Text
	var move int
	found, err := Row(ctx, tx, []any{&move, &kind, &id}, decideSQL["decided by"], TaskID(c.TaskID))
	if err != nil || !found {
		return "", "", err
	}
	m, _ := moveOf(move) // the statement names only codes that this program knows
	return m.Event, strings.TrimSuffix(string(kind)+"/"+string(id), "/"), err
}

// TaskMove is one step of a task's lifecycle after its items are done.
type TaskMove struct {
	Event         string
	To            string
	Actor         Actor
	Message, Data Text
	Diff          Text
	Todo          bool // the engine has to carry out a next step
	FailedIn      Text
	Error         Text
}

// Move moves the task to a state and records its event.
func (c *TaskDecision) Move(ctx context.Context, tx Tx, m TaskMove) error {
	var completed *int64
	if slices.Contains([]string{"completed", "rejected", "failed"}, m.To) {
		completed = &c.Now
	}
	todo := 0
	if m.Todo {
		todo = 1
	}
	if _, err := tx.Exec(ctx, decideSQL["move task"], TaskID(c.TaskID), m.To, todo, m.FailedIn, m.Error, completed, c.Now); err != nil {
		return err
	}
	e := Event{Namespace: c.Namespace, TaskID: c.TaskID, Event: m.Event, From: Text(c.State), To: Text(m.To), Actor: m.Actor,
		Message: m.Message, Data: m.Data, Diff: m.Diff}
	done := Applied{Task: m.To}
	if c.State == "dead_lettered" {
		done.Items = 1 // marks a retry, which takes the input hash again
	}
	c.State, c.Todo, c.Ready = m.To, m.Todo, false
	if err := c.record(ctx, tx, []Event{e}); err != nil {
		return err
	}
	return releaseHash(ctx, tx, c.TaskID, done)
}

// Reopen makes the task open again, with n of its items.
func (c *TaskDecision) Reopen(ctx context.Context, tx Tx, n int, m TaskMove) error {
	if _, err := tx.Exec(ctx, decideSQL["reopen"], TaskID(c.TaskID), n, c.Now); err != nil {
		return err
	}
	e := Event{Namespace: c.Namespace, TaskID: c.TaskID, Event: m.Event, From: Text(c.State), To: "open", Actor: m.Actor, Message: m.Message,
		Data: m.Data}
	c.State = "open"
	return Record(ctx, tx, c.Now, []Event{e})
}

// Checked stores the outcome of the check before an approval: the task is ready, or the
// failure.
func (c *TaskDecision) Checked(ctx context.Context, tx Tx, ready, todo bool, failure Text, decideBy *int64) error {
	flag, owed := 0, 0
	if ready {
		flag = 1
	}
	if todo {
		owed = 1
	}
	if _, err := tx.Exec(ctx, decideSQL["checked"], TaskID(c.TaskID), flag, failure, decideBy, owed, c.Now); err != nil {
		return err
	}
	c.Ready, c.Todo, c.DecideBy = ready, todo, decideBy
	if !ready {
		return nil
	}
	return c.Note(ctx, tx, "ready_for_approval", Actor{Type: pawl.ActorSystem}, "")
}

// Note records an event about the task that changes no state.
func (c *TaskDecision) Note(ctx context.Context, tx Tx, event string, by Actor, data Text) error {
	return Record(ctx, tx, c.Now, []Event{{Namespace: c.Namespace, TaskID: c.TaskID, Event: event, Actor: by, Data: data}})
}

// ClearTodo records that the engine has no step left to carry out for the task.
func (c *TaskDecision) ClearTodo(ctx context.Context, tx Tx) error {
	c.Todo = false
	_, err := tx.Exec(ctx, decideSQL["nothing to do"], TaskID(c.TaskID))
	return err
}

// ReleaseHash gives up the task's input hash, so that another task can have it.
func (c *TaskDecision) ReleaseHash(ctx context.Context, tx Tx) error {
	_, err := tx.Exec(ctx, moveSQL["let go of input hash"], TaskID(c.TaskID))
	return err
}

// ClearDecideBy removes the deadline of the decision.
func (c *TaskDecision) ClearDecideBy(ctx context.Context, tx Tx) error {
	c.DecideBy = nil
	_, err := tx.Exec(ctx, decideSQL["clear decide_by"], TaskID(c.TaskID), c.Now)
	return err
}

// ItemMove is how a decision moves the task's items that are in state From.
type ItemMove struct {
	Event, From, To string
	IDs             []string // nil = all of the task's
	Actor           Actor
	Data            Text
	Error, Reasons  Text // rework: the reasons, as a failure and as a list
}

// MoveItems moves up to DecideBatch of the task's items. It returns their rows as
// they are now, those that are queued, and whether items may be left.
func (c *TaskDecision) MoveItems(ctx context.Context, tx Tx, m ItemMove) (rows []StateRow, queued []DueItem, more bool, err error) {
	ids := m.IDs
	if ids == nil {
		if ids, err = c.ItemsIn(ctx, tx, m.From, DecideBatch); err != nil {
			return nil, nil, false, err
		}
	}
	if len(ids) == 0 {
		return nil, nil, false, nil
	}
	rows, err = Take(ctx, tx, ids, []string{m.From})
	more = m.IDs == nil && (len(ids) == DecideBatch || len(rows) < len(ids))
	if err == nil && len(rows) > 0 {
		queued, err = c.moveTaken(ctx, tx, m, rows)
	}
	return rows, queued, more, err
}

// moveTaken moves items that were taken out of their places, and returns those that are queued.
func (c *TaskDecision) moveTaken(ctx context.Context, tx Tx, m ItemMove, held []StateRow) ([]DueItem, error) {
	events := make([]Event, len(held))
	queued, feeders := []DueItem(nil), []string(nil)
	for i := range held {
		h := &held[i]
		h.State, h.Since = m.To, &c.Now
		switch m.To {
		case "accepted":
			h.AcceptedAt = &c.Now
		case "completed":
			h.Error, h.CompletedAt = "", &c.Now
		case "rejected":
			h.CompletedAt = &c.Now
		case "queued":
			h.Failures, h.CompletedAt = 0, nil
			h.Requeue(c.Now)
			if m.Event == "rejected" {
				h.Rework, h.Error, h.Result, h.Assembled, h.LeftBy = h.Rework+1, m.Error, "", "", "rejected"
			}
			queued = append(queued, DueItem{h.Namespace, h.ItemID, h.Type, h.Rank})
		}
		if h.FeedsItems() && (m.To == "completed" || m.To == "rejected") {
			feeders = append(feeders, h.ItemID)
		}
		events[i] = Event{Namespace: h.Namespace, TaskID: h.TaskID, ItemID: Text(h.ItemID), Solo: h.Solo, Attempt: h.Attempt, Event: m.Event,
			From: Text(m.From), To: Text(m.To), Actor: m.Actor, Data: m.Data}
	}
	if err := putMoved(ctx, tx, c.Now, held); err != nil {
		return nil, err
	}
	if err := c.record(ctx, tx, events); err != nil {
		return nil, err
	}
	if m.Reasons != "" {
		if err := setOfItems(ctx, tx, decideSQL, "give reasons", m.IDs, m.Reasons); err != nil {
			return nil, err
		}
	}
	if len(feeders) > 0 {
		query := "feed dependents"
		if m.To == "rejected" {
			query = "break dependents"
		}
		if _, err := tx.Exec(ctx, moveSQL[query], ItemList(feeders)); err != nil {
			return nil, err
		}
	}
	return queued, nil
}

// ItemsIn lists up to limit of the task's items that no worker holds and that are in the
// given state.
func (c *TaskDecision) ItemsIn(ctx context.Context, tx Tx, state string, limit int) ([]string, error) {
	return ItemIDs(ctx, tx, decideSQL["resting items"], TaskID(c.TaskID), state, limit)
}

// AsideItem is a plan or apply item.
type AsideItem struct {
	ID, Kind, State string
	Result, Error   Text
}

// AsideItem reads the task's newest item of a kind.
func (c *TaskDecision) AsideItem(ctx context.Context, tx Tx, kind string) (AsideItem, bool, error) {
	a := AsideItem{Kind: kind}
	found, err := Row(ctx, tx, []any{(*ItemID)(&a.ID), &a.State, &a.Result, &a.Error}, decideSQL["item aside"], TaskID(c.TaskID), kind)
	return a, found, err
}

// BuryAside dead-letters the task, which failed when it was planned or applied, with the item that did it.
func (c *TaskDecision) BuryAside(ctx context.Context, tx Tx, by Actor) error {
	const to = "dead_lettered"
	it, found, err := c.AsideItem(ctx, tx, c.FailedIn)
	if err == nil {
		err = c.Move(ctx, tx, TaskMove{Event: to, To: to, Actor: by, FailedIn: Text(c.FailedIn)})
	}
	if err != nil || !found || it.State != "failed" {
		return err
	}
	_, _, _, err = c.MoveItems(ctx, tx, ItemMove{Event: to, From: it.State, To: to, IDs: []string{it.ID}, Actor: by})
	return err
}

// PutResult stores the result of applying as the task's result.
func (c *TaskDecision) PutResult(ctx context.Context, tx Tx, payload string) error {
	_, err := tx.Exec(ctx, decideSQL["put result"], TaskID(c.TaskID), c.Namespace, payload, c.Now)
	return err
}

// TaskRef names a task. DecideBy is when its decision was due, in a list of OverdueDecisions.
type TaskRef struct {
	ID, Namespace string
	DecideBy      int64
}
