package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/mcp"
	"github.com/pawl-work/pawl/worker"
)

// lasting are the tools whose calls are tasks, and one whose never are.
func lasting(s *mcp.Server) {
	addTool(s.SDK(), &sdk.Tool{Name: "greet", Description: "greets", InputSchema: form(obj{"name": is("string")}, "name")},
		func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var in struct{ Name string }
			err := json.Unmarshal(req.Params.Arguments, &in)
			return answer(text("Hello, %s!", in.Name)), err
		})
	for _, name := range []string{"slow_compute", "failing_job", "protocol_error_job", "confirm_delete", "multi_input"} {
		s.AddTaskTool(mcp.TaskTool{Tool: &sdk.Tool{Name: name, Description: "takes its time", InputSchema: obj{"type": "object"}},
			Required: name == "failing_job", Task: func(_ context.Context, req *sdk.CallToolRequest) (pawl.NewTask, *sdk.CallToolResult, error) {
				return pawl.NewTask{Type: name, Payload: orNone(req.Params.Arguments), MaxAttempts: 1}, nil, nil
			}})
	}
	s.AddTaskTool(mcp.TaskTool{Tool: &sdk.Tool{Name: "test_tool_with_task", Description: "asks first, then takes its time",
		InputSchema: obj{"type": "object"}}, Required: true, Task: func(_ context.Context, req *sdk.CallToolRequest) (pawl.NewTask,
		*sdk.CallToolResult, error) {
		name, _ := accepted(req.Params.InputResponses, "user_name", "name").(string)
		if name == "" {
			return pawl.NewTask{}, wants(sdk.InputRequestMap{"user_name": ask("What is your name?", "name", "string")}, "asked"), nil
		}
		if _, err := unseal(req.Params.RequestState); err != nil {
			return pawl.NewTask{}, nil, pawl.Invalid("/requestState", "is not what this server gave")
		}
		payload, err := json.Marshal(obj{"name": name})
		return pawl.NewTask{Type: "test_tool_with_task", Payload: payload}, nil, err
	}})
}

func orNone(args json.RawMessage) json.RawMessage {
	if len(args) == 0 {
		return json.RawMessage("{}")
	}
	return args
}

type job struct {
	Seconds  float64
	Label    string
	Name     string
	Filename string
}

// work does the tasks.
func work(ctx context.Context, eng *engine.Engine) error {
	return worker.RunWith(ctx, eng, worker.Options{Concurrency: 16, StopGrace: time.Second},
		worker.Handle("slow_compute", func(ctx context.Context, in job) (string, error) {
			select {
			case <-time.After(time.Duration(in.Seconds * float64(time.Second))):
				return "computed " + in.Label, nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}),
		worker.Handle("failing_job", func(context.Context, job) (string, error) {
			return "", pawl.Permanent(errors.New("the job fails, as it should"))
		}),
		worker.Handle("protocol_error_job", func(context.Context, job) (string, error) { panic("the job breaks, as it should") }),
		worker.Handle("test_tool_with_task", func(_ context.Context, in job) (string, error) { return "done for " + in.Name, nil }),
		worker.Handle("confirm_delete", func(ctx context.Context, in job) (string, error) {
			said, err := mcp.Ask(ctx, map[string]*sdk.ElicitParams{"confirm": ask("Delete "+in.Filename+"?", "confirm", "boolean")})
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("deleted %s: %v", in.Filename, said["confirm"].Content["confirm"]), nil
		}),
		worker.Handle("multi_input", func(ctx context.Context, _ job) (string, error) {
			said, err := mcp.Ask(ctx, map[string]*sdk.ElicitParams{"first": ask("Who is first?", "name", "string"),
				"second": ask("Who is second?", "name", "string")})
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%v before %v", said["first"].Content["name"], said["second"].Content["name"]), nil
		}))
}
