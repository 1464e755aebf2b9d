package server_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// price is what a call of a kind may take, whatever it sends.
type price struct {
	before int  // bytes of its body that are read before the caller is known
	reads  bool // it uses a share of the reads of its key; other calls use one of bodies alone
	hold   int  // bytes that may be allocated for each byte of the request, besides heldAnyway
	answer int  // bytes of the answer
	rows   int  // in the answer, and written for each call of the request
	millis int  // of processor time
}

const (
	heldAnyway  = 116 << 20 // for one answer with values of 8 MiB: what the database, JSON, digests and the test make of it
	wholeAnswer = 10 << 20  // 8 MiB of values, with what is around them
)

// prices has the kinds of calls. The bounds are above what is measured, and below what a call would
// take that answers with many times its size, or reads all that there is.
var prices = map[string]price{
	"open":    {answer: 2 << 20, hold: 100, rows: 1, millis: 4000},                             // no data of the database
	"webhook": {before: pawl.MaxBodyBytes, answer: 4 << 10, hold: 100, rows: 10, millis: 4000}, // its signature is over the body
	"read":    {reads: true, answer: wholeAnswer, hold: 100, rows: pawl.MaxPage, millis: 4000}, // GET
	"gather":  {reads: true, answer: wholeAnswer, hold: 100, rows: pawl.MaxPage, millis: 4000}, // POST that reads
	"stream":  {answer: wholeAnswer, hold: 100, rows: 40, millis: 4000},                        // as long as its reader wants
	"upload":  {answer: 4 << 10, hold: 100, rows: 10, millis: 4000},                            // in pieces
	"write":   {answer: 2 << 20, hold: 200, rows: 60, millis: 4000},                            // one call
	"batch":   {answer: wholeAnswer, hold: 400, rows: 60, millis: 8000},                        // of single forms
	"work":    {answer: 64 << 10, hold: 200, rows: 10_000, millis: 8000},                       // what is due, or the check, of all callers
	"page":    {reads: true, answer: 4 << 20, hold: 100, rows: 1, millis: 4000},                // of the dashboard
	"form":    {before: 64<<10 + 1, answer: 2 << 20, hold: 100, rows: 60, millis: 4000},        // of the dashboard
	"part":    {answer: 2 << 20, hold: 100, rows: 10, millis: 4000},                            // of a page, without a read of its own
	"tool":    {answer: 2 << 20, hold: 400, rows: 60, millis: 4000},                            // of MCP
	"look":    {reads: true, answer: 2 << 20, hold: 400, rows: pawl.MaxPage, millis: 4000},     // a tool that reads
	"wait":    {answer: 2 << 20, hold: 400, rows: pawl.MaxPage, millis: 4000},                  // a tool that reads each time it looks
}

// kinds names all routes, tools and pages by their kind. A new one needs a decision: what may it
// cost?
var kinds = map[string]string{
	"open":    "health ready reference description",
	"webhook": "receive_webhook",
	"read": "list_tasks get_task task_result task_items task_events task_provenance task_checkpoints count_checkpoints list_messages " +
		"get_message item_messages list_items get_item why_item resume_item item_parts item_events item_provenance list_events " +
		"list_checkpoints list_failures list_workers list_namespaces " +
		"stats series suggest_leases log_checkpoint log_task log_consistency list_sweeps " +
		"prunable list_archives list_relays list_queues get_queue list_budgets get_budget budget_spending list_schedules get_schedule " +
		"list_effects get_effect effect_receipt " +
		"schedule_firings list_types get_type check_token list_keys get_key plain_task plain_task_events metrics",
	"gather": "get_keys",
	"stream": "follow_message chat resume_chat get_blob read_stream",
	"upload": "put_blob create_stream append_stream",
	"write": "create_task update_task clone_task fork_task delete_task add_items cancel_task retry_task bury_task checkpoint_task " +
		"append_task prune_task send_signal claim heartbeat progress checkpoint complete fail release suspend revoke_lease spawn_child " +
		"submit submit_part finalize approve_task reject_task start_message open_message append step_message finish_message " +
		"stop_message register_worker restore_archive resume_relay forget_relay put_queue pause_queue resume_queue pause_namespace " +
		"delete_archive open_effect report_effect_done report_effect_failed report_effect_unknown keep_effect " +
		"approve_effect reject_effect resolve_effect " +
		"resume_namespace put_budget delete_budget reserve_budget settle_budget bulk create_schedule put_schedule pause_schedule " +
		"resume_schedule run_schedule delete_schedule put_type remove_type begin_key renew_key complete_key fail_key plain_create_task " +
		"plain_task_cancel plain_task_retry delete_stream",
	"batch": "create_tasks update_tasks clone_tasks fork_tasks delete_tasks add_items_batch cancel_tasks retry_tasks bury_tasks " +
		"checkpoint_tasks append_tasks prune_tasks send_signals heartbeat_items progress_items checkpoint_items complete_items " +
		"fail_items release_items revoke_leases suspend_items spawn_children submit_items submit_parts finalize_items approve_tasks " +
		"reject_tasks start_messages open_messages append_messages step_messages finish_messages stop_messages put_types " +
		"remove_types begin_keys renew_keys complete_keys fail_keys",
	"work": "sweep tick doctor", // doctor: one at a time
	"page": "/ui/{$} /ui/tasks /ui/tasks/{id} /ui/tasks/bulk /ui/items /ui/approvals /ui/failures /ui/dead-letters /ui/items/selected " +
		"/ui/items/{id} /ui/messages/{id} /ui/workers /ui/types /ui/queues /ui/queues/{id} /ui/schedules /ui/schedules/{id} " +
		"/ui/budgets /ui/budgets/{id} /ui/legend /ui/tasks/{id}/{verb} /ui/items/{id}/{verb} /ui/messages/{id}/stop /ui/ /ui/sweeps " +
		"/ui/relays /ui/keys /ui/effects /ui/effects/{id} /ui/messages /ui/search",
	"part": "/ui/messages/{id}/stream /ui/blobs/{id} /ui/login /ui/live /ui/static/ /ui/oidc/login",
	"form": "POST:/ui/view POST:/ui/namespace POST:/ui/logout POST:/ui/login POST:/ui/tasks/bulk POST:/ui/items/selected " +
		"POST:/ui/tasks/{id}/{verb} POST:/ui/items/{id}/{verb} POST:/ui/messages/{id}/stop /ui/queues/ /ui/schedules/ /ui/relays/ " +
		"/ui/keys/ /ui/effects/ /ui/budgets/ /ui/signals/ /ui/namespace/ POST:/ui/namespace/{verb}",
	"tool": "work_propose work_fork work_cancel work_checkout work_heartbeat work_progress work_checkpoint work_complete work_fail " +
		"work_release work_spawn work_submit work_submit_part work_finalize work_approve work_reject " +
		"work_effect_open work_effect_report work_effect_resolve",
	"look": "work_list work_get work_read work_why work_resume work_list_parts work_logs work_types work_effects work_namespaces",
	"wait": "work_wait",
}

// kindOf returns the kind of a route, a tool or a page.
func kindOf(t *testing.T, name string) string {
	t.Helper()
	found := ""
	for kind, names := range kinds {
		if slices.Contains(strings.Fields(names), name) {
			if found != "" {
				t.Errorf("%s is in two kinds", name)
			}
			found = kind
		}
	}
	if found == "" {
		t.Errorf("%s has no kind: say what it may cost", name)
	}
	return found
}

var dashboardPath = regexp.MustCompile(`"(?:(POST|GET) )?(/ui/[^" ]*)"`)

// pagesOfDashboard reads the paths of the dashboard from its program, those of forms with POST:.
func pagesOfDashboard(t *testing.T) (out []string) {
	t.Helper()
	raw, err := os.ReadFile("../dashboard/dashboard.go")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(raw), "func (d *server) routes(")
	text, _, found := strings.Cut(text, "// setHeaders")
	if !found {
		t.Fatal("the routes of the dashboard are elsewhere")
	}
	for _, m := range dashboardPath.FindAllStringSubmatch(text, -1) {
		name := m[2]
		if m[1] == "POST" {
			name = "POST:" + name
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// Every route, tool and page has one kind, and nothing else has one.
func TestEveryDoorHasAPrice(t *testing.T) {
	var all []string
	for _, r := range api.Routes {
		all = append(all, r.Name)
		for _, tool := range r.Tools {
			all = append(all, tool.Name)
			reads := tool.Hints&api.ToolReads != 0
			if c := prices[kindOf(t, tool.Name)]; c.reads != reads && kindOf(t, tool.Name) != "wait" {
				t.Errorf("%s reads: %v", tool.Name, reads)
			}
		}
	}
	all = append(all, pagesOfDashboard(t)...)
	for _, name := range all {
		kindOf(t, name)
	}
	for kind, names := range kinds {
		if prices[kind] == (price{}) {
			t.Errorf("the kind %s has no price", kind)
		}
		for _, name := range strings.Fields(names) {
			if !slices.Contains(all, name) {
				t.Errorf("%s is not there", name)
			}
		}
	}
	if len(all) < 200 {
		t.Errorf("only %d doors", len(all))
	}
}
