package store

import (
	"database/sql/driver"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
)

// The states of items by their properties in the root package's table.
var (
	OpenStates   = itemStates(func(s pawl.StateInfo) bool { return s.Counter == "open" })
	aliveStates  = itemStates(func(s pawl.StateInfo) bool { return !s.Terminal })
	leasedStates = itemStates(func(s pawl.StateInfo) bool { return s.Leased })
)

func itemStates(which func(pawl.StateInfo) bool) (names []string) {
	for _, s := range pawl.ItemStates {
		if which(s) {
			names = append(names, s.Name)
		}
	}
	return names
}

// statesOf returns the states of the items that a table holds.
func statesOf(table string) []string {
	return itemStates(func(s pawl.StateInfo) bool { return s.Table == table })
}

// TaskStates returns the states of a task with a property.
func TaskStates(which func(pawl.StateInfo) bool) (names []string) {
	for _, s := range pawl.TaskStates {
		if which(s) {
			names = append(names, s.Name)
		}
	}
	return names
}

// FreesInput reports whether a task in the state leaves its input to other tasks.
func FreesInput(state string) bool { return slices.Contains(freeing, state) }

var freeing = TaskStates(func(s pawl.StateInfo) bool { return s.FreesInput })

// HasWork reports whether an item in the state has work left.
func HasWork(state string) bool { return slices.Contains(OpenStates, state) }

// SoloState returns the stored state of a task of one item, derived from the state of its
// item.
func SoloState(item string) string {
	return string(pawl.TaskState(itemState(item).Task).Stored())
}

// itemState returns the properties of an item's state.
func itemState(name string) pawl.StateInfo {
	return pawl.ItemStates[slices.IndexFunc(pawl.ItemStates, func(s pawl.StateInfo) bool { return s.Name == name })]
}

// ExpandStates replaces these marks by states and by events:
//
//	@from(task retry)  the states of a task that the verb starts from
//	@from_codes(item retry)  the numbers of the states that @from lists, of an item
//	@state(completed)  the number of an item's state, which the tables of states store
//	@state_name(state) the name of the state that has a number
//	@counted(open)     the states of the items that a task counts as open
//	@tasks(freed)      the states of a task that leave its input to other tasks
//	@tasks(ended)      the final states of a task
//	@tasks(derived)    the states of a task that are computed for an open one
//	@settled(failed)   the state that an open task moves to: see settlements
//	@events(item claim, 'part_submitted', fail)
//	                   the codes of the events that the verbs leave, and of others by name
//	@events(stateless) the codes of the events that change no state
//	@move(failed, state, 'queued', solo)
//	                   the code of an event to insert: see moveExpression
func ExpandStates(query string) string {
	query = expand(query, "@from(", func(arg string) string {
		noun, verb, _ := strings.Cut(arg, " ")
		return quotedList(pawl.From(movesOf[noun], verb), arg)
	})
	query = expand(query, "@from_codes(", func(arg string) string {
		_, verb, _ := strings.Cut(arg, " ")
		var codes []string
		for _, s := range pawl.From(pawl.ItemMoves, verb) {
			codes = append(codes, stateCode(s))
		}
		return "(" + strings.Join(codes, ", ") + ")"
	})
	query = expand(query, "@state(", stateCode)
	query = expand(query, "@state_name(", stateName)
	query = expand(query, "@tasks(", func(arg string) string { return quotedList(taskLists[arg], arg) })
	query = expand(query, "@settled(", settledState)
	query = expand(query, "@events(", eventsOf)
	query = expand(query, "@move(", moveExpression)
	return expand(query, "@counted(", func(arg string) string {
		return quotedList(itemStates(func(s pawl.StateInfo) bool { return s.Counter == arg }), arg)
	})
}

// stateCode returns the number of an item's state, as it is written in a statement.
func stateCode(name string) string {
	s := itemState(name)
	if s.Code == 0 {
		panic("store: no number of state " + name) // the texts of statements are part of the program
	}
	return strconv.Itoa(s.Code)
}

// stateName returns the expression for the name of a state: NULL for a number that is none.
func stateName(number string) string {
	var b strings.Builder
	b.WriteString("CASE " + number)
	for _, s := range pawl.ItemStates {
		if s.Code != 0 {
			fmt.Fprintf(&b, " WHEN %d THEN '%s'", s.Code, s.Name)
		}
	}
	return b.String() + " END"
}

// StateCode is the name of an item's state, which the tables of states store as a number.
type StateCode string

// Value implements driver.Valuer.
func (s StateCode) Value() (driver.Value, error) {
	i := slices.IndexFunc(pawl.ItemStates, func(x pawl.StateInfo) bool { return x.Name == string(s) && x.Code != 0 })
	if i < 0 {
		return nil, fmt.Errorf("%q is no state of an item", string(s))
	}
	return int64(pawl.ItemStates[i].Code), nil
}

// Scan implements sql.Scanner.
func (s *StateCode) Scan(v any) error {
	n, _ := v.(int64)
	i := slices.IndexFunc(pawl.ItemStates, func(x pawl.StateInfo) bool { return int64(x.Code) == n && n != 0 })
	if i < 0 {
		return fmt.Errorf("%v is the number of no state", v)
	}
	*s = StateCode(pawl.ItemStates[i].Name)
	return nil
}

var movesOf = map[string][]pawl.Move{"item": pawl.ItemMoves, "task": pawl.TaskMoves}

// taskLists are the lists of states that @tasks(name) stands for.
var taskLists = map[string][]string{
	"freed":   freeing,
	"ended":   TaskStates(func(s pawl.StateInfo) bool { return s.Terminal }),
	"derived": TaskStates(func(s pawl.StateInfo) bool { return s.Shown && !s.Stored }),
}

// settlements are the items of a task, one of each kind, for which @settled(name) is the
// state that follows: see Counts.Settled.
var settlements = map[string]Counts{
	"completed": {Items: 1},
	"submitted": {Items: 1, Acceptance: true},
	"failed":    {Items: 1, Failed: 1},
	"dead":      {Items: 1, Dead: 1},
}

func settledState(arg string) string {
	counts, known := settlements[arg]
	to := counts.Settled()
	if !known || !slices.ContainsFunc(pawl.TaskMoves, func(m pawl.Move) bool {
		return m.Verb == "settle" && slices.Contains(m.From, string(pawl.TaskOpen)) && slices.Contains(m.To, to)
	}) {
		panic("store: no task settles as @settled(" + arg + ")") // the texts of statements are part of the program
	}
	return "'" + to + "'"
}

// eventsOf returns the codes of the events that the moves of verbs leave. A quoted name
// stands for itself.
func eventsOf(arg string) string {
	if arg == "stateless" {
		return codesOf(func(m MoveCode) bool { return m.To == "" })
	}
	noun, verbs, _ := strings.Cut(arg, " ")
	var names []string
	for _, verb := range strings.Split(verbs, ", ") {
		if name := strings.Trim(verb, "'"); name != verb {
			names = append(names, name)
			continue
		}
		i := slices.IndexFunc(movesOf[noun], func(m pawl.Move) bool { return m.Verb == verb && m.Event != "" })
		if i < 0 {
			panic("store: " + verb + " leaves no event of its own: @events(" + arg + ")")
		}
		names = append(names, movesOf[noun][i].Event)
	}
	for _, name := range names {
		if !slices.ContainsFunc(pawl.Events, func(e pawl.EventInfo) bool { return e.Name == name }) {
			panic("store: no event " + name + ": @events(" + arg + ")")
		}
	}
	return codesOf(func(m MoveCode) bool { return slices.Contains(names, m.Event) })
}

func quotedList(states []string, of string) string {
	if len(states) == 0 {
		panic("store: no states of " + of) // the texts of statements are part of the program
	}
	return "('" + strings.Join(states, "', '") + "')"
}
