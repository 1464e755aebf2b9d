package engine_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// payloadsOf lists the JSON values in what the methods of the service take.
func payloadsOf() (out []string) {
	raw := reflect.TypeFor[json.RawMessage]()
	var walk func(at string, t reflect.Type, depth int)
	walk = func(at string, t reflect.Type, depth int) {
		switch {
		case t == raw:
			out = append(out, at)
		case depth > 6:
		case t.Kind() == reflect.Pointer, t.Kind() == reflect.Slice:
			walk(at, t.Elem(), depth+1)
		case t.Kind() == reflect.Struct:
			for i := range t.NumField() {
				if f := t.Field(i); f.Anonymous {
					walk(at, f.Type, depth+1)
				} else if f.IsExported() {
					walk(at+"."+f.Name, f.Type, depth+1)
				}
			}
		}
	}
	service := reflect.TypeFor[pawl.Service]()
	for i := range service.NumMethod() {
		m := service.Method(i)
		for j := range m.Type.NumIn() {
			walk(m.Name, m.Type.In(j), 0)
		}
	}
	return out
}

// plainPayloads are JSON values in which an object with the member $blob is no reference.
var plainPayloads = []string{"Fail.Error.Detail", "EffectFailed.Error.Detail", "EffectUnknown.Error.Detail",
	"FinishMessages.Usage", "PutTypes.PayloadSchema", "PutTypes.InputSchema",
	"PutTypes.ResultSchema", "PutTypes.Parts.Schema", "PutTypes.Approval.When"}

// blobDoor is a call that takes a value. It returns the task that is to keep the blobs of the value: "" if the
// stored text keeps them.
type blobDoor func(d *blobDoors, value json.RawMessage) (task string, err error)

// blobDoors is a database to whose doors values are sent.
type blobDoors struct {
	typeFixture
	n int
}

// lease returns the lease of a new task's item.
func (d *blobDoors) lease(task pawl.NewTask) pawl.Lease {
	d.Helper()
	if d.n++; task.Type == "" {
		task.Type = "t" + strconv.Itoa(d.n)
	}
	need[pawl.Task](d)(pawl.Create(d.Context(), d.Engine, task))
	return leases(d, d.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{task.Type}}, 1)[0]
}

// reply returns the lease of an item with an open message, and its writer.
func (d *blobDoors) reply() (pawl.Lease, pawl.MessageFence) {
	d.Helper()
	l := d.lease(pawl.NewTask{Thread: "t", Reply: &pawl.Reply{}})
	return l, pawl.MessageFence{MessageID: l.OpenMessage.ID, WorkerID: "w", Attempt: l.Attempt}
}

// content is a message with a value.
func content(value json.RawMessage) json.RawMessage {
	return fmt.Appendf(nil, `[{"type":"data","data":%s}]`, value)
}

// doorAppended sends chunks to a message of an item and to one that a task has itself.
func doorAppended(make func(json.RawMessage) pawl.Chunk) []blobDoor {
	return []blobDoor{
		func(d *blobDoors, v json.RawMessage) (string, error) {
			l, m := d.reply()
			other := d.Another(engine.Options{}) // it knows nothing of the message
			_, err := first(other.Append(d.Context(), []pawl.AppendCall{{MessageFence: m, Chunks: []pawl.Chunk{make(v)}}}))
			return l.TaskID, err
		},
		func(d *blobDoors, v json.RawMessage) (string, error) {
			l := d.lease(pawl.NewTask{})
			own := need[pawl.OpenedMessage](d)(first(d.Engine.OpenMessages(d.Context(), []pawl.OpenCall{{TaskID: l.TaskID, Role: "assistant"}})))
			call := pawl.AppendCall{MessageFence: pawl.MessageFence{MessageID: own.ID, Writer: own.Writer}, Chunks: []pawl.Chunk{make(v)}}
			_, err := first(d.Engine.Append(d.Context(), []pawl.AppendCall{call}))
			return l.TaskID, err
		},
	}
}

// doorCreated creates a task with a value.
// effect opens an effect of a lease.
func (d *blobDoors) effect(f pawl.Fence) string {
	d.Helper()
	call := pawl.OpenEffectCall{ItemID: f.ItemID, WorkerID: f.WorkerID, Attempt: f.Attempt, Name: "pay", RequestHash: "h"}
	return need[pawl.OpenedEffect](d)(d.Engine.OpenEffect(d.Context(), call)).ID
}

func doorCreated(make func(json.RawMessage) pawl.NewTask) []blobDoor {
	return []blobDoor{func(d *blobDoors, v json.RawMessage) (string, error) {
		t := make(v)
		t.Type = "a"
		task, err := pawl.Create(d.Context(), d.Engine, t)
		return task.ID, err
	}}
}

// doorScheduled creates a schedule of a task with a value.
func doorScheduled(make func(json.RawMessage) pawl.NewTask) []blobDoor {
	return []blobDoor{func(d *blobDoors, v json.RawMessage) (string, error) {
		t := make(v)
		t.Type, d.n = "a", d.n+1
		_, err := d.Engine.CreateSchedule(d.Context(), pawl.NewSchedule{Name: "s" + strconv.Itoa(d.n), Cron: "0 0 1 1 *", Task: t})
		return "", err
	}}
}

// doorPut is doorScheduled for a schedule that is put.
func doorPut(make func(json.RawMessage) pawl.NewTask) []blobDoor {
	return []blobDoor{func(d *blobDoors, v json.RawMessage) (string, error) {
		t := make(v)
		t.Type, d.n = "a", d.n+1
		_, err := d.Engine.PutSchedule(d.Context(), pawl.NewSchedule{Name: "s" + strconv.Itoa(d.n), Cron: "0 0 1 1 *", Task: t})
		return "", err
	}}
}

// doorSpawned creates a child with a value.
func doorSpawned(make func(json.RawMessage) pawl.NewTask) []blobDoor {
	return []blobDoor{func(d *blobDoors, v json.RawMessage) (string, error) {
		t := make(v)
		t.Type = "a"
		l := d.lease(pawl.NewTask{})
		child, err := first(d.Engine.Spawn(d.Context(), []pawl.SpawnCall{{Fence: l.Fence(), Key: "k", Task: t}}))
		return child.ID, err
	}}
}

// doorStated appends checkpoints to a task that the call creates.
func doorStated(make func(json.RawMessage) pawl.NewTask) []blobDoor {
	return []blobDoor{func(d *blobDoors, v json.RawMessage) (string, error) {
		t := make(v)
		t.Type = "a"
		done, err := first(d.Engine.AppendCheckpoints(d.Context(), []pawl.CheckpointAppend{{Create: &t,
			Checkpoints: []pawl.AppendedCheckpoint{{NewCheckpoint: ofSnapshot([]byte("1"))}}}}))
		return done.TaskID, err
	}}
}

func ofSnapshot(v json.RawMessage) pawl.NewCheckpoint {
	return pawl.NewCheckpoint{Type: "custom", Name: "n", Snapshot: v}
}

func ofPayload(v json.RawMessage) pawl.NewTask { return pawl.NewTask{Payload: v} }
func ofInput(v json.RawMessage) pawl.NewTask {
	return pawl.NewTask{Items: []pawl.NewItem{{Input: v}, {}}}
}
func ofMessage(v json.RawMessage) pawl.NewTask {
	return pawl.NewTask{Messages: []pawl.NewMessage{{Role: "user", Content: content(v)}}}
}

// doorLeased is a door of a worker.
func doorLeased(call func(d *blobDoors, f pawl.Fence, v json.RawMessage) error) []blobDoor {
	return []blobDoor{func(d *blobDoors, v json.RawMessage) (string, error) {
		l := d.lease(pawl.NewTask{})
		return l.TaskID, call(d, l.Fence(), v)
	}}
}

// doorReviewed is doorLeased for results that are handed in.
func doorReviewed(call func(d *blobDoors, f pawl.Fence, v json.RawMessage) error) []blobDoor {
	return []blobDoor{func(d *blobDoors, v json.RawMessage) (string, error) {
		typ := pawl.Type{Name: "reviewed", Approval: pawl.Approval{Mode: pawl.ApprovalManual}, Parts: []pawl.PartRule{{Key: "p"}}}
		need[pawl.TypeRef](d)(first(d.Engine.PutTypes(d.Context(), []pawl.Type{typ})))
		l := d.lease(pawl.NewTask{Type: "reviewed"})
		return l.TaskID, call(d, l.Fence(), v)
	}}
}

var blobDoorsOf = map[string][]blobDoor{
	"CreateTasks.Payload":                       doorCreated(ofPayload),
	"CreateTasks.Items.Input":                   doorCreated(ofInput),
	"CreateTasks.Messages.Content":              doorCreated(ofMessage),
	"CreateSchedule.Task.Payload":               doorScheduled(ofPayload),
	"CreateSchedule.Task.Items.Input":           doorScheduled(ofInput),
	"CreateSchedule.Task.Messages.Content":      doorScheduled(ofMessage),
	"PutSchedule.Task.Payload":                  doorPut(ofPayload),
	"PutSchedule.Task.Items.Input":              doorPut(ofInput),
	"PutSchedule.Task.Messages.Content":         doorPut(ofMessage),
	"Spawn.Task.Payload":                        doorSpawned(ofPayload),
	"Spawn.Task.Items.Input":                    doorSpawned(ofInput),
	"Spawn.Task.Messages.Content":               doorSpawned(ofMessage),
	"AppendCheckpoints.Create.Payload":          doorStated(ofPayload),
	"AppendCheckpoints.Create.Items.Input":      doorStated(ofInput),
	"AppendCheckpoints.Create.Messages.Content": doorStated(ofMessage),
	"Append.Chunks.Input": doorAppended(func(v json.RawMessage) pawl.Chunk {
		return pawl.Chunk{Type: pawl.ChunkToolCall, ToolCallID: "c", ToolName: "t", Input: v}
	}),
	"Append.Chunks.Output": doorAppended(func(v json.RawMessage) pawl.Chunk {
		return pawl.Chunk{Type: pawl.ChunkToolResult, ToolCallID: "c", ToolName: "t", Output: v}
	}),
	"Append.Chunks.Data": doorAppended(func(v json.RawMessage) pawl.Chunk { return pawl.Chunk{Type: pawl.ChunkData, Data: v} }),
	"AddItems.Items.Input": doorLeased(func(d *blobDoors, f pawl.Fence, v json.RawMessage) error {
		it := need[pawl.Item](d)(d.Engine.GetItem(d.Context(), f.ItemID))
		_, err := first(d.Engine.AddItems(d.Context(), []pawl.AddItems{{TaskID: it.TaskID, Items: []pawl.NewItem{{Input: v}}}}))
		return err
	}),
	"AppendCheckpoints.Checkpoints.Snapshot": doorLeased(func(d *blobDoors, f pawl.Fence, v json.RawMessage) error {
		it := need[pawl.Item](d)(d.Engine.GetItem(d.Context(), f.ItemID))
		_, err := first(d.Engine.AppendCheckpoints(d.Context(), []pawl.CheckpointAppend{{TaskID: it.TaskID,
			Checkpoints: []pawl.AppendedCheckpoint{{NewCheckpoint: ofSnapshot(v)}}}}))
		return err
	}),
	"CheckpointTasks.Snapshot": doorLeased(func(d *blobDoors, f pawl.Fence, v json.RawMessage) error {
		it := need[pawl.Item](d)(d.Engine.GetItem(d.Context(), f.ItemID))
		_, err := first(d.Engine.CheckpointTasks(d.Context(), []pawl.TaskCheckpoint{{TaskID: it.TaskID, NewCheckpoint: ofSnapshot(v)}}))
		return err
	}),
	"Checkpoint.Snapshot": doorLeased(func(d *blobDoors, f pawl.Fence, v json.RawMessage) error {
		_, err := first(d.Engine.Checkpoint(d.Context(), []pawl.CheckpointCall{{Fence: f, NewCheckpoint: ofSnapshot(v)}}))
		return err
	}),
	"Complete.Result": doorLeased(func(d *blobDoors, f pawl.Fence, v json.RawMessage) error {
		_, err := pawl.Complete(d.Context(), d.Engine, f, v)
		return err
	}),
	"EffectDone.Answer": doorLeased(func(d *blobDoors, f pawl.Fence, v json.RawMessage) error {
		done := pawl.EffectDoneCall{ItemID: f.ItemID, WorkerID: f.WorkerID, Attempt: f.Attempt, Answer: v}
		_, err := d.Engine.EffectDone(d.Context(), d.effect(f), done)
		return err
	}),
	"ResolveEffect.Answer": doorLeased(func(d *blobDoors, f pawl.Fence, v json.RawMessage) error {
		id := d.effect(f)
		need[pawl.Moved](d)(first(d.Engine.Release(d.Context(), []pawl.ReleaseCall{{Fence: f}})))
		_, err := d.Engine.ResolveEffect(d.Context(), id, pawl.ResolveEffectCall{Outcome: pawl.Happened, Answer: v})
		return err
	}),
	"Submit.Result": doorReviewed(func(d *blobDoors, f pawl.Fence, v json.RawMessage) error {
		_, err := first(d.Engine.Submit(d.Context(), []pawl.SubmitCall{{Fence: f, Result: v}}))
		return err
	}),
	"SubmitParts.Payload": doorReviewed(func(d *blobDoors, f pawl.Fence, v json.RawMessage) error {
		_, err := first(d.Engine.SubmitParts(d.Context(), []pawl.PartCall{{Fence: f, Key: "p", Payload: v}}))
		return err
	}),
	"StartMessages.Content": doorLeased(func(d *blobDoors, f pawl.Fence, v json.RawMessage) error {
		_, err := first(d.Engine.StartMessages(d.Context(), []pawl.StartCall{{Fence: f, Role: "tool", Content: content(v)}}))
		return err
	}),
	"StepMessages.Snapshot": {func(d *blobDoors, v json.RawMessage) (string, error) {
		l, m := d.reply()
		_, err := first(d.Another(engine.Options{}).StepMessages(d.Context(), []pawl.StepCall{{MessageFence: m, Snapshot: v}}))
		return l.TaskID, err
	}},
	"CloneTasks.Payload": {func(d *blobDoors, v json.RawMessage) (string, error) {
		of := need[pawl.Task](d)(pawl.Create(d.Context(), d.Engine, pawl.NewTask{Type: "a"}))
		task, err := first(d.Engine.CloneTasks(d.Context(), []pawl.TaskClone{{TaskID: of.ID, Payload: v}}))
		return task.ID, err
	}},
	"SendSignals.Payload": {func(d *blobDoors, v json.RawMessage) (string, error) {
		_, err := first(d.Engine.SendSignals(d.Context(), []pawl.SignalCall{{Name: "n", Key: "k", Payload: v}}))
		return "", err
	}},
}

// A value that refers to a blob keeps it, whatever call it comes by, and is refused if the blob is not there.
func TestEveryDoorKeepsBlobs(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		d := &blobDoors{typeFixture: typeFixture{t, p}}
		seed := byte(0)
		for _, name := range payloadsOf() {
			if slices.Contains(plainPayloads, name) || strings.HasSuffix(name, "Metadata") || strings.HasSuffix(name, "Provenance.Extra") ||
				strings.HasSuffix(name, "Evidence") || strings.HasPrefix(name, "CompleteKeys") || strings.HasPrefix(name, "FailKeys") {
				continue // the answer of a key refers to what it can, and is stored in any case
			}
			if blobDoorsOf[name] == nil {
				t.Errorf("%s is listed as neither a door of references nor a plain value", name)
			}
			for _, door := range blobDoorsOf[name] {
				none := pawl.BlobAddress(bytes.Repeat([]byte{0xee}, 32))
				if _, err := door(d, fmt.Appendf(nil, `{"f":{"$blob":%q}}`, none)); pawl.CodeOf(err) != pawl.CodeInvalid {
					t.Errorf("%s takes a reference to what is not there: %v", name, err)
				}
				seed++
				blob := need[pawl.Blob](t)(p.Engine.PutBlob(t.Context(), pawl.BlobUpload{Content: bytes.NewReader([]byte{seed})}))
				before := d.count("SELECT COUNT(*) FROM pawl.blob_refs")
				task, err := door(d, fmt.Appendf(nil, `{"f":{"$blob":%q}}`, blob.Address))
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if n := d.count("SELECT COUNT(*) FROM pawl.blob_refs") - before; n == 1 != (task != "") {
					t.Errorf("%s: %d references", name, n)
				}
			}
		}
	})
}
