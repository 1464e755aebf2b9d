package pawltest

import (
	"testing"

	"github.com/pawl-work/pawl"
)

// MovesAreThoseListed compares the moves that the tests of this process made with the tables:
// each listed move was made on each database. That no other is made, each test checks for
// itself at its end.
func MovesAreThoseListed(t *testing.T) {
	moves.mu.Lock()
	defer moves.mu.Unlock()
	for _, which := range Databases {
		if len(moves.made[which]) == 0 { // its tests were skipped, or not selected
			continue
		}
		for noun, table := range listed {
			for _, m := range table {
				for _, from := range m.From {
					for _, to := range m.To {
						one := pawl.Move{From: []string{from}, Verb: m.Verb, To: []string{to}, Event: m.Event}
						made := false
						for x := range moves.made[which] {
							made = made || x.noun == noun && leaves(one, x)
						}
						name := noun + " " + m.Verb + " " + from + ">" + to
						if !made {
							t.Errorf("%s: %s is listed and no test makes it", which, name)
						}
					}
				}
			}
		}
	}
}
