package engine_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/pawl-work/pawl"
)

// notWalked lists the methods of the service that no call of the concurrent walk uses,
// with the reason.
var notWalked = map[string]string{
	"ResumeRelay":   "changes a relay's own row alone; the tests of package relay call it while relays run",
	"ForgetRelay":   "as ResumeRelay",
	"DeleteArchive": "takes away what the walk compares with; segment_test.go of sweep has it beside restores",
	"PauseQueue":    "changes the row of a queue alone; pause_test.go has it beside claims", "ResumeQueue": "as PauseQueue",
	"PauseNamespace": "as PauseQueue", "ResumeNamespace": "as PauseQueue", "GetQueue": onlyReads, "ListQueues": onlyReads,
	"Tick":             "it is a sweep, which the walk calls, and the log of the feed",
	"PruneCheckpoints": "it removes as a sweep does, under the same lock",
	"GetBudget":        onlyReads, "ListBudgets": onlyReads, "BudgetSpending": onlyReads,
	"PutBudget": withBudgets, "DeleteBudget": withBudgets, "ReserveBudget": withBudgets, "SettleBudget": withBudgets,

	"PutSchedule":    "changes the row of a schedule alone; schedule_test.go has races of schedules",
	"ResumeSchedule": "changes the row of a schedule alone; schedule_test.go has races of schedules",
	"RunSchedule":    "creates a task as CreateTasks does", "DeleteSchedule": "as ResumeSchedule",
	"GetSchedule": onlyReads, "ListSchedules": onlyReads, "ListFirings": onlyReads,

	"Bulk": "creates a task; the verbs that it applies are walked, and bulk_test.go has it beside claims", "CountBulk": onlyReads,

	"TaskResult": onlyReads, "PartialResult": onlyReads, "GetType": onlyReads, "ListTypes": onlyReads,
	"ListEvents":      onlyReads,
	"ListCheckpoints": onlyReads, "ListParts": onlyReads, "ListProvenance": onlyReads, "CountCheckpoints": onlyReads,
	"GetMessage": onlyReads, "ListMessages": onlyReads,
	"ListWorkers": onlyReads, "ListKeys": onlyReads, "ListNamespaces": onlyReads,
	"ListSweeps": onlyReads, "Prunable": onlyReads, "Doctor": onlyReads, "Stats": onlyReads,
	"SuggestLeases": onlyReads,
	"Series":        "it counts events that are committed, as the feed does; series_test.go has several engines",
	"ListFailures":  onlyReads,
	"Resume":        onlyReads, "ResumePage": onlyReads, "CheckToken": onlyReads, "ListRelays": onlyReads,
	"ListTasks": onlyReads, "GetKeys": onlyReads, "FollowEvents": onlyReads, "FollowMessage": onlyReads, "OpenBlob": onlyReads,
	"Why":       onlyReads,
	"GetEffect": onlyReads, "ListEffects": onlyReads, "EffectReceipt": onlyReads,
	"OpenEffect": withEffects, "EffectDone": withEffects, "EffectFailed": withEffects, "EffectUnknown": withEffects, "KeepEffect": withEffects,
	"ApproveEffect": withEffects, "RejectEffect": withEffects, "ResolveEffect": withEffects,
	"LogCheckpoint": onlyReads, "ProveTask": onlyReads, "ProveLog": onlyReads,
}

const (
	onlyReads   = "it changes nothing"
	withEffects = "effect_test.go has a walk of its own, which counts what is sent"
	withBudgets = "budget_test.go has a walk of its own, against a model of budgets"
)

// Every method of the service is called by a verb of the walk or is listed with a reason.
func TestTheWalkCallsEveryVerb(t *testing.T) {
	called := map[string]bool{}
	files, err := filepath.Glob("walk_*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if id, ok := sel.X.(*ast.Ident); ok && id.Name == "svc" {
					called[sel.Sel.Name] = true
				}
			}
			return true
		})
	}
	service := reflect.TypeFor[pawl.Service]()
	for n := range service.NumMethod() {
		name := service.Method(n).Name
		switch reason := notWalked[name]; {
		case reason == "" && !called[name]:
			t.Errorf("%s: no verb of the walk calls it, and no reason says why", name)
		case reason != "" && called[name]:
			t.Errorf("%s: is called by the walk; take it off the list of those that are not", name)
		}
		delete(notWalked, name)
	}
	for name := range notWalked {
		t.Errorf("%s: no method of the service", name)
	}
}
