package engine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// megabyte returns a value of about 1 MiB that begins with n.
func megabyte(n int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`"%d %s"`, n, strings.Repeat("x", pawl.MaxPayloadBytes-64)))
}

// heavy creates a task of n items of 1 MiB each.
func heavy(t *testing.T, p *pawltest.Pawl, n int) pawl.Task {
	t.Helper()
	items := make([]pawl.NewItem, n)
	for i := range items {
		items[i].Input = megabyte(i)
	}
	return need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "heavy", Items: items}))
}

// A page ends early when it reaches its bytes, and its cursor continues from there.
// Nothing is left out, and members that are not asked for do not count.
func TestPagesAreBoundedByBytes(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, e, count := t.Context(), p.Engine, 20
		task := heavy(t, p, count)
		for n := range 12 {
			need[pawl.Task](t)(pawl.Create(ctx, e, pawl.NewTask{Type: "a", Payload: megabyte(n)}))
		}
		seen, pages := 0, 0
		for f := (pawl.ItemFilter{TaskID: task.ID, Page: pawl.Page{Limit: pawl.MaxPage}}); ; pages++ {
			l := need[pawl.List[pawl.Item]](t)(e.ListItems(ctx, f))
			size := 0
			for _, it := range l.Items {
				size += len(it.Input)
				if !strings.HasPrefix(string(it.Input), fmt.Sprintf(`"%d `, seen)) {
					t.Fatalf("item %d begins %.10s", seen, it.Input)
				}
				seen++
			}
			if size > pawl.MaxPageBytes {
				t.Errorf("a page has %d bytes", size)
			}
			if f.Cursor = l.Next; f.Cursor == "" {
				break
			}
		}
		if seen != count || pages < 2 {
			t.Errorf("%d items on %d further pages", seen, pages)
		}
		l := need[pawl.List[pawl.Item]](t)(
			e.ListItems(ctx, pawl.ItemFilter{TaskID: task.ID, Fields: []string{"state"}, Page: pawl.Page{Limit: pawl.MaxPage}}))
		if len(l.Items) != count || l.Next != "" || string(l.Items[0].Input) != "null" {
			t.Errorf("without inputs: %d items, next %q, %.20s", len(l.Items), l.Next, l.Items[0].Input)
		}
		tasks := need[pawl.List[pawl.Task]](t)(e.ListTasks(ctx, pawl.TaskFilter{Types: []string{"a"}}))
		if n := len(tasks.Items); n >= 12 || n < 5 || tasks.Next == "" {
			t.Errorf("%d tasks, next %q", n, tasks.Next)
		}
		rest := need[pawl.List[pawl.Task]](t)(e.ListTasks(ctx, pawl.TaskFilter{Types: []string{"a"}, Page: pawl.Page{Cursor: tasks.Next}}))
		if len(tasks.Items)+len(rest.Items) != 12 {
			t.Errorf("%d and then %d tasks", len(tasks.Items), len(rest.Items))
		}
		tasks = need[pawl.List[pawl.Task]](t)(e.ListTasks(ctx, pawl.TaskFilter{Types: []string{"a"}, Fields: []string{"title"}}))
		if len(tasks.Items) != 12 || tasks.Next != "" || string(tasks.Items[0].Payload) != "null" {
			t.Errorf("without payloads: %d tasks, next %q", len(tasks.Items), tasks.Next)
		}
	})
}

// A short call is refused if it would store more than one call may store: by cloning, or
// by a plan that repeats the members it keeps. Results that are too large to be read as
// one are refused too.
func TestCallsThatMultiplyAreBounded(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, e := t.Context(), p.Engine
		task := heavy(t, p, 9)
		calls := make([]pawl.TaskClone, 10)
		for i := range calls {
			calls[i].TaskID = task.ID
		}
		made, refused := 0, 0
		for _, r := range need[[]pawl.Result[pawl.Task]](t)(e.CloneTasks(ctx, calls)) {
			switch pawl.CodeOf(r.Err) {
			case pawl.CodeTooLarge:
				refused++
			default:
				made++
			}
		}
		if made != 3 || refused != 7 {
			t.Errorf("%d clones made, %d refused", made, refused)
		}
		split := pawl.Type{Name: "split", Plan: pawl.Plan{Mode: pawl.PlanSplit, Pointer: "/list", Size: 1, Keep: []string{"all"}}}
		if _, err := e.PutTypes(ctx, []pawl.Type{split}); err != nil {
			t.Fatal(err)
		}
		payload := json.RawMessage(fmt.Sprintf(`{"all":"%s","list":[%s1]}`, strings.Repeat("x", 900_000), strings.Repeat("1,", 1000)))
		if _, err := pawl.Create(ctx, e, pawl.NewTask{Type: "split", Payload: payload}); pawl.CodeOf(err) != pawl.CodeTooLarge {
			t.Errorf("a split of 900 MB: %v", err)
		}
		items := make([]pawl.NewItem, 33)
		big := need[pawl.Task](t)(pawl.Create(ctx, e, pawl.NewTask{Type: "b", Items: items}))
		for n, l := range need[[]pawl.Lease](t)(e.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", TaskID: big.ID, Limit: 33})) {
			need[pawl.Moved](t)(pawl.Complete(ctx, e, l.Fence(), megabyte(n)))
		}
		if _, err := e.TaskResult(ctx, big.ID); pawl.CodeOf(err) != pawl.CodeTooLarge {
			t.Errorf("a result of 33 MB: %v", err)
		}
	})
}

// A message takes chunks up to its bytes. It stays readable and ends like any other.
func TestMessagesAreBoundedByBytes(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, e := t.Context(), p.Engine
		need[pawl.Task](t)(pawl.Create(ctx, e, pawl.NewTask{Type: "a"}))
		l := need[[]pawl.Lease](t)(e.Claim(ctx, pawl.ClaimRequest{WorkerID: "w"}))[0]
		m := need[pawl.Message](t)(first(e.StartMessages(ctx, []pawl.StartCall{{Fence: l.Fence(), Role: pawl.RoleAssistant}})))
		fence := pawl.MessageFence{MessageID: m.ID, WorkerID: "w", Attempt: l.Attempt}
		chunk := pawl.Chunk{Type: pawl.ChunkText, Text: pawl.Words(strings.Repeat("x", 1_000_000))}
		var err error
		n := int64(0)
		for ; n < 30; n++ {
			if _, err = first(e.Append(ctx, []pawl.AppendCall{{MessageFence: fence, Offset: n, Chunks: []pawl.Chunk{chunk}}})); err != nil {
				break
			}
		}
		if n != 16 || pawl.CodeOf(err) != pawl.CodeTooLarge {
			t.Fatalf("after %d MB: %v", n, err)
		}
		small := pawl.Chunk{Type: pawl.ChunkText, Text: "end"}
		need[pawl.Appended](t)(first(e.Append(ctx, []pawl.AppendCall{{MessageFence: fence, Offset: n, Chunks: []pawl.Chunk{small}}})))
		done := need[pawl.Message](t)(first(e.FinishMessages(ctx, []pawl.FinishCall{{MessageFence: fence}})))
		if len(done.Content) < 16_000_000 || done.Status != pawl.MessageComplete {
			t.Errorf("%s with %d bytes", done.Status, len(done.Content))
		}
	})
}
