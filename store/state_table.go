package store

import (
	"context"
	"embed"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

//go:embed *.sql
var sqlFiles embed.FS

var stateTableSQL = Texts(sqlFiles, "state_table.sql")

// StateRow is an item's row from the table of its state. It has the columns that all these
// tables share, and those that only some of them have.
type StateRow struct {
	ItemID, Namespace, TaskID, Type, State string
	Queue                                  int64 // the number of Namespace and Type
	Carried
	Priority                                    int
	LeftBy, Error, Signal, SignalKey            Text
	WorkerID                                    Text // set only by the verbs that answer with it
	Worker, StartedAt, Since, RunAt, Until      *int64
	ClaimedAt                                   *int64 // the last claim, from the second on
	Needs, Broken, Rank, Prefetch, LeaseSeconds int
	AcquiredAt, HeartbeatAt, ExpiresAt          int64
	Progress                                    *int
	Stage, Result, Assembled                    Text
	CompletedAt, AcceptedAt, ProgressedAt       *int64
	Stopped, KeyID                              Text
	Failure                                     *int64 // see FailureKey
	Effects                                     int    // of a lease: how many effects of its attempt are open
}

// stateTable is one narrow table, the states that it holds, and its own columns.
type stateTable struct {
	name   string
	states []string
	own    func(h *StateRow) []Column // the columns after those that all tables share
}

// stateTables are locked in this order: leases before waiting, as the hot verbs do. ready
// is locked before both. An item that is claimed in the meantime is then found in leases,
// and is not searched for again once rows of waiting are locked.
var stateTables = []stateTable{
	{"ready", statesOf("ready"), func(h *StateRow) []Column {
		return []Column{{"left_by", &h.LeftBy}, {"since", &h.Since}, {"rank", &h.Rank}}
	}},
	{"scheduled", statesOf("scheduled"), func(h *StateRow) []Column {
		return []Column{{"left_by", &h.LeftBy}, {"since", &h.Since}, {"priority", &h.Priority}, {"run_at", &h.RunAt},
			{"claimed_at", &h.ClaimedAt}}
	}},
	{"leases", statesOf("leases"), func(h *StateRow) []Column {
		return []Column{{"namespace", &h.Namespace}, {"priority", &h.Priority}, {"state", (*StateCode)(&h.State)}, {"prefetch", &h.Prefetch},
			{"lease_seconds", &h.LeaseSeconds},
			{"acquired_at", &h.AcquiredAt}, {"heartbeat_at", &h.HeartbeatAt}, {"lease_expires_at", &h.ExpiresAt}, {"progress", &h.Progress},
			{"stage", &h.Stage}, {"progressed_at", &h.ProgressedAt}, {"stopped", &h.Stopped}, {"key_id", &h.KeyID}, {"effects", &h.Effects}}
	}},
	{"waiting", statesOf("waiting"), func(h *StateRow) []Column {
		return []Column{{"left_by", &h.LeftBy}, {"since", &h.Since}, {"priority", &h.Priority}, {"until", &h.Until}, {"signal", &h.Signal},
			{"signal_key", &h.SignalKey}, {"needs", &h.Needs}, {"broken", &h.Broken}, {"claimed_at", &h.ClaimedAt}}
	}},
	{"parked_items", statesOf("parked_items"), func(h *StateRow) []Column {
		return []Column{{"left_by", &h.LeftBy}, {"since", &h.Since}, {"priority", &h.Priority}, {"state", (*StateCode)(&h.State)},
			{"completed_at", &h.CompletedAt},
			{"accepted_at", &h.AcceptedAt}, {"progress", &h.Progress}, {"stage", &h.Stage}, {"result", &h.Result}, {"assembled_result",
				&h.Assembled},
			{"failure", &h.Failure}, {"claimed_at", &h.ClaimedAt}}
	}},
}

// taken returns the targets of a row that was removed from a table.
func (h *StateRow) taken(p *stateTable) []any {
	h.State = p.states[0]
	targets := append(Targets(h.columns(p)), &h.Namespace, &h.Type)
	if p.name == "ready" {
		targets = append(targets, &h.Priority)
	}
	return targets
}

// Requeue sends an item back to the queue.
func (h *StateRow) Requeue(now int64) {
	if h.AcquiredAt != 0 {
		h.ClaimedAt = &h.AcquiredAt
	}
	h.State, h.Rank, h.Since = "queued", BackRank(h.Priority, h.Attempt, h.ClaimedAt, now), &now
}

// columns returns the columns of the item's row in a table. All statements that take or
// put a whole row name them as @columns(ready) and so on.
func (h *StateRow) columns(p *stateTable) []Column {
	return slices.Concat(
		[]Column{{"item_id", (*ItemID)(&h.ItemID)}, {"queue_id", &h.Queue}, {"task_id", (*TaskID)(&h.TaskID)}},
		h.Carried.Columns(),
		[]Column{{"worker", &h.Worker}, {"started_at", &h.StartedAt}, {"error", &h.Error}}, p.own(h))
}

// endColumns returns the columns of an ended item's row in ends.
func (h *StateRow) endColumns() []Column {
	return slices.Concat(
		[]Column{{"item_id", (*ItemID)(&h.ItemID)}, {"queue_id", &h.Queue}, {"task_id", (*TaskID)(&h.TaskID)}}, h.Carried.Kept(),
		[]Column{{"worker", &h.Worker}, {"started_at", &h.StartedAt}, {"error", &h.Error}, {"left_by", &h.LeftBy},
			{"state", (*StateCode)(&h.State)},
			{"ended_at", &h.Since}, {"accepted_at", &h.AcceptedAt}, {"stage", &h.Stage}, {"result", &h.Result}, {"assembled_result", &h.Assembled}})
}

// Take removes the rows of the given items from the stateTables, if their state is one of
// states, and returns them sorted by item id. The removal locks the rows. Items in other
// states stay where they are and are not in the answer.
//
// What the attempts of removed leases have sent and not reported becomes unknown.
func Take(ctx context.Context, tx Tx, itemIDs, states []string) ([]StateRow, error) {
	out, err := inEachTable(ctx, tx, itemIDs, states, func(ids string, p *stateTable, wanted []string) ([]StateRow, error) {
		args := []any{ids}
		if p.name == "parked_items" {
			args = append(args, List(wanted))
		}
		return scanStateRows(ctx, tx, stateTableSQL["take "+p.name], args, func(h *StateRow) []any {
			return h.taken(p)
		})
	})
	for i := range out {
		if err == nil && out[i].Effects > 0 {
			err = endEffectsNow(ctx, tx, out[i].ItemID, out[i].Attempt)
		}
	}
	return out, err
}

// Amendment has the changes to items that stay in their state. A nil value changes
// nothing.
type Amendment struct{ Solo, Feeds, Priority *int }

// Amend changes items in the stateTables of the given states. It returns them with their
// ids and states, and queued ones with their rank.
//
// Two kinds of row are removed and inserted again. The first kind is a row in ready: the
// rank is part of the row's key, and claims skip locked rows. The second kind is the lease
// of an item that gets dependents. The statement that ends such a lease must not use the
// new row with an older list of dependents. It finds no row then, and its caller tries
// again.
func Amend(ctx context.Context, tx Tx, itemIDs, states []string, a Amendment) ([]StateRow, error) {
	return inEachTable(ctx, tx, itemIDs, states, func(ids string, p *stateTable, _ []string) ([]StateRow, error) {
		if p.name != "ready" && (p.name != "leases" || a.Feeds == nil) {
			return scanStateRows(ctx, tx, stateTableSQL["amend "+p.name], []any{ids, a.Solo, a.Feeds, a.Priority}, func(h *StateRow) []any {
				return []any{(*ItemID)(&h.ItemID), &h.Namespace, &h.Type, (*StateCode)(&h.State)}
			})
		}
		if p.name == "leases" { // its effects go on
			if _, err := tx.Exec(ctx, stateTableSQL["keep effects"], ids); err != nil {
				return nil, err
			}
		}
		held, err := scanStateRows(ctx, tx, stateTableSQL["take "+p.name], []any{ids}, func(h *StateRow) []any {
			return h.taken(p)
		})
		for i := range held {
			held[i].amend(a)
			held[i].Effects = -held[i].Effects
		}
		if err != nil || len(held) == 0 {
			return nil, err
		}
		return held, Put(ctx, tx, held)
	})
}

func (h *StateRow) amend(a Amendment) {
	if a.Solo != nil {
		h.Solo = *a.Solo
	}
	if a.Feeds != nil {
		h.Feeds += *a.Feeds - h.Feeds%2
	}
	if a.Priority != nil {
		h.Rank += RequeueRank(*a.Priority) - RequeueRank(h.Priority)
		h.Priority = *a.Priority
	}
}

// inEachTable runs one for every table that holds items of the states. Between two of its
// statements an item may move to a table that was searched already. Such an item is
// searched for again.
func inEachTable(ctx context.Context, tx Tx, itemIDs, states []string,
	one func(ids string, p *stateTable, wanted []string) ([]StateRow, error)) ([]StateRow, error) {
	missing, out := slices.Sorted(slices.Values(itemIDs)), []StateRow(nil)
	for try := 0; len(missing) > 0 && try < 100; try++ {
		found := make(map[string]bool, len(missing))
		for i := range stateTables {
			wanted := intersect(stateTables[i].states, states)
			if len(wanted) == 0 {
				continue
			}
			held, err := one(ItemList(missing), &stateTables[i], wanted)
			if err != nil {
				return nil, err
			}
			for i := range held {
				found[held[i].ItemID] = true
			}
			out = append(out, held...)
		}
		if len(found) == len(missing) {
			break
		}
		missing = slices.DeleteFunc(missing, func(id string) bool { return found[id] })
		var err error
		if missing, err = ItemIDs(ctx, tx, stateTableSQL["still in"], ItemList(missing), List(states)); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b StateRow) int { return strings.Compare(a.ItemID, b.ItemID) })
	return out, nil
}

func scanStateRows(ctx context.Context, tx Tx, query string, args []any, targets func(h *StateRow) []any) ([]StateRow, error) {
	return All(ctx, tx, query, args, func(rows Rows, h *StateRow) error {
		return rows.Scan(targets(h)...)
	})
}

// Put inserts rows into the stateTables of their states. For ends, Since is the time when
// the item ended. Queued rows are inserted with their Rank.
func Put(ctx context.Context, tx Tx, held []StateRow) error {
	rows := map[string][][]any{}
	for i := range held {
		h := &held[i]
		if h.ended() {
			rows["finished_items"] = append(rows["finished_items"], Values(h.endColumns()))
			continue
		}
		for j := range stateTables {
			if p := &stateTables[j]; slices.Contains(p.states, h.State) {
				if h.AcquiredAt != 0 && h.Attempt > 1 {
					h.ClaimedAt = &h.AcquiredAt
				}
				if h.Failure = nil; isFailure(h.State) {
					h.Failure = FailureKey(h.Error)
				}
				rows[p.name] = append(rows[p.name], Values(h.columns(p)))
			}
		}
	}
	for _, name := range []string{"ready", "scheduled", "waiting", "leases", "parked_items", "finished_items"} {
		if len(rows[name]) > 0 {
			if err := tx.ExecEach(ctx, stateTableSQL["put "+name], rows[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *StateRow) ended() bool {
	return itemState(h.State).Terminal
}

// Event is a row of task_events to insert.
type Event struct {
	Namespace, TaskID          string
	ItemID                     Text
	Solo                       int // the value in the item's row, or unknownSolo
	Attempt                    int
	Event                      string
	From, To, TaskFrom, TaskTo Text
	Actor                      Actor
	worker                     *int64 // the number of the worker that is the actor; nil = see Actor
	queue, since               int64  // of an event of a lease: the number of its queue, and when it was claimed; 0 = not known
	request                    int64  // a digest of the call that ended the lease; 0 = none
	Message, Data, Diff        Text
	digest                     Digest
}

// unknownSolo is the Solo of an event whose caller has not read the item's row.
const unknownSolo = -1

// By returns the event with an actor, or if that is nil with the item's last worker.
func (e Event) By(actor *Actor, h *StateRow) Event {
	if actor == nil {
		e.worker = h.Worker
	} else {
		e.Actor = *actor
	}
	return e
}

// move returns what the event's code stands for.
func (e *Event) move() MoveCode {
	return MoveCode{Class: classOf(string(e.ItemID), e.Solo), Event: e.Event, From: string(e.From), To: string(e.To),
		TaskFrom: string(e.TaskFrom), TaskTo: string(e.TaskTo)}
}

// classOf returns whose event it is. item is "" for an event of a task, solo is the value
// in the item's row.
func classOf(item string, solo int) string {
	switch {
	case item == "":
		return MoveOfTask
	case solo == 1:
		return MoveOfOnly
	}
	return MoveOfItem
}

// Record inserts events in the order given.
func Record(ctx context.Context, tx Tx, now int64, events []Event) error {
	if len(events) == 0 {
		return nil
	}
	names := make([]ActorName, 0, len(events))
	for i := range events {
		if events[i].worker == nil {
			names = append(names, events[i].Actor.Named())
		}
	}
	if err := EnsureActors(ctx, tx, names...); err != nil {
		return err
	}
	rows := make([][]any, len(events))
	for i, e := range events {
		var attempt *int
		if e.Attempt > 0 {
			attempt = &e.Attempt
		}
		if e.ItemID != "" && e.Solo == unknownSolo {
			if _, err := Row(ctx, tx, []any{&e.Solo}, stateTableSQL["solo of item"], ItemID(e.ItemID)); err != nil {
				return err
			}
		}
		move, err := codeOf(e.move())
		if err != nil {
			return err
		}
		rows[i] = []any{e.Namespace, TaskID(e.TaskID), ItemID(e.ItemID), attempt, move, e.worker, e.Actor.Type, Text(e.Actor.ID),
			e.Message, e.Data, e.Diff, Text(e.Actor.Key), now, orNull(e.queue), orNull(e.since), orNull(e.request), e.digest}
	}
	return tx.ExecEach(ctx, stateTableSQL["record"], rows)
}

func orNull(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

// List encodes texts as the JSON array that @list reads.
func List(texts []string) string {
	if texts == nil {
		return "[]"
	}
	b, _ := json.Marshal(texts) // texts always marshal
	return string(b)
}

// Table encodes rows as the JSON array that @each reads. An id becomes the text that @id reads,
// and what is written as NULL becomes null.
func Table(rows [][]any) string {
	out := make([][]any, len(rows))
	for i, row := range rows {
		out[i] = slices.Clone(row)
		for j, v := range row {
			switch x := v.(type) {
			case ID:
				if b, ok := x.Bytes(); ok {
					out[i][j] = hex.EncodeToString(b[:])
				} else {
					out[i][j] = nil
				}
			case Text:
				if x == "" {
					out[i][j] = nil
				}
			}
		}
	}
	b, _ := json.Marshal(out) // numbers and texts always marshal
	return string(b)
}

func intersect(a, b []string) []string {
	var out []string
	for _, x := range a {
		if slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	return out
}
