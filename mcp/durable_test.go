package mcp_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/mcp"
	"github.com/pawl-work/pawl/pawltest"
)

// rpc is a client of 2026-07-28 that knows durable tasks, which the SDK's does not.
type rpc struct {
	*testing.T
	url   string
	plain bool   // it does not declare the extension
	token string // of its API key; "" = none
}

type reply struct {
	Result struct {
		ResultType, TaskID, Status, StatusMessage string
		TTLMs                                     int64
		InputRequests                             map[string]struct {
			Method string
			Params struct{ Message string }
		}
		Result *struct {
			Content []struct{ Text string }
			IsError bool
		}
		Failure struct {
			Code    int
			Message string
		} `json:"error"`
		Content, Contents []struct{ Text string }
		IsError           bool
		StructuredContent struct {
			Problem struct{ Code pawl.Code }
			Task    args
			Items   []args
			Next    any
		}
		Tools []struct{ Name string }
		Meta  args `json:"_meta"`
	}
	Error struct {
		Code    int
		Message string
		Data    struct{ Code pawl.Code }
	}
}

func (c rpc) send(method, name string, params args) reply {
	c.Helper()
	return c.keyed(method, name, params, "")
}

// keyed is send under an idempotency key; "" = none.
func (c rpc) keyed(method, name string, params args, key string) (out reply) {
	c.Helper()
	caps := args{"extensions": args{mcp.TasksExtension: args{}}}
	if c.plain {
		caps = args{}
	}
	meta := args{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": caps,
		"io.modelcontextprotocol/clientInfo": args{"name": "t", "version": "1"}}
	if key != "" {
		meta[mcp.KeyMeta] = key
	}
	params["_meta"] = meta
	body, err := json.Marshal(args{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		c.Fatal(err)
	}
	_, raw := post(c.T, c.url, string(body), "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name, "Authorization",
		c.bearer())
	if err := json.Unmarshal([]byte(raw[max(0, strings.IndexByte(raw, '{')):]), &out); err != nil {
		c.Fatalf("%s: %s", method, raw)
	}
	return out
}

func (c rpc) bearer() string {
	if c.token == "" {
		return ""
	}
	return "Bearer " + c.token
}

func (c rpc) run(arguments args) reply {
	return c.send("tools/call", "work_run", args{"name": "work_run", "arguments": arguments})
}
func (c rpc) get(task string) reply { return c.send("tasks/get", task, args{"taskId": task}) }
func (c rpc) update(task, key string, response args) reply {
	return c.send("tasks/update", task, args{"taskId": task, "inputResponses": args{key: response}})
}

// A call is answered with a Pawl task; what waits for approval asks for input,
// and the answer decides.
func TestAPendingApprovalIsAnswered(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		c := rpc{T: t, url: serve(t, p.Service)}
		def := pawl.Type{Name: "letter", Approval: pawl.Approval{Mode: pawl.ApprovalManual, NotByRequester: new(bool), NotByWorker: new(bool)}}
		if rs, err := p.Service.PutTypes(t.Context(), []pawl.Type{def}); err != nil || rs[0].Err != nil {
			t.Fatal(err, rs)
		}
		r := c.run(args{"type": "letter", "payload": args{"to": "ann"}})
		id := r.Result.TaskID
		if r.Result.ResultType != "task" || r.Result.Status != "working" || r.Result.TTLMs <= 0 {
			t.Fatalf("%+v", r)
		}
		submit := func(text string) {
			t.Helper()
			ls, err := p.Service.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", TaskID: id})
			if err != nil || len(ls) != 1 {
				t.Fatal(ls, err)
			}
			rs, err := p.Service.Submit(t.Context(), []pawl.SubmitCall{{Fence: ls[0].Fence(), Result: json.RawMessage(text)}})
			if err != nil || rs[0].Err != nil {
				t.Fatal(err, rs[0].Err)
			}
		}
		submit(`"Dear Ann"`)
		if r := c.get(id).Result; r.Status != "input_required" || r.ResultType != "complete" ||
			r.InputRequests["approval"].Method != "elicitation/create" {
			t.Fatalf("%+v", r)
		}
		if r := c.update(id, "approval", args{"action": "accept", "content": args{"decision": "perhaps"}}); r.Error.Code != -32602 {
			t.Errorf("%+v", r)
		}
		c.update(id, "other", args{"action": "accept"})
		c.update(id, "approval", args{"action": "cancel"})
		if r := c.get(id).Result; r.Status != "input_required" {
			t.Errorf("undecided, it is %s", r.Status)
		}
		c.update(id, "approval", args{"action": "accept", "content": args{"decision": "rework", "comment": "warmer"}})
		if r := c.get(id).Result; r.Status != "working" {
			t.Errorf("sent back, it is %s", r.Status)
		}
		submit(`"Dearest Ann"`)
		if r := c.update(id, "approval", args{"action": "accept", "content": args{"decision": "approve"}}); r.Result.ResultType != "complete" ||
			r.Error.Code != 0 {
			t.Errorf("%+v", r)
		}
		if r := c.get(id).Result; r.Status != "completed" || r.Result == nil || r.Result.IsError || r.Result.Content[0].Text != "Dearest Ann" {
			t.Errorf("%+v", r)
		}
		if r := c.send("tasks/cancel", id, args{"taskId": id}); r.Result.ResultType != "complete" {
			t.Errorf("cancelled too late: %+v", r)
		}
		c.refusals(id)
	})
}

func (c rpc) refusals(id string) {
	c.Helper()
	for what, r := range map[string]struct {
		got  reply
		code int
	}{
		"an unknown task":       {c.get("tsk_none"), -32602},
		"another task's header": {c.send("tasks/get", "tsk_none", args{"taskId": id}), -32020},
		"a method of old":       {c.send("tasks/result", id, args{"taskId": id}), -32601},
		"without the extension": {rpc{T: c.T, url: c.url, plain: true}.get(id), -32021},
	} {
		if r.got.Error.Code != r.code {
			c.Errorf("%s: %+v, want %d", what, r.got, r.code)
		}
	}
	if r := c.run(args{"type": 7}); len(r.Result.Content) != 1 || !strings.Contains(r.Result.Content[0].Text, "/type") {
		c.Errorf("bad arguments: %+v", r)
	}
}
