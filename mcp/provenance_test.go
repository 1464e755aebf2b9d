package mcp_test

import (
	"crypto/sha256"
	"fmt"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/mcp"
)

// Every call says which client makes it, and for whom, without being told to.
func TestCallsSayWhoMakesThem(t *testing.T) {
	each(t, pawl.Hooks{}, func(a agent) {
		rs, err := a.p.Service.PutTypes(a.Context(), []pawl.Type{{Name: "report", Approval: pawl.Approval{Mode: pawl.ApprovalManual,
			NotByRequester: new(bool), NotByWorker: new(bool)}}})
		if err != nil || rs[0].Err != nil {
			a.Fatal(err, rs)
		}
		task := a.ok("work_propose", args{"type": "report"}).Task.ID
		_, lease := a.checkout("ann", task)
		res, err := a.session.CallTool(a.Context(), &sdk.CallToolParams{Name: "work_submit",
			Arguments: with(lease, "result", args{"title": "Pawls", "pages": []int{1}}, "evidence", args{"seen": 2}),
			Meta:      sdk.Meta{mcp.ProvenanceMeta: args{"model": "m-1", "agent_id": "ann-7"}, mcp.KeyMeta: "k-1"}})
		if err != nil || res.IsError {
			a.Fatal(err, res)
		}
		a.ok("work_reject", args{"task_id": task, "version": 1, "errors": []args{{"code": "no", "message": "not at all"}}})

		list, err := a.p.Service.ListProvenance(a.Context(), pawl.ProvenanceFilter{TaskID: task})
		a.must(err)
		rows := list.Items
		if len(rows) != 4 {
			a.Fatalf("%d rows: %+v", len(rows), rows)
		}
		for i, want := range []struct{ verb, id, model, key string }{{"create", "tester", "", ""}, {"claim", "ann", "", ""},
			{"submit", "ann-7", "m-1", "k-1"}, {"reject", "tester", "", ""}} {
			r := rows[i] // a client of ours makes keys by itself
			if r.Verb != want.verb || r.AgentID != want.id || r.Model != want.model ||
				want.key != "" && r.IdempotencyKey != fmt.Sprintf("%x", sha256.Sum256([]byte(want.key))) || r.AgentName != "tester" ||
				r.AgentVersion != "1" || r.EventID == "" {
				a.Errorf("row %d is %+v", i, r)
			}
		}
		if got := string(rows[2].Data); got != `{"evidence":{"seen":2}}` {
			a.Errorf("the evidence is %s", got)
		}

		if _, refused := a.call("work_checkout", args{"worker_id": "ann"}); refused {
			a.Error("a checkout of nothing is refused")
		}
		res, err = a.session.CallTool(a.Context(), &sdk.CallToolParams{Name: "work_propose", Arguments: args{"type": "x"},
			Meta: sdk.Meta{mcp.ProvenanceMeta: "me"}})
		if err != nil || !res.IsError {
			a.Errorf("provenance that is none: %v, %v", err, res)
		}
	})
}
