// Package suite tests the behaviour of Pawl: one promise per test, one noun per file. It takes
// a pawl.Service and a clock. So the same tests run against the engine on SQLite, the engine
// on PostgreSQL and the client of a server.
//
//	func TestBehaviour(t *testing.T) {
//		suite.Run(t, func(t *testing.T) (pawl.Service, suite.Clock) {
//			p := pawltest.Open(t, pawltest.SQLite)
//			return p.Service, p
//		})
//	}
package suite

import (
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// Clock is the database's clock. Only Advance moves it.
type Clock = pawltest.Clock

// Open returns a service over an empty database, and that database's clock. It is called once
// for each promise and cleans up with t.Cleanup.
type Open func(t *testing.T) (pawl.Service, Clock)

// promise is one sentence of docs/contract.md and the test that fails if it is broken.
type promise struct {
	says string
	test func(w *fixture)
}

// noun holds the promises about one thing.
type noun struct {
	name     string
	promises []promise
}

// nouns are all nouns, one on each line: the changes of several branches then do not conflict.
var nouns = []noun{
	tasks,
	updates,
	clones, forks,
	derived,
	settling,
	resettling,
	moving,
	results,
	adding,
	items,
	claims,
	priorities,
	waits,
	fence,
	heartbeats,
	progress,
	taskTokens,
	failures,
	retries,
	burials,
	releases,
	suspensions,
	repeatedCalls,
	signals,
	expiry,
	prefetch,
	schedules,
	cancels,
	deletes,
	dependencies,
	checkpoints,
	ownAppends,
	resumes,
	messages,
	ownMessages,
	appends,
	steps,
	readers,
	events,
	eventFilters,
	feeds,
	provenance,
	keys,
	keyAges,
	dedupe,
	types,
	plans,
	acceptance,
	lists,
	itemLists,
	limits,
	answersOfBatches,
	limitsOfWork,
	badText,
	namespaces,
	workers,
	series,
	leaseAdvice,
	sweeps,
	relays,
	queues,
	queueLimits,
	budgets,
	effects, effectSenders,
	children,
	budgetKeeping,
	budgetQuestions,
	budgetEnds,
	uniqueness,
	debounces,
	deadlines,
	timeouts,
	snoozes,
	cron,
	bulkCalls,
	searches,
	retention,
	races,
}

// Run checks every promise against services made by open, in parallel. After each promise it
// audits the events: the events of every item and task form one chain from its creation to its
// current state.
func Run(t *testing.T, open Open) { run(t, open, nouns) }

// RunTimed checks only the promises that depend on how a database waits, tells of changes and keeps time and keys: those
// about waits, streams, idempotency keys and time-outs. They suffice for a layer that does not know which
// database is below it and has passed all promises above another one.
func RunTimed(t *testing.T, open Open) {
	run(t, open, []noun{waits, messages, readers, feeds, keys, keyAges, timeouts, deadlines, expiry, heartbeats, races})
}

func run(t *testing.T, open Open, nouns []noun) {
	for _, n := range nouns {
		t.Run(n.name, func(t *testing.T) {
			for _, p := range n.promises {
				t.Run(p.says, func(t *testing.T) {
					t.Parallel()
					svc, clock := open(t)
					w := &fixture{T: t, svc: svc, clock: clock, ctx: t.Context()}
					p.test(w)
					w.audit()
				})
			}
		})
	}
}
