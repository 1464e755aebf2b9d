package pawltest_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/worker"
)

func ExampleSession_EndChild() {
	book := func(ctx context.Context, chapters int) (string, error) {
		ids := make([]string, chapters)
		for i := range ids {
			child, err := pawl.Spawn(ctx, fmt.Sprint("chapter ", i), pawl.NewTask{Type: "chapter"})
			if err != nil {
				return "", err
			}
			ids[i] = child.ID
		}
		done, err := pawl.AwaitChildren(ctx, "chapters", pawl.ChildWait{IDs: ids})
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s and %s", done[0].Result, done[1].Result), nil
	}
	s := pawltest.NewSession(pawl.Lease{Type: "book"})
	ctx := context.Background()
	_, err := book(s.Context(ctx), 2)
	fmt.Println(err)

	s.EndChild(pawl.ChildResult{Key: "chapter 1", Result: json.RawMessage(`"the end"`)})
	s.EndChild(pawl.ChildResult{Key: "chapter 0", Result: json.RawMessage(`"the beginning"`)})
	s.Next()
	fmt.Println(book(s.Context(ctx), 2))
	// Output:
	// pawl: suspended; the item goes on later
	// "the beginning" and "the end" <nil>
}

// Two waits of the same size have a failed child in common.
func TestTheNextWaitIsNotTheLast(t *testing.T) {
	s := pawltest.NewSession(pawl.Lease{Type: "book"})
	wait := func(name string, keys ...string) error {
		var ids []string
		for _, key := range keys {
			c, err := pawl.Spawn(s.Context(t.Context()), key, pawl.NewTask{Type: "chapter"})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, c.ID)
		}
		_, err := pawl.AwaitChildren(s.Context(t.Context()), name, pawl.ChildWait{IDs: ids, OnFailure: pawl.OnFailureCancel})
		return err
	}
	if err := wait("first", "a", "b"); !errors.Is(err, pawl.ErrSuspended) {
		t.Fatal(err)
	}
	s.EndChild(pawl.ChildResult{Key: "a", State: pawl.TaskFailed})
	s.Next()
	if err := wait("first", "a", "b"); err != nil {
		t.Fatal(err)
	}
	if err := wait("second", "a", "c"); !errors.Is(err, pawl.ErrSuspended) {
		t.Errorf("the second wait is over with the first: %v", err)
	}
}

// A result that a wait leaves out is read from the child. One that cannot be read is an error, and not the zero value.
func TestAResultThatIsLeftOut(t *testing.T) {
	texts := pawl.NewJob[int, string]("text")
	s := pawltest.NewSession(pawl.Lease{Type: "book"})
	wait := func(ctx context.Context, key string, ends pawl.ChildResult) (string, error) {
		ids, err := texts.SpawnAll(ctx, key, []int{1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := texts.AwaitAll(ctx, key+" ended", ids); !errors.Is(err, pawl.ErrSuspended) {
			t.Fatal(err)
		}
		ends.Key = key + "/0"
		s.EndChild(ends)
		s.Next()
		got, err := texts.AwaitAll(s.Context(t.Context()), key+" ended", ids)
		if err != nil {
			return "", err
		}
		return got[0], nil
	}
	large := `"` + strings.Repeat("x", pawl.MaxChildResult) + `"`
	if got, err := wait(s.Context(t.Context()), "large", pawl.ChildResult{Result: []byte(large)}); err != nil || len(got) != len(large)-2 {
		t.Error(len(got), err)
	}
	if got, err := wait(s.Context(t.Context()), "hidden", pawl.ChildResult{Omitted: true}); !errors.Is(err, pawl.ErrForbidden) {
		t.Errorf("a hidden result is %q: %v", got, err)
	}
	bare := pawl.WithSession(t.Context(), struct{ pawl.Session }{s}) // reads no results
	ids, err := texts.SpawnAll(bare, "large", []int{1})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := texts.AwaitAll(bare, "large ended", ids); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("a session that reads no results answers %q: %v", got, err)
	}
}

// A handler may wait several times, also for the same children. Later attempts get the results
// that the earlier waits had.
func TestEachCrashOfAHandlerThatWaitsForChildren(t *testing.T) {
	first := map[string]int{} // results of the first wait, with how many attempts got them
	sumTwice := worker.Handle("sum", func(ctx context.Context, n int) (int, error) {
		ids := make([]string, n)
		for i := range ids {
			c, err := pawl.Spawn(ctx, fmt.Sprint("child ", i+1), pawl.NewTask{Type: "double", Payload: fmt.Append(nil, i+1)})
			if err != nil {
				return 0, err
			}
			ids[i] = c.ID
		}
		some, err := pawl.AwaitChildren(ctx, "some", pawl.ChildWait{IDs: ids, Need: 2})
		if err != nil {
			return 0, err
		}
		raw, err := json.Marshal(some)
		if err != nil {
			return 0, err
		}
		first[string(raw)]++
		if _, err := pawl.AwaitChildren(ctx, "some", pawl.ChildWait{IDs: ids}); !errors.Is(err, pawl.ErrInvalid) {
			return 0, fmt.Errorf("another wait under the name: %v", err)
		}
		all, err := pawl.AwaitChildren(ctx, "all", pawl.ChildWait{IDs: ids})
		sum := 0
		for _, c := range all {
			var out int
			err = cmp.Or(err, json.Unmarshal(c.Result, &out))
			sum += out
		}
		return sum, err
	})
	pawltest.EachCrash(t, pawl.NewTask{Type: "sum", Payload: json.RawMessage(`3`)}, func(t *testing.T, p *pawltest.Pawl, it pawl.Item) {
		if it.State != pawl.ItemCompleted || string(it.Result) != "12" {
			t.Errorf("%s, %s, %+v", it.State, it.Result, it.Error)
		}
		l, err := p.Service.ListTasks(t.Context(), pawl.TaskFilter{ParentIDs: []string{it.TaskID}})
		if err != nil || len(l.Items) != 3 {
			t.Errorf("%d children, %v", len(l.Items), err)
		}
		for raw, n := range first {
			if n < 2 || strings.Count(raw, `"completed"`) != 2 {
				t.Errorf("%d attempts got %s", n, raw)
			}
		}
		clear(first)
	}, sumTwice, worker.Handle("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil }))
}
