package pawltest

import (
	"slices"
	"testing"

	"github.com/pawl-work/pawl"
)

// leaves reports whether a move of the tables leaves such a change in the events.
func leaves(m pawl.Move, made move) bool {
	event := made.event == "" || made.event == m.Event || m.Event == "" && made.event == made.to ||
		m.Verb == "create" && made.event == "planned" // one for each item of a task with many
	return event && slices.Contains(m.From, made.from) && slices.Contains(m.To, made.to)
}

// unmade lists the moves that this process does not make, with the reason. A row whose move is
// made must be removed.
var unmade = map[string]string{
	"item give_up queued>failed":       "a relay gives up the item it makes of a refused event: see the engine's TestRelay tests",
	"item give_up scheduled>failed":    "an item with dependencies waits, for its time too",
	"task settle submitted>completed":  "only of a task that an older version left",
	"task settle dead_lettered>failed": "only of a task that an older version left",
	"task cancel applied>cancelled":    "applied is passed through in the transaction that completes the task",
}

// MovesAreThoseListed compares the moves that the tests of this process made with the tables:
// each listed move was made on each database, and no other.
func MovesAreThoseListed(t *testing.T) {
	moves.mu.Lock()
	defer moves.mu.Unlock()
	for _, which := range Databases {
		if len(moves.made[which]) == 0 { // its tests were skipped, or not selected
			continue
		}
		for noun, table := range map[string][]pawl.Move{"item": pawl.ItemMoves, "task": pawl.TaskMoves, "message": pawl.MessageMoves} {
			for made := range moves.made[which] {
				if made.noun == noun && !slices.ContainsFunc(table, func(m pawl.Move) bool { return leaves(m, made) }) {
					t.Errorf("%s: %+v is made and not listed", which, made)
				}
			}
			for _, m := range table {
				for _, from := range m.From {
					for _, to := range m.To {
						listed := pawl.Move{From: []string{from}, Verb: m.Verb, To: []string{to}, Event: m.Event}
						made := false
						for x := range moves.made[which] {
							made = made || x.noun == noun && leaves(listed, x)
						}
						name := noun + " " + m.Verb + " " + from + ">" + to
						if excused := unmade[name] != ""; made == excused {
							t.Errorf("%s: %s: made is %t, excused is %t", which, name, made, excused)
						}
					}
				}
			}
		}
	}
}
