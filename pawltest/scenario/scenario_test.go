package scenario_test

import (
	"flag"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/pawltest/scenario"
)

var rewrite = flag.Bool("rewrite", false, "write what comes out into testdata, by SQLite")

func TestMain(m *testing.M) { pawltest.Main(m) }

func TestScenarios(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			dir := ""
			if *rewrite && which == pawltest.SQLite {
				dir = "testdata"
			}
			scenario.Run(t, func(t *testing.T) (pawl.Service, pawltest.Clock, func() pawl.Service) {
				p := pawltest.Open(t, which)
				return p.Service, p, func() pawl.Service { return p.Another(engine.Options{}) }
			}, dir)
		})
	}
}
