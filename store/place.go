package store

import (
	"context"
	"embed"
	"encoding/json"
	"slices"
	"strings"
)

//go:embed *.sql
var sqlFiles embed.FS

var placeSQL = Texts(sqlFiles, "place.sql")

// Held is an item's narrow row taken out of its place: what the item carries
// from place to place, and what the place itself knew.
type Held struct {
	ItemID, Namespace, TaskID, Type, State      string
	Priority, Attempt, Failures, MaxAttempts    int
	Solo, Feeds, Acceptance, Rework, Spared     int
	LeftBy, WorkerID, Error, Signal, SignalKey  Text
	StartedAt, Since, RunAt, Until              *int64
	Needs, Broken, Rank, Prefetch, LeaseSeconds int
	AcquiredAt, HeartbeatAt, ExpiresAt          int64
	Progress                                    *int
	Stage, Result, Assembled                    Text
	CompletedAt, AcceptedAt                     *int64
}

// Fresh ranks an item that was never claimed or held before; Again one that
// comes back and goes first.
func (h *Held) Again() int { return -2 * h.Priority }

var carried = func(h *Held) []any {
	return []any{&h.ItemID, &h.Namespace, &h.TaskID, &h.Type, &h.Attempt, &h.Failures, &h.MaxAttempts,
		&h.Solo, &h.Feeds, &h.Acceptance, &h.Rework, &h.Spared, &h.WorkerID, &h.StartedAt, &h.Error}
}

// place is one narrow table: which states it holds and its own columns.
type place struct {
	name   string
	states []string
	own    func(h *Held) []any // scan targets after the carried ones
}

var places = []place{
	{"ready", []string{"queued"}, func(h *Held) []any { return []any{&h.LeftBy, &h.Since, &h.Rank} }},
	{"scheduled", []string{"scheduled"}, func(h *Held) []any { return []any{&h.LeftBy, &h.Since, &h.Priority, &h.RunAt} }},
	{"waiting", []string{"waiting"}, func(h *Held) []any {
		return []any{&h.LeftBy, &h.Since, &h.Priority, &h.Until, &h.Signal, &h.SignalKey, &h.Needs, &h.Broken}
	}},
	{"leases", []string{"leased", "in_progress"}, func(h *Held) []any {
		return []any{&h.Priority, &h.State, &h.Prefetch, &h.LeaseSeconds, &h.AcquiredAt, &h.HeartbeatAt, &h.ExpiresAt, &h.Progress, &h.Stage}
	}},
	{"rests", []string{"submitted", "accepted", "failed", "dead_lettered"}, func(h *Held) []any {
		return []any{&h.LeftBy, &h.Since, &h.Priority, &h.State, &h.CompletedAt, &h.AcceptedAt, &h.Progress, &h.Stage, &h.Result, &h.Assembled}
	}},
}

// Take removes the rows of the given items from their places, where their state
// is one of states, and hands them over sorted by item id. The rows are locked
// by their removal; ready goes before leases, so that a claim that commits
// meanwhile is met in leases. Items in other states are left and not answered.
func Take(ctx context.Context, tx Tx, itemIDs, states []string) ([]Held, error) {
	slices.Sort(itemIDs)
	ids := List(itemIDs)
	var out []Held
	for _, p := range places {
		wanted := intersect(p.states, states)
		if len(wanted) == 0 {
			continue
		}
		args := []any{ids}
		if p.name == "rests" {
			args = append(args, List(wanted))
		}
		rows, err := tx.Query(ctx, placeSQL["take "+p.name], args...)
		if err != nil {
			return nil, err
		}
		for rows.Next() {
			h := Held{State: p.states[0]}
			if err := rows.Scan(append(carried(&h), p.own(&h)...)...); err != nil {
				rows.Close()
				return nil, err
			}
			if p.name == "ready" {
				h.Priority = -(h.Rank >> 1)
			}
			out = append(out, h)
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b Held) int { return strings.Compare(a.ItemID, b.ItemID) })
	return out, nil
}

// Put inserts rows into the places their states name. For ends, Since is when
// it ended; queued rows go in with Rank.
func Put(ctx context.Context, tx Tx, held []Held) error {
	rows := map[string][][]any{}
	for i := range held {
		h := &held[i]
		if h.ended() {
			rows["ends"] = append(rows["ends"], []any{h.ItemID, h.Namespace, h.TaskID, h.Attempt, h.Failures, h.Rework, h.WorkerID, h.StartedAt, h.Error,
				h.LeftBy, h.State, h.Since, h.AcceptedAt, h.Stage, h.Result, h.Assembled})
			continue
		}
		for _, p := range places {
			if slices.Contains(p.states, h.State) {
				rows[p.name] = append(rows[p.name], values(append(carried(h), p.own(h)...)))
			}
		}
	}
	for _, name := range []string{"ready", "scheduled", "waiting", "leases", "rests", "ends"} {
		if len(rows[name]) > 0 {
			if err := tx.ExecEach(ctx, placeSQL["put "+name], rows[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *Held) ended() bool {
	return h.State == "completed" || h.State == "rejected" || h.State == "cancelled"
}

// values reads scan targets back as arguments.
func values(targets []any) []any {
	for i, t := range targets {
		switch v := t.(type) {
		case *string:
			targets[i] = *v
		case *int:
			targets[i] = *v
		case *int64:
			targets[i] = *v
		case **int:
			targets[i] = *v
		case **int64:
			targets[i] = *v
		case *Text:
			targets[i] = *v
		}
	}
	return targets
}

// Event is a row of task_events to insert.
type Event struct {
	Namespace, TaskID          string
	ItemID                     Text
	Attempt                    int
	Event                      string
	From, To, TaskFrom, TaskTo Text
	Actor                      Actor
	Message, Data, Diff        Text
}

// Record inserts events in the order given.
func Record(ctx context.Context, tx Tx, now int64, events []Event) error {
	if len(events) == 0 {
		return nil
	}
	rows := make([][]any, len(events))
	for i, e := range events {
		var attempt *int
		if e.Attempt > 0 {
			attempt = &e.Attempt
		}
		rows[i] = []any{e.Namespace, e.TaskID, e.ItemID, attempt, e.Event, e.From, e.To, e.TaskFrom, e.TaskTo, e.Actor.Type, Text(e.Actor.ID), e.Message, e.Data, e.Diff, now}
	}
	return tx.ExecEach(ctx, placeSQL["record"], rows)
}

// List writes texts as the JSON array that @list reads.
func List(texts []string) string {
	if texts == nil {
		return "[]"
	}
	b, _ := json.Marshal(texts) // texts always marshal
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
