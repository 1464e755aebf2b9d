package tasktypes

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/schema"
)

func of(t pawl.Type) *Rules {
	return &Rules{Type: &t, schemas: new(schema.Cache)}
}

// faults returns the pointers of an error's fields, or the code of another error.
func faults(err error) string {
	if err == nil {
		return ""
	}
	var out []string
	for _, f := range pawl.FieldsOf(err) {
		out = append(out, f.Pointer)
	}
	if len(out) == 0 {
		return string(pawl.CodeOf(err))
	}
	return strings.Join(out, " ")
}

func TestSplit(t *testing.T) {
	r := of(pawl.Type{
		Name: "resize",
		Plan: pawl.Plan{Mode: pawl.PlanSplit, Pointer: "/images", Size: 2, Number: "n", Keep: []string{"width", "absent"}},
	})
	for payload, want := range map[string]string{
		`{"images":[1,2.50,"a"],"width":9}`: `[{"n":1,"images":[1,2.50],"width":9} {"n":2,"images":["a"],"width":9}]`,
		`{"images":[]}`:                     "/payload/images",
		`{"images":{}}`:                     "/payload/images",
		`{}`:                                "/payload/images",
	} {
		items, err := r.split(json.RawMessage(payload))
		var inputs []string
		for _, it := range items {
			inputs = append(inputs, string(it.Input))
		}
		if got := fmt.Sprint(inputs); err == nil && got != want || err != nil && faults(err) != want {
			t.Errorf("%s: got %s, %v; want %s", payload, got, err, want)
		}
	}
	r.Limits.MaxItems = 1
	if _, err := r.split(json.RawMessage(`{"images":[1,2,3]}`)); faults(err) != "/payload/images" {
		t.Errorf("more items than the type allows: %v", err)
	}
}

func TestPlanAndItems(t *testing.T) {
	now := time.Now()
	r := of(pawl.Type{
		Name:        "t",
		InputSchema: json.RawMessage(`{"type":"integer"}`),
		Approval:    pawl.Approval{Mode: pawl.ApprovalManual},
		Limits:      pawl.TypeLimits{MaxItems: 2, MaxPayloadBytes: 4},
	})
	one, text, long := pawl.NewItem{
		Input: json.RawMessage("1"),
	}, pawl.NewItem{
		Input: json.RawMessage(`"a"`),
	}, pawl.NewItem{
		Input: json.RawMessage("12345"),
	}
	waits := pawl.NewItem{Input: json.RawMessage("1"), After: []string{"a"}}
	for _, c := range []struct {
		items []pawl.NewItem
		want  string
	}{
		{nil, "/at"},
		{[]pawl.NewItem{one, one}, ""},
		{[]pawl.NewItem{one, one, one}, "/at"},
		{[]pawl.NewItem{one, text}, "/at/1/input"},
		{[]pawl.NewItem{long}, "/at/0/input"},
		{[]pawl.NewItem{waits}, "/at/0/after"},
	} {
		if err := r.checkPlan("/at", c.items, now); faults(err) != c.want {
			t.Errorf("%v: got %v, want %q", c.items, err, c.want)
		}
	}
	if err := r.CheckItems(nil, json.RawMessage(`"a"`)); faults(err) != "/payload" {
		t.Errorf("a payload that is the input: %v", err)
	}
	planned := of(pawl.Type{Plan: pawl.Plan{Mode: pawl.PlanGo}})
	task := pawl.NewTask{Items: []pawl.NewItem{one}}
	if _, err := planned.checkPayload(&task, false); faults(err) != "/items" {
		t.Errorf("items of a planned task: %v", err)
	}
	if payload, err := planned.checkPayload(&task, true); err != nil || string(payload) != "1" {
		t.Errorf("items of a clone: %s, %v", payload, err)
	}
}

func TestReadPlan(t *testing.T) {
	for text, n := range map[string]int{`{"items":[{"input":1},{}]}`: 2, ` [{"input":1}]`: 1, `{"items":[{"inputs":1}]}`: -1, `3`: -1} {
		items, err := of(pawl.Type{}).ReadPlan(json.RawMessage(text), time.Now())
		if n < 0 && faults(err) != "/result" || n >= 0 && (err != nil || len(items) != n) {
			t.Errorf("%s: %v, %v", text, items, err)
		}
	}
}

func TestParts(t *testing.T) {
	r := of(pawl.Type{Name: "report", EvidenceRequired: true, Limits: pawl.TypeLimits{MaxPartBytes: 20}, Parts: []pawl.PartRule{
		{Key: "rows", Repeatable: true, Required: true},
		{Key: "summary", Schema: json.RawMessage(`{"type":"string"}`)},
	}})
	seq := func(n int) *int { return &n }
	call := func(key string, n *int, payload, evidence string) *pawl.PartCall {
		return &pawl.PartCall{Key: key, Seq: n, Payload: json.RawMessage(payload), Evidence: json.RawMessage(evidence)}
	}
	for _, c := range []struct {
		call *pawl.PartCall
		want string
	}{
		{call("rows", seq(0), "[1]", "1"), ""},
		{call("rows", nil, "[1]", "1"), "/seq"},
		{call("summary", seq(0), `"a"`, "1"), "/seq"},
		{call("other", nil, "1", "1"), "/key"},
		{call("summary", nil, `"a"`, "null"), "/evidence"},
		{call("summary", nil, `"aaaaaaaaaaaaaaaaaaaaa"`, "1"), "/payload"},
	} {
		if err := r.CheckPart(c.call); faults(err) != c.want {
			t.Errorf("%v: got %v, want %q", c.call, err, c.want)
		}
	}
	if f := r.CheckPartPayload(call("summary", nil, "1", "")); faults(f.Err("part")) != "/payload" {
		t.Errorf("a payload that does not fit: %v", f)
	}

	rows := func(n int, payload, status string) pawl.ItemPart {
		return pawl.ItemPart{Key: "rows", Seq: seq(n), Payload: json.RawMessage(payload), Status: status}
	}
	parts := []pawl.ItemPart{rows(1, "[3]", pawl.PartValidated), rows(0, "[1,2]", pawl.PartValidated), rows(2, "[4]", pawl.PartDraft)}
	if _, err := r.assemblable(parts, false); faults(err) != "/parts/rows" {
		t.Errorf("with a draft: %v", err)
	}
	if _, err := r.assemblable(nil, true); faults(err) != "/parts" {
		t.Errorf("nothing to assemble: %v", err)
	}
	if _, err := r.assemblable([]pawl.ItemPart{{Key: "summary", Status: pawl.PartValidated}}, false); faults(err) != "/parts/rows" {
		t.Errorf("without a required part: %v", err)
	}
	good, err := r.assemblable(parts, true)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(r.merge(good)); got != `{"rows":[[1,2],[3]]}` {
		t.Errorf("merged: %s", got)
	}
	r.Assembly.Mode = pawl.AssembleConcat
	if got := string(r.merge(good)); got != `{"rows":[1,2,3]}` {
		t.Errorf("concatenated: %s", got)
	}
}

func TestApproval(t *testing.T) {
	r := of(pawl.Type{Name: "t", Approval: pawl.Approval{Mode: pawl.ApprovalAuto, When: json.RawMessage(`{"type":"integer"}`),
		By: []string{"user/ann", "agent/*"}, OnExpiry: pawl.ExpiryEscalate, EscalateTo: []string{"user/bob"}}})
	for _, c := range []struct {
		who       rules.Actor
		escalated bool
		want      string
	}{
		{rules.Actor{Type: "user", ID: "ann"}, false, ""},
		{rules.Actor{Type: "agent", ID: "any"}, false, ""},
		{rules.Actor{Type: "user", ID: "bob"}, false, "forbidden"},
		{rules.Actor{Type: "user", ID: "bob"}, true, ""},
	} {
		if err := r.CheckDecider("approve", c.who, c.escalated); faults(err) != c.want {
			t.Errorf("%v: got %v, want %q", c.who, err, c.want)
		}
	}
	if !r.EscalationWidens() {
		t.Error("the escalation of a type with approvers does not widen")
	}
	item := func(result string) pawl.Item { return pawl.Item{Result: json.RawMessage(result)} }
	if !r.consents([]pawl.Item{item("1"), item("2")}) || r.consents([]pawl.Item{item("1"), item(`"a"`)}) {
		t.Error("the rule of approval is not the schema")
	}
	r.Approval.Mode = pawl.ApprovalManual
	if r.consents(nil) {
		t.Error("a manual approval is given by the rule")
	}
	if !of(pawl.Type{}).consents(nil) {
		t.Error("a type without approval does not consent")
	}
}

func TestCheckType(t *testing.T) {
	var schemas schema.Cache
	for _, c := range []struct {
		t    pawl.Type
		want string
	}{
		{pawl.Type{Name: "ok"}, ""},
		{pawl.Type{Name: "a,b"}, "/name"},
		{pawl.Type{Name: "a" + pawl.PlanSuffix}, "/name"},
		{pawl.Type{Name: "a", Plan: pawl.Plan{Mode: pawl.PlanSplit, Size: 1}}, "/plan/into"},
		{pawl.Type{Name: "a", Plan: pawl.Plan{Size: 1}}, "/plan/mode"},
		{pawl.Type{Name: "a", Parts: []pawl.PartRule{{Key: "x"}, {Key: "x"}}}, "/parts/1/key"},
		{pawl.Type{Name: "a", Approval: pawl.Approval{By: []string{"ann"}, OnExpiry: pawl.ExpiryEscalate}},
			"/approval/by/0 /approval/escalate_to /approval/expires_seconds"},
		{pawl.Type{Name: "a", ResultSchema: json.RawMessage(`{"type":3}`)}, "/result_schema/type /result_schema/type"},
		{pawl.Type{Name: "a", Retention: pawl.Retention{TaskSeconds: 1}}, "/retention/task_seconds"},
	} {
		if err := check(&c.t, &schemas); faults(err) != c.want {
			t.Errorf("%+v: got %v, want %q", c.t, err, c.want)
		}
	}
}
