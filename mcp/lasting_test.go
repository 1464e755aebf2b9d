package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/mcp"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/worker"
)

// hands work on a service's items until the test ends.
func hands(t *testing.T, svc pawl.Service, handlers ...worker.Handler) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- worker.RunWith(ctx, svc, worker.Options{Concurrency: 4, Logger: quiet}, handlers...) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the worker ended: %v", err)
		}
	})
}

// until asks after a task until it has a status.
func (c rpc) until(id, status string) reply {
	c.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		r := c.get(id)
		if r.Result.Status == status {
			return r
		}
		if r.Error.Code != 0 || time.Now().After(end) {
			c.Fatalf("it is %+v, and not %s", r, status)
		}
	}
}

// What a run comes to: a result, a worker's no, a worker that broke, a person's no.
func TestHowRunsEnd(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		c := rpc{T: t, url: serve(t, p.Service)}
		hands(t, p.Service,
			worker.Handle("sum", func(_ context.Context, in []int) (map[string]int, error) {
				return map[string]int{"sum": in[0] + in[1]}, nil
			}),
			worker.Handle("no", func(context.Context, any) (any, error) {
				return nil, pawl.Permanent(errors.New("there is no paper"))
			}),
			worker.Handle("broken", func(context.Context, any) (any, error) { panic("on fire") }),
		)
		run := func(typ string) string {
			t.Helper()
			r := c.run(args{"type": typ, "payload": []int{3, 4}, "max_attempts": 1})
			if r.Result.ResultType != "task" || r.Result.Status != "working" {
				t.Fatalf("%s: %+v", typ, r)
			}
			return r.Result.TaskID
		}
		if r := c.until(run("sum"), "completed").Result.Result; r.IsError || r.Content[0].Text != `{"sum":7}` {
			t.Errorf("%+v", r)
		}
		if r := c.until(run("no"), "completed").Result.Result; !r.IsError || r.Content[0].Text != "there is no paper" {
			t.Errorf("%+v", r)
		}
		if r := c.until(run("broken"), "failed").Result; r.Result != nil || r.Failure.Code != -32603 || r.Failure.Message == "" {
			t.Errorf("%+v", r)
		}
	})
}

// A cancelled run is cancelled, and its worker is told.
func TestACancelledRun(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		c := rpc{T: t, url: serve(t, p.Service)}
		id := c.run(args{"type": "long"}).Result.TaskID
		ls, err := p.Service.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", TaskID: id})
		if err != nil || len(ls) != 1 {
			t.Fatal(ls, err)
		}
		stage := "half way"
		if rs, err := p.Service.Progress(t.Context(), []pawl.ProgressCall{{Fence: ls[0].Fence(), Stage: &stage}}); err != nil ||
			rs[0].Err != nil {
			t.Fatal(err, rs)
		}
		if r := c.get(id).Result; r.Status != "working" || r.StatusMessage != "half way" {
			t.Errorf("%+v", r)
		}
		for range 2 { // twice is as good as once
			if r := c.send("tasks/cancel", id, args{"taskId": id}); r.Error.Code != 0 || r.Result.ResultType != "complete" || r.Result.TaskID != "" {
				t.Errorf("%+v", r)
			}
		}
		if r := c.get(id).Result; r.Status != "cancelled" || r.Result != nil {
			t.Errorf("%+v", r)
		}
		if b, err := p.Service.Heartbeat(t.Context(), []pawl.HeartbeatCall{{Fence: ls[0].Fence()}}); err != nil || b[0].Err != nil ||
			!b[0].Value.Cancelled {
			t.Errorf("its worker is told %+v, %v", b, err)
		}
		if r := c.update(id, "approval", args{"action": "accept", "content": args{"decision": "approve"}}); r.Error.Code != 0 {
			t.Errorf("an answer that nobody asked for: %+v", r)
		}
	})
}

// A handler's questions are asked of the client, all of them, and its answers go
// to the handler.
func TestAHandlerAsks(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		c := rpc{T: t, url: serve(t, p.Service)}
		hands(t, p.Service, worker.Handle("trip", func(ctx context.Context, _ any) (string, error) {
			said, err := mcp.Ask(ctx, map[string]*sdk.ElicitParams{
				"where": {Mode: "form", Message: "Where to?", RequestedSchema: json.RawMessage(
					`{"type":"object","properties":{"town":{"type":"string"}}}`)},
				"when": {Mode: "form", Message: "When?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"day":{"type":"string"}}}`)},
			})
			if err != nil {
				return "", err
			}
			return said["where"].Content["town"].(string) + " on " + said["when"].Content["day"].(string), nil
		}))
		id := c.run(args{"type": "trip"}).Result.TaskID
		r := c.until(id, "input_required").Result
		if len(r.InputRequests) != 2 || r.InputRequests["where"].Method != "elicitation/create" ||
			r.InputRequests["where"].Params.Message != "Where to?" {
			t.Fatalf("%+v", r)
		}
		if l, err := p.Service.ListCheckpoints(t.Context(), pawl.CheckpointFilter{TaskID: id,
			Types: []string{pawl.ApprovalPoint}}); err != nil || len(l.Items) != 1 {
			t.Errorf("asked in %d checkpoints, %v", len(l.Items), err)
		}
		c.update(id, "where", args{"action": "accept", "content": args{"town": "Brno"}})
		if r := c.until(id, "input_required").Result; len(r.InputRequests) != 1 || r.InputRequests["when"].Params.Message != "When?" {
			t.Errorf("one is answered: %+v", r)
		}
		c.update(id, "when", args{"action": "accept", "content": args{"day": "Monday"}})
		if r := c.until(id, "completed").Result; r.Result.Content[0].Text != "Brno on Monday" {
			t.Errorf("%+v", r)
		}
	})
}

// The task is there before the call is answered: another server knows it, the one
// that made it may be gone, and a call made again under its key has made no other.
func TestARunOutlivesItsServer(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		first := p.Another(engine.Options{})
		call := args{"name": "work_run", "arguments": args{"type": "a"}}
		keyed := func(c rpc) reply { return c.keyed("tools/call", "work_run", call, "k of "+t.Name()) }
		id := keyed(rpc{T: t, url: serve(t, first)}).Result.TaskID
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		c := rpc{T: t, url: serve(t, p.Service)}
		if r := c.get(id).Result; r.Status != "working" || r.TaskID != id {
			t.Errorf("%+v", r)
		}
		if again := keyed(c).Result.TaskID; again != id || id == "" {
			t.Errorf("the call made again has made %s beside %s", again, id)
		}
	})
}

// A client without the extension waits for the result, or for an answer that another caller
// must give.
func TestARunForAClientThatKnowsNoTasks(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		if rs, err := p.Service.PutTypes(t.Context(), []pawl.Type{{Name: "letter",
			Approval: pawl.Approval{Mode: pawl.ApprovalManual, NotByRequester: new(bool), NotByWorker: new(bool)}}}); err != nil ||
			rs[0].Err != nil {
			t.Fatal(err, rs)
		}
		c := rpc{T: t, url: serve(t, p.Service), plain: true}
		hands(t, p.Service, worker.Handle("plain", func(context.Context, any) (string, error) { return "Dear Ann", nil }))
		if r := c.run(args{"type": "plain"}).Result; r.ResultType == "task" || r.TaskID != "" || r.IsError || r.Content[0].Text != "Dear Ann" {
			t.Errorf("%+v", r)
		}
		submitted := make(chan error, 1)
		go func() {
			ls, err := p.Service.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Types: []string{"letter"}, WaitSeconds: 60})
			if err == nil && len(ls) == 1 {
				_, err = p.Service.Submit(t.Context(), []pawl.SubmitCall{{Fence: ls[0].Fence(), Result: json.RawMessage(`"Dear Ann"`)}})
			}
			submitted <- err
		}()
		if r := c.run(args{"type": "letter"}).Result; len(r.Content) != 1 ||
			!strings.HasSuffix(r.Content[0].Text, " is input_required. Ask after it with work_wait and work_get.") {
			t.Errorf("%+v", r)
		}
		if err := <-submitted; err != nil {
			t.Error(err)
		}
	})
}
