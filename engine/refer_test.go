package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// A call that is refused because it names a blob that was not uploaded keeps no reference to the others that it names, of
// the same value or of items before.
func TestARefusedReferenceKeepsNone(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		b := need[pawl.Blob](t)(p.Engine.PutBlob(t.Context(), pawl.BlobUpload{Content: strings.NewReader("uploaded")}))
		there := refTo(`"` + b.Address + `"`)
		task := p.Create(pawl.NewTask{Type: "a", Items: items(2)})
		_, created := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a", Payload: fmt.Appendf(nil, "[%s,%s]", there, refTo(noBlob))})
		_, added := first(p.Service.AddItems(t.Context(), []pawl.AddItems{{TaskID: task.ID,
			Items: []pawl.NewItem{{Input: there}, {Input: refTo(noBlob)}}}}))
		for _, err := range []error{created, added} {
			if pawl.CodeOf(err) != pawl.CodeInvalid || !strings.Contains(err.Error(), "abab") {
				t.Errorf("%v", err)
			}
		}
		if rows := queried(t, p, "SELECT COUNT(*) FROM pawl.blob_refs"); rows != 0 {
			t.Errorf("%d references stay", rows)
		}
	})
}

// noBlob is the address, in JSON, of a blob that was not uploaded.
var noBlob = `"sha256:` + strings.Repeat("ab", 32) + `"`

// refTo refers to the blob with an address, in JSON.
func refTo[T string | json.RawMessage](address T) json.RawMessage {
	return json.RawMessage(`{"$blob":` + string(address) + `}`)
}

// A blob that only a hook names, in the result of a task or of an item, stays as long as the
// task. One that was not uploaded is the error of the hook.
func TestBlobsThatAHookNamesStay(t *testing.T) {
	hooks := pawl.Hooks{
		Apply: func(_ context.Context, a pawl.Application) (pawl.Applied, error) {
			return pawl.Applied{Result: refTo(a.Task.Payload)}, nil
		},
		Assemble: func(_ context.Context, _ pawl.Item, parts []pawl.ItemPart) (json.RawMessage, error) {
			return refTo(parts[0].Payload), nil
		},
	}
	withType(t, `{"name":"report","parts":[{"key":"a"}],"assembly":{"mode":"go"},"approval":{"mode":"manual"},"apply":{"mode":"go"}}`,
		hooks, func(o typeFixture) {
			ctx, e := o.Context(), o.Engine
			upload := func(content string) string {
				b := need[pawl.Blob](o.T)(e.PutBlob(ctx, pawl.BlobUpload{Content: strings.NewReader(content)}))
				return `"` + b.Address + `"`
			}
			finalize := func(payload, part string) (string, error) {
				task := need[pawl.Task](o.T)(pawl.Create(ctx, e, pawl.NewTask{Type: "report", Payload: []byte(payload)}))
				l := leases(o.T, e, pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID}, 1)[0]
				need[pawl.ItemPart](o.T)(first(e.SubmitParts(ctx, []pawl.PartCall{{Fence: l.Fence(), Key: "a", Payload: []byte(part)}})))
				_, err := first(e.Finalize(ctx, []pawl.FinalizeCall{{Fence: l.Fence()}}))
				return task.ID, err
			}
			approve := func(id string) pawl.Task {
				return need[pawl.Task](o.T)(first(e.ApproveTasks(ctx, []pawl.ApproveCall{{TaskID: id}})))
			}
			applied, assembled := upload("of the task"), upload("of the item")
			id, err := finalize(applied, assembled)
			o.OK(err)
			if got := approve(id); got.State != pawl.TaskCompleted {
				o.Errorf("the task is %s: %+v", got.State, got.Error)
			}
			if rows := o.count("SELECT COUNT(*) FROM pawl.blob_refs"); rows != 2 {
				o.Errorf("%d blobs are referred to, not 2", rows)
			}
			if _, err := finalize(applied, noBlob); pawl.CodeOf(err) != pawl.CodeInvalid || !strings.Contains(err.Error(), "abab") {
				o.Errorf("an item's result refers to a blob that is not there: %v", err)
			}
			id, err = finalize(noBlob, assembled)
			o.OK(err)
			if got := approve(id); got.State != pawl.TaskFailed || got.Error.Code != "apply_failed" || !strings.Contains(got.Error.Message, "abab") {
				o.Errorf("a task's result refers to a blob that is not there: %s, %+v", got.State, got.Error)
			}
		})
}

// The errors of hooks are kept as text: they may have bytes that no database keeps.
func TestAnErrorOfAHookMayHaveAnyBytes(t *testing.T) {
	failed := errors.New("a\x00b\xff")
	apply := func(context.Context, pawl.Application) (pawl.Applied, error) { return pawl.Applied{}, failed }
	for name, hooks := range map[string]pawl.Hooks{
		"apply":  {Apply: apply},
		"before": {Apply: apply, BeforeApply: func(context.Context, pawl.Application) error { return failed }},
		"long": {Apply: func(context.Context, pawl.Application) (pawl.Applied, error) {
			return pawl.Applied{}, errors.New("a\x00b\xff" + strings.Repeat("c", pawl.MaxErrorBytes))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			withType(t, `{"name":"report","approval":{"mode":"manual"},"apply":{"mode":"go"}}`, hooks, func(o typeFixture) {
				task, held := o.task(1)
				o.submit(held[0], "1")
				got := need[pawl.Task](o.T)(first(o.Engine.ApproveTasks(o.Context(), []pawl.ApproveCall{{TaskID: task.ID}})))
				if got.State != pawl.TaskFailed || got.Error == nil || !strings.HasPrefix(got.Error.Message, "a\uFFFDb\uFFFD") ||
					len(got.Error.Message) > pawl.MaxErrorBytes {
					o.Errorf("the task is %s: %+v", got.State, got.Error)
				}
			})
		})
	}
}

// What is stored of the error of a check is within the table of limits: the error is in the message and in the detail.
func TestTheErrorOfACheckIsBounded(t *testing.T) {
	for name, text := range map[string]string{"long": "c", "escaped": "\x01"} {
		t.Run(name, func(t *testing.T) {
			check := func(context.Context, pawl.Task, []pawl.Item) ([]pawl.Complaint, error) {
				return nil, errors.New(strings.Repeat(text, pawl.MaxErrorBytes))
			}
			withType(t, `{"name":"report","approval":{"mode":"manual"}}`, pawl.Hooks{Check: check}, func(o typeFixture) {
				task, held := o.task(1)
				o.submit(held[0], "1")
				got := o.state(task.ID, pawl.TaskSubmitted).Error
				stored, err := json.Marshal(got)
				o.OK(err)
				if n := len(stored); got == nil || got.Code != "check_failed" || n > pawl.MaxErrorBytes || n < pawl.MaxErrorBytes/4 {
					o.Errorf("%d bytes are stored", n)
				}
			})
		})
	}
}

// What is stored of the complaints of a check is within the table of limits, and says what is left out.
func TestComplaintsOfACheckAreBounded(t *testing.T) {
	many := make([]pawl.Complaint, 5000)
	for i := range many {
		many[i] = pawl.Complaint{Code: "c", Message: strings.Repeat("m", 1000), Field: "/f"}
	}
	for name, all := range map[string][]pawl.Complaint{
		"many": many, "few": many[:2], "long": {{Code: "c\x00", Message: strings.Repeat("\x01", pawl.MaxErrorBytes), Field: "/f"}},
	} {
		t.Run(name, func(t *testing.T) {
			check := func(context.Context, pawl.Task, []pawl.Item) ([]pawl.Complaint, error) { return all, nil }
			withType(t, `{"name":"report","approval":{"mode":"manual"}}`, pawl.Hooks{Check: check}, func(o typeFixture) {
				task, held := o.task(1)
				o.submit(held[0], "1")
				got := o.state(task.ID, pawl.TaskSubmitted).Error
				stored, err := json.Marshal(got)
				o.OK(err)
				if got == nil || got.Code != "check_failed" || len(stored) > pawl.MaxErrorBytes {
					o.Fatalf("%d bytes are stored", len(stored))
				}
				var kept []pawl.Complaint
				o.OK(json.Unmarshal(got.Detail, &kept))
				last := kept[len(kept)-1]
				left := len(all) - len(kept)
				if left <= 0 && last.Field != "/f" || left > 0 && last.Message != fmt.Sprintf("%d complaints are not shown", left+1) {
					o.Errorf("%d of %d complaints are stored, the last %.100v", len(kept), len(all), last)
				}
			})
		})
	}
}
