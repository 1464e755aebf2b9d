package mcp_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/mcp"
	"github.com/pawl-work/pawl/pawltest"
)

// kindsOfWork are types that want their results in different ways.
var kindsOfWork = []pawl.Type{
	{Name: "report", Parts: []pawl.PartRule{{Key: "title", Required: true}, {Key: "pages"}}},
	{Name: "letter", Approval: pawl.Approval{Mode: pawl.ApprovalManual}, Description: "a letter to a customer"},
	{Name: "notes", Parts: []pawl.PartRule{{Key: "text"}}},
	{Name: "plain", MaxAttempts: 2},
}

// result is an answer as text, and its structured form as any JSON.
func (c rpc) result(tool string, in args) (text string, out map[string]any) {
	c.Helper()
	in2, _ := json.Marshal(in)
	status, body := post(c.T, c.url, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":`+string(in2)+`}}`)
	var r struct {
		Result struct {
			Content           []struct{ Text string }
			StructuredContent map[string]any
		}
	}
	if err := json.Unmarshal([]byte(body[strings.Index(body, "{"):]), &r); err != nil || status != 200 || len(r.Result.Content) == 0 {
		c.Fatalf("%s: %d %s %v", tool, status, body, err)
	}
	return r.Result.Content[0].Text, r.Result.StructuredContent
}

// An agent learns what it may ask for, and by which tool each kind of work is handed in. A tool
// that is the wrong one is refused with the right one.
func TestTheToolThatHandsIn(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	if _, err := p.Service.PutTypes(t.Context(), kindsOfWork); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(mcp.New(p.Service, mcp.Options{Log: quiet}).HTTP())
	defer srv.Close()
	c := rpc{T: t, url: srv.URL}
	want := map[string]string{"report": "work_submit_part for title, then work_finalize", "letter": "work_submit",
		"notes": "work_submit, or work_submit_part and then work_finalize", "plain": "work_complete"}
	_, listed := c.result("work_types", args{})
	rows := listed["items"].([]any)
	for _, row := range rows {
		typ := row.(map[string]any)
		if name := typ["name"].(string); typ["hand_in"] != want[name] || name == "letter" && typ["description"] != "a letter to a customer" ||
			name == "report" && len(typ["parts"].([]any)) != 2 {
			t.Errorf("%v", typ)
		}
	}
	if _, one := c.result("work_types", args{"names": []string{"plain"}}); len(rows) != 4 || len(one["items"].([]any)) != 1 {
		t.Errorf("%d types, by name %v", len(rows), one)
	}
	want["free"] = "work_complete" // not registered
	wrong := map[string]string{"report": "work_complete", "letter": "work_submit_part", "plain": "work_submit", "free": "work_finalize"}
	for name, tools := range want {
		if _, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: name}); err != nil {
			t.Fatal(err)
		}
		_, out := c.result("work_checkout", args{"worker_id": "w", "types": []string{name}})
		item := out["items"].([]any)[0].(map[string]any)
		if item["hand_in"] != tools || item["id"] == "" || item["attempt"] != 1.0 {
			t.Errorf("%s is checked out with %v", name, item)
		}
		if _, read := c.result("work_get", args{"task_id": item["task_id"]}); read["hand_in"] != tools {
			t.Errorf("%s is read with %v", name, read["hand_in"])
		}
		tool, used := wrong[name]
		if !used {
			continue
		}
		in := args{"item_id": item["id"], "worker_id": "w", "attempt": 1}
		switch tool {
		case "work_submit", "work_complete":
			in["result"] = 1
		case "work_submit_part":
			in["key"], in["payload"] = "k", 1
		}
		if said, _ := c.result(tool, in); !strings.Contains(strings.ToLower(said), "the result of this item is handed in with "+tools) {
			t.Errorf("%s for %s: %s", tool, name, said)
		}
	}
}

// A proposal of a type that is not registered is answered with those that may be meant.
func TestTheTypeThatWasMeant(t *testing.T) {
	for _, only := range []bool{false, true} {
		p := pawltest.OpenWith(t, pawltest.SQLite, engine.Options{RegisteredTypesOnly: only})
		if _, err := p.Service.PutTypes(t.Context(), kindsOfWork); err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewServer(mcp.New(p.Service, mcp.Options{Log: quiet}).HTTP())
		defer srv.Close()
		c := rpc{T: t, url: srv.URL}
		for name, near := range map[string]string{
			"reprot": "did you mean report?", "Letter": "did you mean letter?", "notes.daily": "did you mean notes?",
			"invoice": "", "plain": ""} {
			said, out := c.result("work_propose", args{"type": name})
			note, _ := out["note"].(string)
			if only && name != "plain" {
				note = said
			}
			if strings.Contains(note, "did you mean") != (near != "") || !strings.Contains(note, near) {
				t.Errorf("registered only %v, %s: %s", only, name, said)
			}
			if _, made := out["task"]; made == (only && name != "plain") {
				t.Errorf("registered only %v, %s: %v", only, name, out)
			}
		}
	}
}

// A connection whose URL asks for a set of tools is told what it lacks, and why.
func TestASetOfToolsSaysWhatItLeavesOut(t *testing.T) {
	g := guard(t, pawltest.Open(t, pawltest.SQLite), access.Options{})
	worker := g.holds("claimer", "reader")
	ask := func(query, method string) string {
		status, body := post(t, g.url+query, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"protocolVersion":"2025-11-25",`+
			`"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, "Authorization", "Bearer "+worker.token)
		if status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		return body
	}
	for _, method := range []string{"initialize", "tools/list"} {
		if body := ask("?tools=approver", method); !strings.Contains(body, "asks for the set of tools approver") ||
			!strings.Contains(body, "not in it: work_propose, ") || !strings.Contains(body, "work_approve (") {
			t.Errorf("%s: %s", method, body)
		}
		if body := ask("", method); strings.Contains(body, "asks for the set of tools") {
			t.Errorf("%s without a set: %s", method, body)
		}
	}
}

// A refusal names arguments as the tool that was called names them, and what is to be called next.
func TestWhatARefusalNames(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	if _, err := p.Service.PutTypes(t.Context(), kindsOfWork); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(mcp.New(p.Service, mcp.Options{Log: quiet}).HTTP())
	defer srv.Close()
	c := rpc{T: t, url: srv.URL}
	if text, _ := c.result("work_why", args{"item_id": "itm_1"}); !strings.Contains(text, "/id is required") ||
		!strings.Contains(text, "/item_id is not allowed here\n") {
		t.Error(text)
	}
	p.Create(pawl.NewTask{Type: "report"})
	l := p.Claim("report")
	lease := args{"item_id": l.ID, "worker_id": l.WorkerID, "attempt": l.Attempt}
	text, _ := c.result("work_finalize", lease)
	if !strings.HasPrefix(text, "Hand in these parts with work_submit_part, then call work_finalize again.\n- /parts/title is missing") {
		t.Error(text)
	}
	tools := map[string]string{"work_chekout": `; did you mean work_checkout?"`, "work_aprove": `work_aprove\""`, "other": `other\""`}
	for name, want := range tools {
		_, body := post(t, c.url, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`","arguments":{}}}`)
		if !strings.Contains(body, want) {
			t.Errorf("%s: %s, want %s", name, body, want)
		}
	}
}
