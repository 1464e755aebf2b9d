package mcp_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/mcp"
	"github.com/pawl-work/pawl/pawltest"
)

// answersOf returns the answers to a batch: results as "ok", errors by their codes, in order of ids.
func answersOf(t *testing.T, body string) map[string]string {
	t.Helper()
	type answer struct {
		ID     json.RawMessage `json:"id"`
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Code int `json:"code"`
		} `json:"error"`
	}
	var all []answer
	if strings.HasPrefix(body, "[") {
		if err := json.Unmarshal([]byte(body), &all); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
	}
	for line := range strings.SplitSeq(body, "\n") {
		text, event := strings.CutPrefix(line, "data: ")
		var a answer
		if event && json.Unmarshal([]byte(text), &a) == nil {
			all = append(all, a)
		}
	}
	out := map[string]string{}
	for _, a := range all {
		id, says := string(a.ID), "ok"
		if a.Error != nil {
			says = fmt.Sprint(a.Error.Code)
		}
		if out[id] += says; a.Error == nil && len(a.Result) == 0 {
			t.Errorf("no answer: %s", body)
		}
	}
	return out
}

// Each message of a batch over HTTP is answered on its own, also one that cannot be read.
func TestABadMessageRefusesNoBatch(t *testing.T) {
	g := guard(t, pawltest.Open(t, pawltest.SQLite), access.Options{})
	c := g.holds("submitter")
	own := listen(t, mcp.New(pawltest.Open(t, pawltest.SQLite).Service, mcp.Options{Log: quiet}).HTTP())
	good := strings.Replace(proposing(`{"type":"a"}`), `"id":1,`, `"id":"g",`, 1)
	halved := strings.Replace(proposing(`{"type":"a","title":"\ud800"}`), `"id":1,`, `"id":7,`, 1)
	for bad, want := range map[string]string{
		`5`:    "null -32600",
		`null`: "null -32600",
		`[]`:   "null -32600",
		`{"jsonrpc":"2.0","id":{},"method":"tools/list"}`:             "null -32600",
		`{"jsonrpc":"1.0","id":7,"method":"tools/list"}`:              "7 -32600",
		`{"jsonrpc":"2.0","id":7,"method":5}`:                         "7 -32600",
		`{"jsonrpc":"2.0","id":7,"method":"no/such"}`:                 "7 -32601",
		`{"jsonrpc":"2.0","method":"no/such"}`:                        "",
		`{"jsonrpc":"2.0","id":7,"method":"tools/call"}`:              "7 -32600",
		`{"jsonrpc":"2.0","id":7,"method":"notifications/cancelled"}`: "7 -32600",
		`{"jsonrpc":"2.0","method":"tools/list"}`:                     "null -32600",
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":5}`:   "7 -32600",
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","method":"x"}`: "7 -32600",
		`{"jsonrpc":"2.0","id":7,"method":"ping"}`:                    "7 ok",
		`{"jsonrpc":"2.0","id":"g","method":"ping"}`:                  "twice",
		halved: "7 -32600",
	} {
		for _, url := range []string{g.url, own} {
			head := []string{"Mcp-Protocol-Version", "2025-03-26", "Authorization", c.bearer()}
			status, body := post(t, url, " ["+good+", "+bad+"]\n", head...)
			wants := map[string]string{`"g"`: "ok"}
			if id, says, found := strings.Cut(want, " "); found {
				wants[id] = says
			} else if want == "twice" {
				wants[`"g"`] = "-32600ok"
			}
			if got := answersOf(t, body); status != 200 || fmt.Sprint(got) != fmt.Sprint(wants) {
				t.Errorf("%s: %d %v, want %v", bad, status, got, wants)
			}
			status, body = post(t, url, "["+bad+"]", head...)
			if delete(wants, `"g"`); want == "" {
				if status != 202 {
					t.Errorf("%s alone: %d %s", bad, status, body)
				}
			} else if got := answersOf(t, body); want != "twice" && (status != 200 || fmt.Sprint(got) != fmt.Sprint(wants)) {
				t.Errorf("%s alone: %d %v, want %v", bad, status, got, wants)
			}
		}
	}
	tasks, err := g.p.Service.ListTasks(t.Context(), pawl.TaskFilter{})
	if err != nil || len(tasks.Items) != 16 {
		t.Errorf("%d tasks were made, %v", len(tasks.Items), err)
	}
	for _, bad := range []string{"[" + good + ",{]", "[" + good, "[]", "[" + good + "]]"} {
		if status, body := post(t, g.url, bad, "Mcp-Protocol-Version", "2025-03-26", "Authorization", c.bearer()); status != 400 {
			t.Errorf("%s: %d %s", bad, status, body)
		}
	}
	if status, _ := post(t, g.url, "["+good+",5]", "Mcp-Protocol-Version", "2025-06-18", "Authorization", c.bearer()); status != 400 {
		t.Errorf("a revision without batches: %d", status)
	}
}
