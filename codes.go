package pawl

import "slices"

// The classes of a MoveCode: whose event it is.
const (
	MoveOfTask = "task" // the task's
	MoveOfItem = "item" // an item's, which does not move its task by itself
	MoveOfOnly = "only" // an item's that was then the only item of its task
)

// MoveCode is what the database's tables store for an event: one number for the event's
// name, the states that it changed and whose they are.
type MoveCode struct {
	Code             int // from 1; a code never changes its meaning, and is never given again
	Class, Event     string
	From, To         string // of the item, or of the task if it is the task's event; "" = none
	TaskFrom, TaskTo string // the change of the task that its only item's change caused
}

// LegalMoves lists every event that the tables of moves and events allow, in table order,
// without codes: MoveCodes gives each of them its code.
func LegalMoves() []MoveCode {
	var out []MoveCode
	for _, m := range TaskMoves {
		for _, p := range Pairs([]Move{m}) {
			out = append(out, MoveCode{Class: MoveOfTask, Event: m.eventTo(p.To), From: p.From, To: p.To})
		}
	}
	for _, m := range ItemMoves {
		for _, p := range Pairs([]Move{m}) {
			event := m.eventTo(p.To)
			if m.Verb == "create" {
				event = "planned"
			}
			out = append(out, MoveCode{Class: MoveOfItem, Event: event, From: p.From, To: p.To})
			out = append(out, m.ofOnly(p)...)
		}
	}
	for _, e := range Events {
		if e.State {
			continue
		}
		if e.Of != MoveOfItem {
			out = append(out, MoveCode{Class: MoveOfTask, Event: e.Name})
		}
		if e.Of != MoveOfTask {
			out = append(out, MoveCode{Class: MoveOfItem, Event: e.Name}, MoveCode{Class: MoveOfOnly, Event: e.Name})
		}
	}
	return unique(out)
}

// eventTo returns the event that the move to a state leaves.
func (m Move) eventTo(state string) string {
	if m.Event == "" {
		return state
	}
	return m.Event
}

// decided are the moves of items that follow a decision about their task. The task's own
// event records its change.
var decided = []string{"accept", "settle", "reject"}

// besides are the states that a task of one item may have besides the one that its item's
// state stands for: its item stays accepted when applying the task has failed.
var besides = map[string][]string{"accepted": {"failed", "dead_lettered"}}

// ofOnly returns the events that a move of the only item of a task may leave.
func (m Move) ofOnly(p Pair) (out []MoveCode) {
	event := MoveCode{Class: MoveOfOnly, Event: m.eventTo(p.To), From: p.From, To: p.To}
	before, after := soloState(p.From), soloState(p.To)
	if before == after || slices.Contains(decided, m.Verb) {
		return []MoveCode{event}
	}
	for _, event.TaskFrom = range append([]string{before}, besides[p.From]...) {
		event.TaskTo = after
		out = append(out, event)
	}
	return out
}

// soloState returns the stored state of a task whose only item is in the state.
func soloState(item string) string {
	if item == "" {
		return ""
	}
	return string(TaskState(find(ItemStates, item).Task).Stored())
}

func unique(codes []MoveCode) (out []MoveCode) {
	for _, c := range codes {
		if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out
}
