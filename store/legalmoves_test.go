package store

import (
	"cmp"
	"slices"

	"github.com/pawl-work/pawl"
)

// legalMoves lists every event that the tables of moves and events allow, in table order,
// without codes: MoveCodes gives each of them its code.
func legalMoves() (out []MoveCode) {
	add := func(c MoveCode) {
		if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	for _, m := range pawl.TaskMoves {
		eachPair(m, func(from, to string) { add(MoveCode{Class: MoveOfTask, Event: eventTo(m, to), From: from, To: to}) })
	}
	for _, m := range pawl.ItemMoves {
		eachPair(m, func(from, to string) {
			event := eventTo(m, to)
			if m.Verb == "create" {
				event = "planned"
			}
			add(MoveCode{Class: MoveOfItem, Event: event, From: from, To: to})
			for _, c := range ofOnly(m, from, to) {
				add(c)
			}
		})
	}
	for _, e := range pawl.Events {
		if e.State {
			continue
		}
		if e.Of != MoveOfItem {
			add(MoveCode{Class: MoveOfTask, Event: e.Name})
		}
		if e.Of != MoveOfTask {
			add(MoveCode{Class: MoveOfItem, Event: e.Name})
			add(MoveCode{Class: MoveOfOnly, Event: e.Name})
		}
	}
	return out
}

// eachPair calls fn for each change that a move allows.
func eachPair(m pawl.Move, fn func(from, to string)) {
	for _, from := range m.From {
		for _, to := range m.To {
			fn(from, to)
		}
	}
}

// eventTo returns the event that the move to a state leaves.
func eventTo(m pawl.Move, state string) string { return cmp.Or(m.Event, state) }

// afterDecision are the verbs that move items after a decision about their task. The task's own
// event records its change.
var afterDecision = []string{"accept", "settle", "reject"}

// besides are the states that a task of one item may have besides the one that its item's
// state stands for: its item stays accepted when applying the task has failed.
var besides = map[string][]string{"accepted": {"failed", "dead_lettered"}}

// ofOnly returns the events that a move of the only item of a task may leave.
func ofOnly(m pawl.Move, from, to string) (out []MoveCode) {
	event := MoveCode{Class: MoveOfOnly, Event: eventTo(m, to), From: from, To: to}
	before, after := "", SoloState(to)
	if from != "" {
		before = SoloState(from)
	}
	if before == after || slices.Contains(afterDecision, m.Verb) {
		return []MoveCode{event}
	}
	for _, event.TaskFrom = range append([]string{before}, besides[from]...) {
		event.TaskTo = after
		out = append(out, event)
	}
	return out
}
