package pawl_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
)

// lifecycle holds the tables of one noun, for tests of all nouns.
type lifecycle struct {
	noun, title string
	states      []pawl.StateInfo
	moves       []pawl.Move
}

var lifecycles = []lifecycle{
	{"item", "Items", pawl.ItemStates, pawl.ItemMoves},
	{"task", "Tasks", pawl.TaskStates, pawl.TaskMoves},
	{"message", "Messages", pawl.MessageStates, pawl.MessageMoves},
}

// eachLifecycle runs fn for items, tasks and messages.
func eachLifecycle(t *testing.T, fn func(t *testing.T, l lifecycle)) {
	for _, l := range lifecycles {
		t.Run(l.noun, func(t *testing.T) { fn(t, l) })
	}
}

func (l lifecycle) state(name string) (pawl.StateInfo, bool) {
	i := slices.IndexFunc(l.states, func(s pawl.StateInfo) bool { return s.Name == name })
	if i < 0 {
		return pawl.StateInfo{}, false
	}
	return l.states[i], true
}

// steps are all single changes of the moves.
func steps(moves []pawl.Move, fn func(m pawl.Move, from, to string)) {
	for _, m := range moves {
		for _, from := range m.From {
			for _, to := range m.To {
				fn(m, from, to)
			}
		}
	}
}

var contractTable = regexp.MustCompile("(?ms)^```(items|tasks|messages)\n(.*?)^```$")

// The moves in docs/contract.md are the moves of the code.
func TestMovesAreTheContracts(t *testing.T) {
	contract, err := os.ReadFile("docs/contract.md")
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string]string{}
	for _, m := range contractTable.FindAllStringSubmatch(string(contract), -1) {
		tables[m[1]] = m[2]
	}
	eachLifecycle(t, func(t *testing.T, l lifecycle) {
		want := map[string]bool{}
		for _, row := range strings.Split(strings.TrimSpace(tables[l.noun+"s"]), "\n") {
			left, right, _ := strings.Cut(row, "→")
			fields := strings.Fields(left)
			froms := strings.Split(fields[0], "|")
			if fields[0] == "·" {
				froms = []string{""}
			}
			if fields[0] == "*" {
				froms = nil
				for _, s := range l.states {
					if s.Stored && !s.Terminal {
						froms = append(froms, s.Name)
					}
				}
			}
			for _, from := range froms {
				for _, to := range strings.Split(right, "|") {
					want[fields[1]+" "+from+">"+strings.TrimSpace(to)] = true
				}
			}
		}
		steps(l.moves, func(m pawl.Move, from, to string) {
			step := m.Verb + " " + from + ">" + to
			if !want[step] {
				t.Errorf("the contract has no %s", step)
			}
			delete(want, step)
		})
		for step := range want {
			t.Errorf("the table lacks %s", step)
		}
	})
}

func TestStatesAreKnownAndReached(t *testing.T) {
	eachLifecycle(t, func(t *testing.T, l lifecycle) {
		names := map[string]bool{}
		for _, s := range l.states {
			if names[s.Name] {
				t.Errorf("%s is listed twice", s.Name)
			}
			names[s.Name] = true
		}
		steps(l.moves, func(m pawl.Move, from, to string) {
			for _, name := range []string{from, to} {
				if s, known := l.state(name); name != "" && (!known || !s.Stored) {
					t.Errorf("%s: %q is no stored state", m.Verb, name)
				}
			}
			if to == "" {
				t.Errorf("%s leads nowhere", m.Verb)
			}
		})
		reached := reach(l.moves, "")
		for _, s := range l.states {
			if s.Stored && !reached[s.Name] {
				t.Errorf("nothing leads to %s", s.Name)
			}
		}
	})
}

// reach is every state that moves lead to from a state.
func reach(moves []pawl.Move, from string) map[string]bool {
	seen := map[string]bool{}
	var walk func(string)
	walk = func(s string) {
		steps(moves, func(_ pawl.Move, a, b string) {
			if a == s && !seen[b] {
				seen[b] = true
				walk(b)
			}
		})
	}
	walk(from)
	return seen
}

func TestEndsAreEnds(t *testing.T) {
	eachLifecycle(t, func(t *testing.T, l lifecycle) {
		for _, s := range l.states {
			if !s.Stored {
				continue
			}
			next := reach(l.moves, s.Name)
			if s.Terminal != (len(next) == 0) {
				t.Errorf("%s: terminal is %t, and it leads to %v", s.Name, s.Terminal, next)
			}
			ended := s.Terminal || slices.ContainsFunc(l.states, func(end pawl.StateInfo) bool { return end.Terminal && next[end.Name] })
			if !ended {
				t.Errorf("%s leads to no end", s.Name)
			}
			if allowed := pawl.Allowed(l.moves, s.Name); allowed == nil || (s.Terminal && len(allowed) > 0) {
				t.Errorf("%s allows %#v", s.Name, allowed)
			}
		}
	})
}

// The state of a task of one item has the status of its item's state. A task that frees its
// input has no work left.
func TestItemsDecideTheirOnlyTask(t *testing.T) {
	tasks := lifecycles[1]
	for _, s := range pawl.ItemStates {
		if of, known := tasks.state(s.Task); !known || !of.Shown || of.Status != s.Status {
			t.Errorf("an item that is %s (%s) has a task that is %q (%s)", s.Name, s.Status, s.Task, of.Status)
		}
	}
	for _, s := range pawl.TaskStates {
		if s.FreesInput && (s.Status == pawl.StatusPending || s.Status == pawl.StatusInProgress) {
			t.Errorf("%s frees its input", s.Name)
		}
	}
}

// Only a claim creates a lease; other moves to a leased state begin in one.
func TestLeasesComeFromClaims(t *testing.T) {
	steps(pawl.ItemMoves, func(m pawl.Move, from, to string) {
		held, holds := pawl.ItemState(from).Leased(), pawl.ItemState(to).Leased()
		if !held && holds && m.Verb != "claim" {
			t.Errorf("%s makes a lease: %s > %s", m.Verb, from, to)
		}
		if held && holds && m.Verb != "start" {
			t.Errorf("%s goes on with a lease: %s > %s", m.Verb, from, to)
		}
	})
}

func TestVerbsOfState(t *testing.T) {
	for _, c := range []struct {
		name string
		got  []string
		want string
	}{
		{"queued item", pawl.ItemQueued.Allowed(), "claim cancel"},
		{"leased item", pawl.ItemLeased.Allowed(), "complete submit fail release revoke_lease suspend cancel"},
		{"failed item", pawl.ItemFailed.Allowed(), "retry bury cancel"},
		{"completed item", pawl.ItemCompleted.Allowed(), ""},
		{"queued task", pawl.TaskQueued.Allowed(), "cancel"},
		{"checked-out task", pawl.TaskCheckedOut.Allowed(), "cancel"},
		{"submitted task", pawl.TaskSubmitted.Allowed(), "approve reject cancel"},
		{"cancelled task", pawl.TaskCancelled.Allowed(), ""},
	} {
		if got := strings.Join(c.got, " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// The coarse word for each fine one (docs/contract.md §1, §2).
func TestStatuses(t *testing.T) {
	const items = `pending: scheduled waiting queued
in_progress: leased in_progress submitted accepted
completed: completed
failed: failed rejected dead_lettered
cancelled: cancelled`
	const tasks = `pending: queued
in_progress: checked_out in_progress submitted approved applied
completed: completed
failed: failed rejected dead_lettered
cancelled: cancelled`
	check := func(table string, states []pawl.StateInfo) {
		shown := 0
		for _, row := range strings.Split(table, "\n") {
			status, names, _ := strings.Cut(row, ": ")
			for _, name := range strings.Fields(names) {
				shown++
				i := slices.IndexFunc(states, func(s pawl.StateInfo) bool { return s.Name == name })
				if i < 0 || string(states[i].Status) != status || !states[i].Shown {
					t.Errorf("%s is not shown as %s", name, status)
				}
			}
		}
		for _, s := range states {
			if s.Shown {
				shown--
			}
		}
		if shown != 0 {
			t.Error("a shown state has no status in the contract")
		}
	}
	check(items, pawl.ItemStates)
	check(tasks, pawl.TaskStates)
	if pawl.TaskOpen.Stored() != pawl.TaskOpen || pawl.TaskCheckedOut.Stored() != pawl.TaskOpen ||
		pawl.TaskFailed.Stored() != pawl.TaskFailed {
		t.Error("a shown state is not read back to the stored one")
	}
}

// Every move leaves an event, and every event that records a change of state is
// left by one.
func TestMovesLeaveEvents(t *testing.T) {
	left := map[string]bool{"planned": true} // one for each item of a task with many
	eachLifecycle(t, func(t *testing.T, l lifecycle) {
		for _, m := range l.moves {
			names := []string{m.Event}
			if m.Event == "" { // the state it brings names it
				names = m.To
			}
			for _, name := range names {
				left[name] = true
				i := slices.IndexFunc(pawl.Events, func(e pawl.EventInfo) bool { return e.Name == name })
				if i < 0 {
					t.Errorf("%s leaves the unknown event %q", m.Verb, name)
				} else if pawl.Events[i].State != (l.noun != "message") {
					t.Errorf("event %s: records a change of state is %t", name, pawl.Events[i].State)
				}
			}
		}
	})
	for i, e := range pawl.Events {
		if e.State && !left[e.Name] {
			t.Errorf("no move leaves %s", e.Name)
		}
		if e.Means == "" || slices.ContainsFunc(pawl.Events[:i], func(o pawl.EventInfo) bool { return o.Name == e.Name }) {
			t.Errorf("event %s has no message, or is listed twice", e.Name)
		}
	}
}
