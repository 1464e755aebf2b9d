package engine_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// refusal returns the error of a batch, or of its first call.
func refusal[R any](rs []pawl.Result[R], err error) error {
	if err == nil && len(rs) > 0 {
		err = rs[0].Err
	}
	return err
}

// A call that its verb refuses begins no write transaction, with or without an
// idempotency key.
func TestCallsAreCheckedBeforeATransactionBegins(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			var opened atomic.Pointer[func() int32]
			p := pawltest.OpenWith(t, which, engine.Options{Hooks: map[string]pawl.Hooks{"planned": {
				Plan: func(context.Context, pawl.NewTask) ([]pawl.NewItem, error) {
					if n := (*opened.Load())(); n != 0 {
						t.Errorf("%d transactions are open while a task is planned", n)
					}
					return []pawl.NewItem{{Input: json.RawMessage("1")}}, nil
				},
			}}})
			e := p.Engine
			begun, open := e.Spy()
			opened.Store(&open)
			strict := json.RawMessage(`{"type":"integer"}`)
			_, err := e.PutTypes(ctx,
				[]pawl.Type{{Name: "planned", Plan: pawl.Plan{Mode: pawl.PlanGo}}, {Name: "strict", PayloadSchema: strict, InputSchema: strict}})
			task := need[pawl.Task](t)(pawl.Create(ctx, e,
				pawl.NewTask{Type: "strict", Payload: json.RawMessage("1"), Items: []pawl.NewItem{{Input: json.RawMessage("1"), Key: "a"}}}))
			if err != nil {
				t.Fatal(err)
			}
			deep := json.RawMessage(strings.Repeat("[", pawl.MaxDepth+1) + strings.Repeat("]", pawl.MaxDepth+1))
			fence := pawl.Fence{ItemID: "itm_x", WorkerID: "w", Attempt: 1}
			writer := pawl.MessageFence{MessageID: "msg_x", WorkerID: "w", Attempt: 1}
			bad := pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Snapshot: deep}
			agent := &pawl.Provenance{AgentID: "a"}
			for name, call := range map[string]func(context.Context, pawl.Service) error{
				"create": func(ctx context.Context, e pawl.Service) error {
					return refusal(e.CreateTasks(ctx, []pawl.NewTask{{Type: "strict", Payload: json.RawMessage(`"x"`)}}))
				},
				"create with provenance": func(ctx context.Context, e pawl.Service) error {
					return refusal(e.CreateTasks(ctx, []pawl.NewTask{{Type: "strict", Payload: json.RawMessage(`"x"`), Provenance: agent},
						{Type: "strict", Payload: deep, Provenance: agent}}))
				},
				"clone": func(ctx context.Context, e pawl.Service) error {
					return refusal(e.CloneTasks(ctx, []pawl.TaskClone{{TaskID: task.ID, Payload: json.RawMessage(`"x"`)}}))
				},
				"add items": func(ctx context.Context, e pawl.Service) error {
					return refusal(e.AddItems(ctx, []pawl.AddItems{{TaskID: task.ID, Items: []pawl.NewItem{{Input: json.RawMessage(`"x"`)}}}}))
				},
				"update": func(ctx context.Context, e pawl.Service) error {
					return refusal(e.UpdateTasks(ctx, []pawl.TaskUpdate{{TaskID: task.ID, Metadata: deep}}))
				},
				"complete": func(ctx context.Context, e pawl.Service) error {
					return refusal(e.Complete(ctx, []pawl.CompleteCall{{Fence: fence, Result: deep}}))
				},
				"submit": func(ctx context.Context, e pawl.Service) error {
					return refusal(e.Submit(ctx, []pawl.SubmitCall{{Fence: fence, Result: deep}}))
				},
				"part": func(ctx context.Context, e pawl.Service) error {
					return refusal(e.SubmitParts(ctx, []pawl.PartCall{{Fence: fence, Key: "k", Payload: deep}}))
				},
				"fail": func(ctx context.Context, e pawl.Service) error {
					return refusal(e.Fail(ctx, []pawl.FailCall{{Fence: fence, Error: pawl.Failure{Message: "m", Detail: deep}}}))
				},
				"checkpoint": func(ctx context.Context, e pawl.Service) error {
					return refusal(e.Checkpoint(ctx, []pawl.CheckpointCall{{Fence: fence, NewCheckpoint: bad}}))
				},
				"task checkpoint": func(ctx context.Context, e pawl.Service) error {
					return refusal(e.CheckpointTasks(ctx, []pawl.TaskCheckpoint{{TaskID: task.ID, NewCheckpoint: bad}}))
				},
				"message": func(ctx context.Context, e pawl.Service) error {
					return refusal(e.StartMessages(ctx, []pawl.StartCall{{Fence: fence, Role: "assistant", Metadata: deep}}))
				},
				"append": func(ctx context.Context, e pawl.Service) error {
					return refusal(e.Append(ctx, []pawl.AppendCall{{MessageFence: writer, Chunks: []pawl.Chunk{{Type: pawl.ChunkData, Data: deep}}}}))
				},
				"step": func(ctx context.Context, e pawl.Service) error {
					return refusal(e.StepMessages(ctx, []pawl.StepCall{{MessageFence: writer, Snapshot: deep}}))
				},
				"finish": func(ctx context.Context, e pawl.Service) error {
					return refusal(e.FinishMessages(ctx, []pawl.FinishCall{{MessageFence: writer, Usage: deep}}))
				},
				"signal": func(ctx context.Context, e pawl.Service) error {
					return refusal(e.SendSignals(ctx, []pawl.SignalCall{{Name: "s", Payload: deep}}))
				},
				"type": func(ctx context.Context, e pawl.Service) error {
					return refusal(e.PutTypes(ctx, []pawl.Type{{Name: "t", PayloadSchema: deep}}))
				},
				"key": func(ctx context.Context, e pawl.Service) error {
					return refusal(e.CompleteKeys(ctx, []pawl.KeyDone{{Key: "k", Token: "t", Response: deep}}))
				},
				"approve": func(ctx context.Context, e pawl.Service) error {
					return refusal(e.ApproveTasks(ctx, []pawl.ApproveCall{{TaskID: task.ID, Provenance: &pawl.Provenance{Extra: deep}}}))
				},
			} {
				before := begun()
				if err := call(ctx, e); pawl.CodeOf(err) != pawl.CodeInvalid || begun() != before {
					t.Errorf("%s: %v after %d transactions", name, err, begun()-before)
				}
				_, _, err := e.Idempotent(ctx, pawl.KeyBegin{Key: name, RequestHash: "h"},
					func(ctx context.Context, e pawl.Service) (*pawl.Answer, error) {
						err := call(ctx, e)
						if n := open(); n != 0 {
							t.Errorf("%s with a key: it is refused inside a transaction", name)
						}
						return nil, err
					})
				if pawl.CodeOf(err) != pawl.CodeInvalid {
					t.Errorf("%s with a key: %v", name, err)
				}
			}
			for range 2 {
				answer, _, err := e.Idempotent(ctx, pawl.KeyBegin{Key: "planned", RequestHash: "h"},
					func(ctx context.Context, e pawl.Service) (*pawl.Answer, error) {
						task, err := pawl.Create(ctx, e, pawl.NewTask{Type: "planned", Provenance: agent})
						if n := open(); n != 1 {
							t.Errorf("%d transactions are open after the create", n)
						}
						return &pawl.Answer{Code: http.StatusCreated, Body: []byte(task.ID)}, err
					})
				if err != nil || answer.Code != http.StatusCreated {
					t.Error(answer, err)
				}
			}
		})
	}
}
