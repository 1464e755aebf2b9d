package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

type testRow struct{ id, ord int }

// gathered calls a group committer with rows 0…6 at once. Calls 5 and 6 block both
// flushes until 0…4 wait, so that those are one group.
func gathered(t *testing.T, run func(ctx context.Context, ids []int) error) (errs [7]error, told int) {
	t.Helper()
	hold, held := make(chan struct{}), make(chan struct{}, maxFlushes)
	l := New(Options[testRow, testRow]{
		Ord:      func(r *testRow) *int { return &r.ord },
		RowOf:    func(r *testRow) *int { return &r.ord },
		Panicked: func(context.Context, Panic) { told++ },
		Execute: func(ctx context.Context, rows []testRow) ([]testRow, error) {
			var ids []int
			for _, r := range rows {
				ids = append(ids, r.id)
			}
			if ids[0] >= 5 {
				held <- struct{}{}
				<-hold
				return rows, nil
			}
			return rows, run(ctx, ids)
		},
	})
	var calls sync.WaitGroup
	call := func(id int) {
		ctx := pawl.As(context.Background(), pawl.Caller{Namespace: namespaceOf(id)})
		calls.Go(func() { _, errs[id] = l.Do(ctx, nil, []testRow{{id: id}}) })
	}
	for id := range maxFlushes {
		call(5 + id)
		<-held
	}
	for id := range 5 {
		call(id)
	}
	for waiting := 0; waiting < 5; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		waiting = len(l.waiting)
		l.mu.Unlock()
	}
	close(hold)
	calls.Wait()
	l.flushes.Wait()
	if _, err := l.Do(context.Background(), nil, []testRow{{id: 4}}); err != nil && errs[4] == nil {
		t.Errorf("a later call: %v", err)
	}
	return errs, told
}

// A statement whose answer could not be read may have been carried out. It is not run
// again, whatever the error's code.
func TestAnUnknownOutcomeIsNotRunAgain(t *testing.T) {
	var mu sync.Mutex
	wrote := map[int]int{}
	errs, _ := gathered(t, func(_ context.Context, ids []int) error {
		mu.Lock()
		defer mu.Unlock()
		for _, id := range ids {
			wrote[id]++
		}
		if len(ids) > 1 || wrote[ids[0]] > 1 {
			return &pawl.Error{Code: pawl.CodeInternal, Err: errors.New("an answer that cannot be read")}
		}
		return nil
	})
	for id := range 4 { // 4 is called once more at the end
		if wrote[id] != 1 || errs[id] == nil {
			t.Errorf("call %d was written %d times and answered with %v", id, wrote[id], errs[id])
		}
	}
}

// A statement that the database refuses runs again in halves: only the call that caused
// the error gets it.
func TestARefusedGroupIsRunInHalves(t *testing.T) {
	errs, _ := gathered(t, func(_ context.Context, ids []int) error {
		if slices.Contains(ids, 3) {
			return &pawl.Error{Code: pawl.CodeInternal, Err: store.Undone{Err: errors.New("refused")}}
		}
		return nil
	})
	for id, err := range errs {
		if (err != nil) != (id == 3) {
			t.Errorf("call %d: %v", id, err)
		}
	}
}

// A namespace that was moved away is refused for its own callers alone.
func TestACallOfAGroupIsRefusedForItsOwnCaller(t *testing.T) {
	errs, _ := gathered(t, func(ctx context.Context, ids []int) error {
		if pawl.CallerOf(ctx).Namespace == namespaceOf(3) {
			return &pawl.Error{Code: pawl.CodeMoved}
		}
		if slices.Contains(ids, 3) { // the database looks at the rows, and not at the caller
			return store.ErrFenced
		}
		return nil
	})
	for id, err := range errs {
		if errors.Is(err, pawl.ErrMoved) != (id == 3) || id != 3 && err != nil {
			t.Errorf("call %d: %v", id, err)
		}
	}
}

func namespaceOf(id int) string { return fmt.Sprint("ns", id) }

// A panic is an error of its group. The process and the group committer go on.
func TestAPanicEndsItsGroupOnly(t *testing.T) {
	errs, told := gathered(t, func(_ context.Context, ids []int) error {
		if len(ids) > 1 {
			panic("no")
		}
		return nil
	})
	for id := range 5 {
		if pawl.CodeOf(errs[id]) != pawl.CodeInternal {
			t.Errorf("call %d: %v", id, errs[id])
		}
	}
	if errs[5] != nil || errs[6] != nil || told != 1 {
		t.Errorf("the others: %v, %v; told %d times", errs[5], errs[6], told)
	}
}

// A call to a store that groups calls itself runs with its caller's context, in the order
// of its items. Its panic is an error of that call.
func TestAnUngroupedCall(t *testing.T) {
	told := 0
	c := New(Options[testRow, testRow]{
		Item:      func(r *testRow) string { return string(rune('a' + r.id)) },
		Panicked:  func(context.Context, Panic) { told++ },
		Ungrouped: true,
		Execute: func(ctx context.Context, rows []testRow) ([]testRow, error) {
			if rows[0].id == 0 {
				panic("no")
			}
			return rows, ctx.Err()
		},
	})
	if _, err := c.Do(t.Context(), nil, []testRow{{id: 1}, {id: 0}}); pawl.CodeOf(err) != pawl.CodeInternal || told != 1 {
		t.Errorf("a panic: %v, told %d times", err, told)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Do(gone, nil, []testRow{{id: 1}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if out, err := c.Do(t.Context(), nil, []testRow{{id: 2}, {id: 1}}); err != nil || out[0].id != 1 {
		t.Errorf("afterwards: %v, %v", out, err)
	}
	c.flushes.Wait()
}

// caller is a caller's transaction. It notes which of its methods runs a verb.
type caller struct {
	store.DB
	ran string
}

func (d *caller) Auto(ctx context.Context, fn func(context.Context, store.Tx) error) error {
	d.ran = "auto"
	return fn(ctx, nil)
}

func (d *caller) Do(ctx context.Context, fn func(context.Context, store.Tx) error) error {
	d.ran = "do"
	return fn(ctx, nil)
}

// A call in a caller's transaction runs there at once, in the order of its items. Its panic
// is the caller's.
func TestACallInATransaction(t *testing.T) {
	for want, cold := range map[string]bool{"auto": false, "do": true} {
		c := New(Options[testRow, testRow]{
			Item:     func(r *testRow) string { return string(rune('a' + r.id)) },
			Panicked: func(context.Context, Panic) { t.Error("the panic was reported") },
			Cold:     cold,
			Verb: func(ctx context.Context, tx store.Tx, rows []testRow) ([]testRow, error) {
				if _, limited := ctx.Deadline(); !limited {
					t.Error("the call has no time limit")
				}
				if rows[0].id == 0 {
					panic("no")
				}
				return rows, nil
			},
		})
		d := &caller{}
		if out, err := c.Do(t.Context(), d, []testRow{{id: 2}, {id: 1}}); err != nil || out[0].id != 1 || d.ran != want {
			t.Errorf("%s: %v, %v, in %s", want, out, err, d.ran)
		}
		func() {
			defer func() {
				if recover() != "no" {
					t.Errorf("%s: the panic did not reach the caller", want)
				}
			}()
			_, _ = c.Do(t.Context(), d, []testRow{{id: 0}})
		}()
	}
}

// The bytes of a group's rows are limited too. A larger call has its own group.
func TestGroupsAreBoundedByBytes(t *testing.T) {
	l := New(Options[testRow, testRow]{Bytes: func(r *testRow) int { return r.id << 20 }})
	for _, mib := range []int{3, 4, 2, 9, 1} {
		l.waiting = append(l.waiting, &request[testRow, testRow]{rows: []testRow{{id: mib}}})
	}
	var got [][]int
	for len(l.waiting) > 0 {
		var group []int
		for _, t := range l.nextBatch() {
			group = append(group, t.rows[0].id)
		}
		got = append(got, group)
	}
	if want := [][]int{{3, 4, 1}, {2}, {9}}; !slices.EqualFunc(got, want, slices.Equal[[]int]) {
		t.Errorf("groups of %v MiB, want %v", got, want)
	}
}
