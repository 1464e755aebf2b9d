package store

import (
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
)

// The states of items by their properties in the root package's table.
var (
	openStates   = itemStates(func(s pawl.StateInfo) bool { return s.Counter == "open" })
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

// itemState returns the properties of an item's state.
func itemState(name string) pawl.StateInfo {
	return pawl.ItemStates[slices.IndexFunc(pawl.ItemStates, func(s pawl.StateInfo) bool { return s.Name == name })]
}

// expandStates replaces these marks by lists of states:
//
//	@from(task retry)  the states of a task that the verb starts from
//	@counted(open)     the states of the items that a task counts as open
func expandStates(query string) string {
	query = expand(query, "@from(", func(arg string) string {
		noun, verb, _ := strings.Cut(arg, " ")
		return quotedList(pawl.From(map[string][]pawl.Move{"item": pawl.ItemMoves, "task": pawl.TaskMoves}[noun], verb), arg)
	})
	return expand(query, "@counted(", func(arg string) string {
		return quotedList(itemStates(func(s pawl.StateInfo) bool { return s.Counter == arg }), arg)
	})
}

func quotedList(states []string, of string) string {
	if len(states) == 0 {
		panic("store: no states of " + of) // the texts of statements are part of the program
	}
	return "('" + strings.Join(states, "', '") + "')"
}
