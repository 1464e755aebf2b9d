package pawltest_test

import (
	"os"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/pawltest/suite"
)

func TestMain(m *testing.M) {
	pawltest.RunTransactionsTwice()
	pawltest.Main(m)
}

// The promises hold also if transactions run again, as they do after a deadlock. The client's suite runs each once.
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

// A relay that is disabled is reported by a task that is failed when it is created.
func TestADisabledRelayIsAFailedTask(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		r, taken, err := p.Engine.TakeRelay(t.Context(), "bus", "nats", "a", time.Minute)
		if err != nil || !taken {
			t.Fatal(taken, err)
		}
		at := p.Now()
		r.FailingAt, r.DisabledAt, r.Error = &at, &at, "gone"
		if kept, err := p.Engine.KeepRelay(t.Context(), r, 0); err != nil || !kept {
			t.Fatal(kept, err)
		}
		tasks, err := p.Service.ListTasks(t.Context(), pawl.TaskFilter{Types: []string{pawl.TypeRelayDisabled}})
		if err != nil || len(tasks.Items) != 1 || tasks.Items[0].State != pawl.TaskFailed {
			t.Errorf("%+v, %v", tasks.Items, err)
		}
	})
}

// After the suite, a database that its tests have used is as a new one.
func TestADatabaseIsAsNewAfterTheSuite(t *testing.T) { pooledIsNew(t) }

// The suite and the tests before make every move of the tables, on each database.
func TestMovesAreThoseListed(t *testing.T) { pawltest.MovesAreThoseListed(t) }

// Behind a pooler of transactions with four sessions the promises hold too: those about time and
// waiting always, and all of them with PAWL_TEST_POOLED=1.
func TestBehaviourBehindAPooler(t *testing.T) {
	run := suite.RunTimed
	if os.Getenv("PAWL_TEST_POOLED") == "1" {
		run = suite.Run
	}
	run(t, func(t *testing.T) (pawl.Service, suite.Clock) {
		p := pawltest.Open(t, pawltest.Pooled)
		return p.Service, p
	})
}

// In an application's file the promises hold too, and its tables of the same names are not touched: some
// of them always, and all with PAWL_TEST_PREFIXED=1.
func TestBehaviourBesideAnApplication(t *testing.T) {
	run := suite.RunTimed
	if os.Getenv("PAWL_TEST_PREFIXED") == "1" {
		run = suite.Run
	}
	run(t, func(t *testing.T) (pawl.Service, suite.Clock) {
		p := pawltest.Open(t, pawltest.Prefixed)
		return p.Service, p
	})
}
