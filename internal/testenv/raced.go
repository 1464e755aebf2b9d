package main

import (
	"slices"
	"strings"
)

// raced lists what a run with -raced repeats with the race detector: the code whose goroutines are Pawl's own. Code
// without goroutines of its own, such as the command line or the dashboard, cannot race, and the detector makes its
// tests several times as slow. No tests = all.
var raced = []struct {
	packages []string
	tests    []string
	onBoth   []string // of the tests, those that run on PostgreSQL too; nil = all
	under    string   // of the tests' subtests, those that match, as in -run
	skip     string   // as in -skip
}{
	// Most goroutines are the same on each database, and with an engine and with a client. What differs on PostgreSQL is how
	// processes hear of each other, and connections.
	{packages: []string{"./engine/internal/budgets", "./engine/internal/bulk", "./engine/internal/commit", "./engine/internal/keys",
		"./engine/internal/logs", "./engine/internal/queue", "./engine/internal/relays", "./engine/internal/schedules",
		"./engine/internal/signals", "./engine/internal/stats", "./engine/internal/messages", "./engine/internal/tasktypes", "./internal/watch",
		"./feed", "./relay", "./worker"},
		skip: "./^(postgres|client_sqlite)$"},
	{packages: []string{"./engine", "./server", "./store/postgres", "./store/sqlite"}, onBoth: []string{
		"TestConcurrentWalk", "TestNoEndOfATaskIsMissed", "TestAnotherProcessEndsATask", "TestWorkWithoutAWordIsFoundByAllWhoWait",
		"TestCommittedWakesClaims", "TestServersMeetNewNamesAtOnce",
	}, tests: []string{
		// All verbs at once, and whether what they answered can have happened one after the other.
		"TestConcurrentWalk", "TestConcurrentHistoriesAreLinearizable", "TestThirtyTwoAgentsAboutOneTask",
		// Limits.
		"TestLimitsHold", "TestOrderHoldsFromItsStart", "TestLimitsHoldWhileProcessesDie",
		// Children, and parents that wait for them.
		"TestChildrenAgainstTheirParent", "TestChildrenEndWhileTheirParentIsChanged", "TestAKeyHasOneChild",
		// Processes and databases that stop and go on.
		"TestThawedWorkersAreRefused", "TestAFrozenDatabase", "TestPostgresGoneAndBack", "TestAnExcludedProgramStops",
		"TestAnExcludedProgramLearnsWhenItReconnects",
		// Waits.
		"TestAnotherProcessEndsATask", "TestNoEndOfATaskIsMissed", "TestAWaitForATaskEnds",
		"TestWorkWithoutAWordIsFoundByAllWhoWait", "TestAWaitingClaimOutlivesItsConnection", "TestCommittedWakesClaims",
		"TestRevokingRaces",
		// What an engine keeps in memory, and its goroutines.
		"TestServersMeetNewNamesAtOnce", "TestServersCreateAQueueAtOnce",
		// Connections to PostgreSQL.
		"TestContexts", "TestDeadlockRunsAgain", "TestManyMigrateAtOnce", "TestCrossedBatches", "TestLastTwoAtOnce",
		"TestSlotsAreGrantedInOrder", "TestFenceIsReadAfterTheWait", "TestAPoolerOfTransactionsIsFound", "TestAPoolerIsRecognisedLater",
		// Connections to SQLite.
		"TestDoCommitsWholeOrNotAtAll", "TestOneTextMayBeReadTwiceAtOnce", "TestViewStopsWithItsContext", "TestGoroutinesTakeTurns",
		"TestABusyDatabaseIsWaitedFor", "TestAFullDiskLosesNothingAndTheEngineGoesOn", "TestAFileThatIsGoneIsUnavailableUntilItIsBack",
		"TestChangedSeesOtherHandles", "TestClosedIsUnavailable", "TestReadersAreReserved", "TestReadsEndWithTheirContext",
		"TestAnInterruptHitsNoOtherRead", "TestNothingIsLeftAfterClose", "TestTheLogStaysBoundedUnderOverlappingReaders",
		"TestTheMigrationLockEndsWithItsContext", "TestBackupIsWholeWhileWorkGoesOn",
		// Streams.
		"TestASecondServerReads", "TestASlowReaderGetsAllOfIt", "TestASlowReaderLearnsOfACut", "TestManyWorkersMakeEachMessageOnce",
		"TestStreamGoesOnAtAnotherServer", "TestStreamEndsWhenTheServerStops", "TestSilentStreamEndsWhole",
		"TestStreamBeatsAndCutsTheSlow", "TestAThousandStreams", "TestAReaderWhoTakesNothing", "TestRevocationEndsWaitsAndStreams",
		"TestClaimsThatWait", "TestBodiesInFlightAreBounded",
	}},
	{packages: []string{"./pawltest", "./client"}, tests: []string{"TestBehaviour", "TestThePoolLendsADatabaseOnce"},
		under: "^(sqlite|postgres)$/^(waiting_for_work|messages|readers|feed|races)$"},
}

// uninstrumented keeps the detector out of SQLite. It is C translated to Go, and one goroutine at a time calls it. To
// instrument it too would make its tests four to eight times as slow.
const uninstrumented = "-gcflags=modernc.org/...=-race=false -d=checkptr=0"

// racedRuns are the runs of the list with other arguments as given, which name all packages.
func racedRuns(args []string) (runs []goTest) {
	args = withoutPackages(args)
	for _, r := range raced {
		with := append(slices.Clone(args), goTest{race: true}.detector()...)
		if len(r.tests) > 0 {
			with = append(with, "-run", anyOf(r.tests)+below(r.under))
		}
		if r.onBoth != nil {
			onSQLite := slices.DeleteFunc(slices.Clone(r.tests), func(test string) bool { return slices.Contains(r.onBoth, test) })
			with = append(with, "-skip", anyOf(onSQLite)+"/^postgres$")
		}
		if r.skip != "" {
			with = append(with, "-skip", r.skip)
		}
		runs = append(runs, goTest{args: append(with, r.packages...), race: true})
	}
	return runs
}

// detector are the arguments that turn the detector on.
func (t goTest) detector() []string {
	if !t.race {
		return nil
	}
	return []string{"-race", uninstrumented}
}

func anyOf(tests []string) string { return "^(" + strings.Join(tests, "|") + ")$" }

func below(under string) string {
	if under == "" {
		return ""
	}
	return "/" + under
}

func withoutPackages(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == allPackages })
}
