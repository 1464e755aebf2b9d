package pawltest_test

import (
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/pawltest/suite"
)

func TestMain(m *testing.M) { pawltest.Main(m) }

func TestBehaviour(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			suite.Run(t, func(t *testing.T) (pawl.Service, suite.Clock) {
				p := pawltest.Open(t, which)
				return p.Service, p
			})
		})
	}
}

// The suite makes every move of the tables, and no other.
func TestMovesAreThoseListed(t *testing.T) { pawltest.MovesAreThoseListed(t) }
