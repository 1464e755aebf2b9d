package store

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
)

// seldom are the tables in which tasks of one item seldom have rows, with the column that names the task, or
// its only item, which has the same bytes. A task that has rows in none of them is plain: all that it has is
// its own row, that of its ended item, and its events. An ended item has no rows in the tables of open ones.
var seldom = []struct{ table, column string }{
	{"items", "task_id"}, {"task_counters", "task_id"}, {"task_results", "task_id"}, {"checkpoints", "task_id"}, {"messages", "task_id"},
	{"provenances", "task_id"}, {"effects", "task_id"}, {"budget_reservations", "task_id"}, {"idempotency_keys", "task_id"},
	{"uniques", "task_id"}, {"blob_refs", "task_id"}, {"parents", "task_id"}, {"child_links", "child_id"}, {"child_links", "parent_id"},
	{"child_cancels", "child_id"}, {"child_cancels", "task_id"}, // of work that is still to come, so they have few rows
	{"parked_items", "item_id"}, {"deadlines", "item_id"}, {"item_deps", "item_id"}, {"item_deps", "needs_id"}, {"item_parts", "item_id"},
	{"child_waits", "item_id"}, {"awaited_children", "item_id"}, {"idempotency_keys", "item_id"}, {"archives", "task_id"},
}

// seldomBetween says of each whether it has rows of tasks from $1 to $2: by the first row from $1, which is one
// look at an index, however many rows there are.
var seldomBetween = func() string {
	cols := make([]string, len(seldom))
	for i, s := range seldom {
		cols[i] = "CASE WHEN (SELECT x." + s.column + " FROM pawl." + s.table + " x WHERE x." + s.column + " >= $1 ORDER BY x." +
			s.column + " LIMIT 1) <= $2 THEN 1 ELSE 0 END"
	}
	return "SELECT " + strings.Join(cols, ",\n")
}()

// NotPlain returns those of the tasks that are not plain, in order. A range of ids tells most often that there are none.
func NotPlain(ctx context.Context, tx Tx, taskIDs []string) ([]string, error) {
	if len(taskIDs) == 0 {
		return nil, nil
	}
	is, into := make([]int, len(seldom)), make([]any, len(seldom))
	for i := range is {
		into[i] = &is[i]
	}
	if _, err := Row(ctx, tx, into, seldomBetween, TaskID(slices.Min(taskIDs)), TaskID(slices.Max(taskIDs))); err != nil {
		return nil, err
	}
	var out []string
	for i, s := range seldom {
		if is[i] == 0 {
			continue
		}
		some, err := TaskIDs(ctx, tx, "SELECT x."+s.column+" FROM pawl."+s.table+" x WHERE x."+s.column+" @among_ids($1)", TaskList(taskIDs))
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// LockPlain locks plain tasks and returns those that exist: see LockTasksLast. A move of an ended task changes its row.
func LockPlain(ctx context.Context, tx Tx, taskIDs []string) ([]string, error) {
	return TaskIDs(ctx, tx, manySQL["lock task"], TaskList(taskIDs))
}

// PlainTask is what was read of a plain task.
type PlainTask struct {
	Namespace string
	Lines     []byte // of its archive, without that of the log
	Events    []PlainEvent
	size      int  // of Lines: of its rows, and with the columns of actors
	ended     bool // its item has
	marked    bool // its deletion has begun
}

// PlainEvent is an event, and what its removal takes away from the totals.
type PlainEvent struct {
	ID    int64
	queue int64 // 0 = the event does not say it
	move  int
}

// PlainRoom reads plain tasks, each time into the memory of the time before. The zero value is ready.
type PlainRoom struct {
	rows, lines []byte
	pieces      []plainPiece
}

// Read is ReadTasks for plain tasks. Those that do not exist, and those whose deletion has begun, are left out. grow
// is told of the bytes of each row. The lines are in the room, until it is used again.
func (room *PlainRoom) Read(ctx context.Context, tx Tx, taskIDs []string, grow func(bytes int) error) (map[string]*PlainTask, error) {
	r := plainReader{tasks: make(map[string]*PlainTask, len(taskIDs)), grow: grow, PlainRoom: room}
	r.rows, r.pieces = r.rows[:0], r.pieces[:0]
	defer func() { clear(r.pieces) }()
	list := TaskList(taskIDs)
	for i := range plainTables {
		if err := r.read(ByKeys(ctx), tx, &plainTables[i], list); err != nil { // also before there are statistics
			return nil, err
		}
	}
	for id, t := range r.tasks {
		if !t.ended && !t.marked {
			return nil, workLeft(id, 1, 0)
		}
	}
	maps.DeleteFunc(r.tasks, func(_ string, t *PlainTask) bool { return t.marked })
	return r.tasks, r.name(ctx, tx)
}

// plainReader reads rows that have numbers of actors, whose names it looks up once for all of them.
type plainReader struct {
	tasks map[string]*PlainTask
	grow  func(bytes int) error
	*PlainRoom
}

// plainPiece is a row up to end. The columns of its actor belong at a place in it.
type plainPiece struct {
	task    *PlainTask
	of      *plainTable
	at, end int
	actor   int64 // noActor = NULL
}

const noActor = -1

// plainTable says how the rows of a table are read. The statement selects the columns, then the number of the actor.
type plainTable struct {
	table, query string
	names        []string // without the columns of the actor
	actor        []string // the columns of the actor
	at           int      // Where these belong
	owner        int      // the place of the task's id
	then         func(t *PlainTask, values []any)
}

// plainTables are the tables of plain tasks, in the order of taskTables. The namespace of an ended item is that of its
// task. Events have their codes in place of the names of moves, see encodeMove, and their queues behind the actors.
var plainTables = func() []plainTable {
	ofTasks, ofEnds, ofEvents := columns("tasks"), columns("finished_items"), columns("task_events")
	move := slices.Index(ofEvents, namesOfMove[0])
	ofEvents = slices.Replace(ofEvents, move, move+len(namesOfMove), "move")
	worker, actor := slices.Index(ofEnds, "worker_id"), slices.Index(ofEvents, "actor_type")
	ofEnds, ofEvents = slices.Delete(ofEnds, worker, worker+1), slices.Delete(ofEvents, actor, actor+2)
	ns, endNS, state, id := slices.Index(ofTasks, "namespace"), slices.Index(ofEnds, "namespace"), slices.Index(ofEnds, "state"),
		slices.Index(ofEvents, "id")
	return []plainTable{
		{"tasks", "rows of tasks", ofTasks, nil, len(ofTasks), slices.Index(ofTasks, "id"), func(t *PlainTask, values []any) {
			t.Namespace, _ = values[ns].(string)
		}},
		{"finished_items", "rows of ended items", ofEnds, []string{"worker_id"}, worker, slices.Index(ofEnds, "task_id"),
			func(t *PlainTask, values []any) {
				t.ended = true
				code, _ := wholeNumber(values[state])
				var name StateCode
				_ = name.Scan(code) // the table has no others
				values[endNS], values[state] = t.Namespace, string(name)
			}},
		{"task_events", "rows of events", ofEvents, []string{"actor_type", "actor_id"}, actor, slices.Index(ofEvents, "task_id"),
			func(t *PlainTask, values []any) {
				number, _ := wholeNumber(values[id])
				code, _ := wholeNumber(values[move])
				queue, _ := wholeNumber(values[len(ofEvents)+1])
				m, _ := moveOf(int(code))
				t.Events = append(t.Events, PlainEvent{number, queue, int(code)})
				t.marked = t.marked || m.Class == MoveOfTask && m.Event == "deleted"
			}},
	}
}()

func (r *plainReader) read(ctx context.Context, tx Tx, of *plainTable, list string) error {
	n := len(of.names)
	return scanRows(ctx, tx, of.table, append(of.names[:n:n], "actor", "queue"), plainSQL[of.query], list, func(values []any) error {
		id, _ := values[of.owner].(string)
		t := r.tasks[id]
		if of.table == "tasks" {
			t = &PlainTask{}
			r.tasks[id] = t
		}
		if t == nil {
			return nil
		}
		of.then(t, values)
		p, from := plainPiece{task: t, of: of, actor: noActor}, len(r.rows)
		if actor, given := wholeNumber(values[n]); given {
			p.actor = actor
		}
		b, err := appendColumns(openRow(r.rows, of.table), of.table, of.names[:of.at], values)
		if err != nil {
			return err
		}
		p.at = len(b)
		if b, err = appendColumns(b, of.table, of.names[of.at:], values[of.at:]); err != nil {
			return err
		}
		r.rows = append(b, "}\n"...)
		p.end = len(r.rows)
		r.pieces = append(r.pieces, p)
		t.size += p.end - from
		return r.grow(p.end - from)
	})
}

// name gives the tasks their lines, with the names of actors.
func (r *plainReader) name(ctx context.Context, tx Tx) error {
	type columnsOf struct {
		table *plainTable
		actor int64
	}
	texts := map[columnsOf][]byte{}
	var ids []int64
	for _, p := range r.pieces {
		key := columnsOf{p.of, p.actor}
		if _, there := texts[key]; !there {
			texts[key], ids = nil, append(ids, p.actor)
		}
	}
	actors, err := namedActors(ctx, tx, ids)
	if err != nil {
		return err
	}
	for key := range texts {
		if texts[key], err = key.table.columnsOf(actors[key.actor]); err != nil {
			return err
		}
	}
	all := len(r.rows)
	for _, p := range r.pieces {
		n := len(texts[columnsOf{p.of, p.actor}])
		p.task.size, all = p.task.size+n, all+n
	}
	room, from := slices.Grow(r.lines[:0], all), 0
	r.lines = room
	for _, p := range r.pieces {
		if t := p.task; t.Lines == nil {
			t.Lines, room = room[:0:t.size], room[t.size:t.size:cap(room)]
		}
		p.task.Lines = append(append(append(p.task.Lines, r.rows[from:p.at]...), texts[columnsOf{p.of, p.actor}]...), r.rows[p.at:p.end]...)
		from = p.end
	}
	return nil
}

// columnsOf encodes the columns of an actor: its kind, if there is a column for it, and its name. What is empty is null.
func (of *plainTable) columnsOf(a ActorName) ([]byte, error) {
	values := []any{a.Kind, a.Name}
	for i := range values {
		if values[i] == "" {
			values[i] = nil
		}
	}
	return appendColumns(nil, of.table, of.actor, values[2-max(1, len(of.actor)):])
}

// RemovePlain removes locked plain tasks, with their ends and events: in all as many rows as were read. gone is false
// if there were others, such as the mark of a deletion, and the transaction must not commit.
func RemovePlain(ctx context.Context, tx Tx, taskIDs []string, events []PlainEvent) (gone bool, err error) {
	ids := make([]int64, len(events))
	counted := true
	for i, e := range events {
		ids[i] = e.ID
		counted = counted && e.queue != 0
	}
	if counted {
		err = putRemoval(ctx, tx, ids, func(t totals, counts func(int64) bool) error {
			for _, e := range events {
				if counts(e.ID) {
					t[total{queue: e.queue, move: e.move}]++
				}
			}
			return nil
		})
	} else {
		err = logRemoval(ctx, tx, taskIDs, ids)
	}
	if err != nil {
		return false, err
	}
	gone = true
	err = Gated(ctx, tx, "delete", func() error {
		for _, step := range []struct {
			name string
			rows int
		}{{"remove events", len(events)}, {"remove ended items", len(taskIDs)}, {"remove tasks", len(taskIDs)}} {
			n, err := tx.Exec(ctx, plainSQL[step.name], TaskList(taskIDs))
			if err != nil {
				return err
			}
			gone = gone && n == int64(step.rows)
		}
		return nil
	})
	return gone, err
}

// encodeMove encodes the code of an event as the names that archives have.
func encodeMove(b []byte, code any) ([]byte, error) {
	n, _ := wholeNumber(code)
	m, known := moveOf(int(n))
	if !known {
		return nil, errNewerMove
	}
	for i, v := range [...]string{m.Class, m.Event, m.From, m.To, m.TaskFrom, m.TaskTo} {
		b = append(append(append(b, `,"`...), namesOfMove[i]...), `":`...)
		if v == "" {
			b = append(b, "null"...)
		} else {
			b = append(append(append(b, '"'), v...), '"')
		}
	}
	return b, nil
}

// errNewerMove means that only a newer program knows what a move is.
var errNewerMove = errors.New("an event has a move that this program does not know")

var plainSQL = Texts(sqlFiles, "plain.sql")
