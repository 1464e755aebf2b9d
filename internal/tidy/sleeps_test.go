package tidy

import (
	"go/ast"
	"maps"
	"slices"
	"testing"
)

// sleeps lists the tests' sleeps in real time, by file, each with its reason. The list may only shrink: wait for what is
// to happen, or test in a bubble of testing/synctest. Not on it are sleeps in such a bubble, and the pauses of loops that
// ask for a condition (`for …; …; time.Sleep(…)`), whose bound only ends the wait.
var sleeps = map[string]struct {
	n   int
	why string
}{
	"agent/kill_unix_test.go":                   {1, chance},
	"client/crash_unix_test.go":                 {2, chance},
	"client/judged_test.go":                     {1, asks},
	"client/vectors_test.go":                    {1, chance},
	"cmd/pawl/internal/worker/exec_test.go":     {1, "a database that is slow to save a checkpoint"},
	"cmd/pawl/internal/top/screen_unix_test.go": {2, nothing},
	"cmd/pawl/script_test.go":                   {1, expires},
	"cmd/pawl/why_test.go":                      {3, expires},
	"dashboard/access_test.go":                  {2, asks},
	"engine/await_task_test.go":                 {6, "it looks for statements while nothing happens, and calls wait before the end comes"},
	"engine/await_test.go":                      {1, nothing},
	"engine/relocate_beside_test.go":            {1, asks},
	"engine/blob_stores_test.go":                {1, chance},
	"engine/internal/budgets/ask_test.go":       {2, asks},
	"engine/bulk_busy_test.go":                  {1, asks},
	"engine/bulk_test.go":                       {2, asks},
	"engine/bulk_unix_test.go":                  {2, chance},
	"engine/cancel_test.go":                     {1, chance},
	"engine/cancel_unix_test.go":                {1, asks},
	"engine/children_concurrent_test.go":        {1, asks},
	"engine/conns_two_test.go":                  {1, "limits are known for half a second"},
	"engine/crash_unix_test.go":                 {1, expires},
	"engine/delete_refused_test.go":             {1, nothing},
	"engine/internal/keys/calls_test.go":        {1, asks},
	"engine/idempotent_unix_test.go":            {1, asks},
	"engine/input_test.go":                      {1, chance},
	"engine/internal/logs/tombstone_test.go":    {1, chance},
	"engine/limits_tx_test.go":                  {1, chance},
	"engine/limits_unix_test.go":                {4, chance},
	"engine/message_unix_test.go":               {1, chance},
	"engine/pause_test.go":                      {3, "claims go on during a pause, and the engine asks the database anew after a second"},
	"engine/process_unix_test.go":               {1, expires},
	"engine/revoke_test.go":                     {1, asks},
	"engine/start_test.go":                      {1, chance},
	"engine/walk_concurrent_test.go":            {1, asks},
	"examples/nightly/main_test.go":             {1, asks},
	"feed/commit_test.go":                       {5, "transactions of random length; an open one is looked for all the time"},
	"internal/gctune/gctune_test.go":            {1, asks},
	"internal/watch/hub_test.go":                {1, bubble},
	"mcp/admit_test.go":                         {1, chance},
	"mcp/wait_test.go":                          {1, bubble},
	"relay/fake_test.go":                        {1, bubble},
	"relay/outage_test.go":                      {1, asks},
	"relay/rabbitmq/silent_test.go":             {1, expires},
	"server/input_test.go":                      {1, asks},
	"server/late_test.go":                       {1, asks},
	"server/revoke_test.go":                     {2, asks},
	"server/stream_test.go":                     {1, nothing},
	"server/waiting_test.go":                    {1, nothing},
	"session_test.go":                           {1, chance},
	"store/postgres/open_test.go":               {1, asks},
	"store/postgres/verbs_test.go":              {1, asks},
	"store/sqlite/tx_test.go":                   {1, nothing},
	"store/sqlite/wal_limit_test.go":            {1, expires},
	"sweep/plain_test.go":                       {1, asks},
	"sweep/retain_failed_test.go":               {1, asks},
	"internal/gate/gate_test.go":                {1, asks},
	"internal/mcpgate/gate_test.go":             {2, asks},
	"worker/effect_test.go":                     {1, asks},
	"worker/fake_test.go":                       {1, bubble},
	"worker/log_test.go":                        {1, bubble},
	"worker/rabbitmq/driven_test.go":            {1, asks},
	"worker/result_test.go":                     {2, bubble},
	"worker/stop_test.go":                       {2, bubble},
}

const (
	asks    = "the pause of a loop that asks for a condition"
	bubble  = "a function that runs in a bubble of testing/synctest"
	chance  = "a pause that lets the order of events differ; each order is right"
	nothing = "others have time to wait, or nothing is to happen; on a slow machine the test sees less and does not fail"
	expires = "a lease, a heartbeat or a snapshot of a real process or database has to age"
)

func TestSleepsHaveAReason(t *testing.T) {
	found := map[string]int{}
	each(t, func(f *file) bool { return f.isGo() && f.isTest() && !f.under("bench") }, func(f *file) {
		if n := sleepsIn(f.ast); n > 0 {
			found[f.path] = n
		}
	})
	for _, file := range slices.Sorted(maps.Keys(found)) {
		switch listed := sleeps[file]; {
		case found[file] > listed.n:
			t.Errorf("%s sleeps in %d places, %d are listed: wait for what is to happen, or use testing/synctest", file, found[file], listed.n)
		case found[file] < listed.n:
			t.Errorf("%s sleeps in %d places only: lower its number in the list from %d", file, found[file], listed.n)
		}
	}
	for file, listed := range sleeps {
		if found[file] == 0 || listed.why == "" {
			t.Errorf("%s has no sleep, or no reason: remove it from the list", file)
		}
	}
}

// sleepsIn counts the sleeps of a file that need a reason.
func sleepsIn(file ast.Node) (n int) {
	var look func(ast.Node) bool
	look = func(node ast.Node) bool {
		switch x := node.(type) {
		case *ast.ForStmt:
			if x.Post != nil && isCall(x.Post, "time", "Sleep") {
				ast.Inspect(x.Body, look)
				return false
			}
		case *ast.CallExpr:
			if isCallExpr(x, "synctest", "Test") {
				return false
			}
			if isCallExpr(x, "time", "Sleep") {
				n++
			}
		}
		return true
	}
	ast.Inspect(file, look)
	return n
}

func isCall(s ast.Stmt, pkg, name string) bool {
	e, ok := s.(*ast.ExprStmt)
	if !ok {
		return false
	}
	c, ok := e.X.(*ast.CallExpr)
	return ok && isCallExpr(c, pkg, name)
}

func isCallExpr(c *ast.CallExpr, pkg, name string) bool {
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg
}
