package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	callasked "github.com/pawl-work/pawl/internal/asked"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// large creates a task of more rows than one transaction copies. Its items have keys, dependencies,
// types and priorities; some never run. It has a checkpoint of the task for every two items, and one of the last item.
func large(t *testing.T, p *pawltest.Pawl, items int) pawl.Task {
	t.Helper()
	task := pawl.NewTask{Type: "a", Title: "large", Payload: json.RawMessage(`{"a":1}`), Items: make([]pawl.NewItem, items)}
	for i := range task.Items {
		n := &task.Items[i]
		*n = pawl.NewItem{Input: fmt.Appendf(nil, `{"n":%d}`, i), MaxAttempts: 1 + i%3}
		if i%5 == 0 {
			n.Key = fmt.Sprint("k", i)
		}
		switch {
		case i%7 == 3:
			priority := i % 4
			n.Priority = &priority
		case i%11 == 3:
			n.Type = "b"
		case i%13 == 3:
			n.RunAt = &pawl.Never
		case i%17 == 3 && i < items-10: // also of another part
			n.After = []string{"k0", fmt.Sprint("k", (items-1)/5*5)}
		}
	}
	of := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, task))
	for done := 0; done < items/2; {
		c := pawl.CheckpointAppend{TaskID: of.ID}
		for ; len(c.Checkpoints) < 1000 && done < items/2; done++ {
			c.Checkpoints = append(c.Checkpoints, pawl.AppendedCheckpoint{NewCheckpoint: pawl.NewCheckpoint{
				Type: pawl.CustomCheckpoint, Name: fmt.Sprint("c", done),
				Snapshot: fmt.Appendf(nil, `{"c":%d,"t":%q}`, done, strings.Repeat("x", done%3*3000))}})
		}
		need[pawl.CheckpointsAppended](t)(first(p.Engine.AppendCheckpoints(t.Context(), []pawl.CheckpointAppend{c})))
	}
	l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", TaskID: of.ID}, 1)[0]
	saved(t, p.Engine, l, "state", []byte(`{"of":"an item"}`))
	return of
}

var anItem = regexp.MustCompile(`itm_[0-9A-Z]+`)

// contents returns all items and checkpoints of a task. The ids of items are their positions.
func contents(t *testing.T, p *pawltest.Pawl, taskID string) (items []pawl.Item, checkpoints []pawl.Checkpoint) {
	t.Helper()
	place := map[string]string{}
	for f := (pawl.ItemFilter{TaskID: taskID, Page: pawl.Page{Limit: 1000}}); ; {
		list := need[pawl.List[pawl.Item]](t)(p.Engine.ListItems(t.Context(), f))
		for _, it := range list.Items {
			place[it.ID] = fmt.Sprint(it.Position)
			it.ID = place[it.ID]
			if it.BlockedBy != nil {
				it.BlockedBy.Detail = anItem.ReplaceAllString(it.BlockedBy.Detail, "itm")
			}
			items = append(items, it)
		}
		if f.Cursor = list.Next; f.Cursor == "" {
			break
		}
	}
	for f := (pawl.CheckpointFilter{TaskID: taskID, Page: pawl.Page{Limit: 1000}}); ; {
		list := need[pawl.List[pawl.Checkpoint]](t)(p.Engine.ListCheckpoints(t.Context(), f))
		for _, c := range list.Items {
			c.ItemID = place[c.ItemID]
			checkpoints = append(checkpoints, c)
		}
		if f.Cursor = list.Next; f.Cursor == "" {
			return items, checkpoints
		}
	}
}

// asLines returns each value as JSON.
func asLines[T any](values []T) []string {
	out := make([]string, len(values))
	for i := range values {
		b, _ := json.Marshal(values[i]) // answers always encode
		out[i] = string(b)
	}
	return out
}

// sameCopies compares two copies of a task, and their records.
func sameCopies(t *testing.T, p *pawltest.Pawl, a, b pawl.Task) {
	t.Helper()
	wantItems, wantCheckpoints := contents(t, p, a.ID)
	items, checkpoints := contents(t, p, b.ID)
	if len(items) != len(wantItems) || len(checkpoints) != len(wantCheckpoints) || len(items) == 0 {
		t.Fatalf("%d of %d items, %d of %d checkpoints", len(items), len(wantItems), len(checkpoints), len(wantCheckpoints))
	}
	for i := range items {
		items[i].TaskID, items[i].CreatedAt, items[i].UpdatedAt = a.ID, wantItems[i].CreatedAt, wantItems[i].UpdatedAt
	}
	for i := range checkpoints {
		checkpoints[i].ID, checkpoints[i].TaskID = wantCheckpoints[i].ID, a.ID
	}
	if want, got := asLines(wantItems), asLines(items); !slices.Equal(want, got) {
		t.Errorf("items (-at once +in parts):\n%.2000s", cmp.Diff(want[:50], got[:50]))
	}
	if want, got := asLines(wantCheckpoints), asLines(checkpoints); !slices.Equal(want, got) {
		t.Errorf("checkpoints (-at once +in parts):\n%.2000s", cmp.Diff(want[:50], got[:50]))
	}
	ignoreTask := cmpopts.IgnoreFields(pawl.Task{}, "ID", "CreatedAt", "UpdatedAt", "LastTransitionedAt")
	was, is := need[pawl.Task](t)(p.Engine.GetTask(t.Context(), a.ID)), need[pawl.Task](t)(p.Engine.GetTask(t.Context(), b.ID))
	if diff := cmp.Diff(was, is, ignoreTask); diff != "" {
		t.Errorf("task (-at once +in parts):\n%s", diff)
	}
}

// A large task is copied in parts, and the copy is what a copy at once would be. Both count for the
// caller's rate. A batch that would make too many rows is refused as a whole.
func TestALargeTaskIsCopied(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		e := p.Engine
		of := large(t, p, 2_050)
		rows := 0
		ctx := callasked.With(t.Context(), callasked.Rows, func(n int) { rows += n })
		pair := []pawl.TaskClone{{TaskID: of.ID, Checkpoints: true}, {TaskID: of.ID}}
		atOnce := need[[]pawl.Result[pawl.Task]](t)(e.CloneTasks(ctx, pair))
		want := rows
		for i, call := range pair {
			if atOnce[i].Err != nil {
				t.Fatal(atOnce[i].Err)
			}
			sameCopies(t, p, atOnce[i].Value, need[pawl.Task](t)(first(e.CloneTasks(ctx, []pawl.TaskClone{call}))))
		}
		if rows != 2*want || want != 2*2_050+1_026-2 {
			t.Errorf("%d rows counted, and %d of copies at once", rows-want, want)
		}
		calls := []pawl.TaskFork{{TaskID: of.ID, Checkpoint: 1_000}, {TaskID: of.ID, Checkpoint: 1_000}}
		forks := need[[]pawl.Result[pawl.Task]](t)(e.ForkTasks(ctx, calls))
		sameCopies(t, p, forks[0].Value, need[pawl.Task](t)(first(e.ForkTasks(ctx, calls[:1]))))
		if _, err := e.ForkTasks(ctx, []pawl.TaskFork{{TaskID: of.ID, Checkpoint: 99_999}}); err != nil {
			t.Fatal(err)
		}
		_, err := first(e.ForkTasks(ctx, []pawl.TaskFork{{TaskID: of.ID, Checkpoint: 99_999}}))
		if pawl.CodeOf(err) != pawl.CodeNotFound {
			t.Errorf("a checkpoint that is not there: %v", err)
		}
		many := make([]pawl.TaskClone, pawl.MaxCopyRows/2_050+2)
		for i := range many {
			many[i].TaskID = of.ID
		}
		before := need[pawl.Stats](t)(e.Stats(ctx))
		if _, err := e.CloneTasks(ctx, many); pawl.CodeOf(err) != pawl.CodeTooLarge {
			t.Errorf("a batch of too many rows: %v", err)
		}
		if after := need[pawl.Stats](t)(e.Stats(ctx)); after.Events != before.Events {
			t.Errorf("the batch left %d events", after.Events-before.Events)
		}
	})
}

// A copy under an idempotency key is made once, and one in the caller's own transaction at once.
func TestALargeTaskIsCopiedOnceForItsKey(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		of := large(t, p, 2_050)
		var ids []string
		for i := range 2 {
			answer, replayed, err := p.Engine.Idempotent(t.Context(), pawl.KeyBegin{Scope: "POST x", Key: "k", RequestHash: "h"},
				func(ctx context.Context, svc pawl.Service) (*pawl.Answer, error) {
					made, err := first(svc.CloneTasks(ctx, []pawl.TaskClone{{TaskID: of.ID}}))
					return &pawl.Answer{Code: 201, Type: "text/plain", Body: []byte(made.ID)}, err
				})
			if err != nil || replayed != (i == 1) {
				t.Fatal(replayed, err)
			}
			ids = append(ids, string(answer.Body))
		}
		if ids[0] != ids[1] {
			t.Errorf("two copies: %v", ids)
		}
		if items, _ := contents(t, p, ids[0]); len(items) != 2_050 {
			t.Errorf("%d items", len(items))
		}
		tx := beginOwn(t, p)
		in := need[pawl.Task](t)(first(tx.CloneTasks(t.Context(), []pawl.TaskClone{{TaskID: of.ID}})))
		tx.commit()
		if items, _ := contents(t, p, in.ID); len(items) != 2_050 {
			t.Errorf("in a transaction: %d items", len(items))
		}
	})
}

// A copy under an idempotency key that is not made, because another task has its key, leaves no row: they are removed
// when its transaction has ended, which on SQLite keeps all others from writing.
func TestAKeyedCopyThatIsNotMadeLeavesNothing(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		of := large(t, p, 2_050)
		clone := func(key, onConflict string) (answer pawl.Answer, err error) {
			answer, _, err = p.Engine.Idempotent(t.Context(), pawl.KeyBegin{Scope: "POST x", Key: key, RequestHash: "h"},
				func(ctx context.Context, svc pawl.Service) (*pawl.Answer, error) {
					made, err := first(svc.CloneTasks(ctx, []pawl.TaskClone{{TaskID: of.ID, Checkpoints: true,
						Unique: &pawl.Unique{By: pawl.UniqueByKey, Key: "u", OnConflict: onConflict}}}))
					return &pawl.Answer{Code: 201, Type: "text/plain", Body: []byte(made.ID)}, err
				})
			return answer, err
		}
		made := need[pawl.Answer](t)(clone("k1", pawl.OnConflictReturn))
		again := need[pawl.Answer](t)(clone("k2", pawl.OnConflictReturn))
		if string(made.Body) != string(again.Body) {
			t.Errorf("two copies: %s %s", made.Body, again.Body)
		}
		if n := stagedRows(t, p); n > 0 {
			t.Errorf("%d rows are left of the second copy", n)
		}
		if _, err := clone("k3", pawl.OnConflictReject); !errors.Is(err, pawl.ErrConflict) {
			t.Errorf("the third copy: %v", err)
		}
		if n := stagedRows(t, p); n > 0 {
			t.Errorf("%d rows are left of the third copy", n)
		}
	})
}

// stagedRows counts the rows that belong to no task.
func stagedRows(t *testing.T, p *pawltest.Pawl) (n int) {
	t.Helper()
	err := p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) error {
		_, err := store.Row(ctx, tx, []any{&n}, `SELECT
			(SELECT COUNT(*) FROM pawl.items i WHERE NOT EXISTS (SELECT 1 FROM pawl.tasks t WHERE t.id = i.task_id))
			+ (SELECT COUNT(*) FROM pawl.checkpoints c WHERE NOT EXISTS (SELECT 1 FROM pawl.tasks t WHERE t.id = c.task_id))
			+ (SELECT COUNT(*) FROM pawl.item_deps d WHERE NOT EXISTS (SELECT 1 FROM pawl.items i WHERE i.id = d.item_id))
			+ (SELECT COUNT(*) FROM pawl.idempotency_keys k WHERE k.scope = 'pawl.copy')`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Nothing of a copy is seen or claimed before its task is there. What a process leaves that dies
// meanwhile is no fault, and is removed by a sweep.
func TestACopyIsSeenWithItsTask(t *testing.T) {
	for _, at := range []string{"INSERT INTO pawl.item_deps", "INSERT INTO pawl.checkpoints", "INSERT INTO pawl.task_events"} {
		t.Run(at, func(t *testing.T) {
			pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
				of := large(t, p, 2_050)
				f := pawl.ItemFilter{Page: pawl.Page{Limit: 1000, Cursor: ""}}
				count := func() (n int) {
					for f.Cursor = ""; ; {
						list := need[pawl.List[pawl.Item]](t)(p.Engine.ListItems(t.Context(), f))
						if n += len(list.Items); list.Next == "" {
							return n
						}
						f.Cursor = list.Next
					}
				}
				var dies atomic.Bool
				e := p.Another(engine.Options{Statement: func(query string) {
					if dies.Load() && strings.HasPrefix(query, at) {
						runtime.Goexit()
					}
				}})
				dies.Store(true)
				gone := make(chan struct{})
				var answered error
				go func() {
					defer close(gone)
					rs, err := e.CloneTasks(t.Context(), []pawl.TaskClone{{TaskID: of.ID, Checkpoints: true}})
					for _, r := range rs {
						err = errors.Join(err, r.Err)
					}
					answered = errors.Join(err, errors.New("and the process did not die"))
				}()
				<-gone
				if n := stagedRows(t, p); n < 1000 || answered != nil {
					t.Fatalf("%d rows were written; the clone answered %v", n, answered)
				}
				if n := count(); n != 2_050 {
					t.Errorf("%d items are listed", n)
				}
				for _, c := range need[pawl.List[pawl.Checkpoint]](t)(p.Engine.ListCheckpoints(t.Context(), pawl.CheckpointFilter{
					Desc: true})).Items {
					if c.TaskID != of.ID {
						t.Fatalf("a checkpoint of %s is listed", c.TaskID)
					}
				}
				if tasks := need[pawl.List[pawl.Task]](t)(p.Engine.ListTasks(t.Context(), pawl.TaskFilter{})); len(tasks.Items) != 1 {
					t.Errorf("%d tasks", len(tasks.Items))
				}
				if breaches := need[[]engine.Breach](t)(p.Engine.Check(t.Context())); len(breaches) > 0 {
					t.Errorf("%+v", breaches[0])
				}
				need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
				if n := stagedRows(t, p); n < 1000 {
					t.Errorf("a sweep has removed the rows of a copy that may go on: %d are left", n)
				}
				p.Advance(time.Minute)
				need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
				if n := stagedRows(t, p); n > 0 {
					t.Errorf("%d rows are left", n)
				}
			})
		})
	}
}

// A copy whose rows a sweep has removed is refused, and so is that of a task which is removed
// meanwhile. Neither leaves a row.
func TestACopyThatIsOvertakenIsRefused(t *testing.T) {
	for name, meanwhile := range map[string]func(t *testing.T, p *pawltest.Pawl, of string){
		"too slow": func(t *testing.T, p *pawltest.Pawl, _ string) {
			p.Advance(time.Minute)
			need[pawl.SweepStats](t)(p.Engine.Sweep(context.WithoutCancel(t.Context())))
		},
		"deleted": func(t *testing.T, p *pawltest.Pawl, of string) {
			rs := need[[]pawl.Result[string]](t)(p.Engine.DeleteTasks(t.Context(), []pawl.TaskCall{{TaskID: of, Force: true}}))
			if rs[0].Err != nil {
				t.Error(rs[0].Err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
				of := large(t, p, 2_600).ID
				reads := 0
				e := p.Another(engine.Options{Statement: func(query string) {
					if strings.HasPrefix(query, "SELECT w.id, w.position, octet_length") {
						if reads++; reads == 2 {
							meanwhile(t, p, of)
						}
					}
				}})
				_, err := first(e.CloneTasks(t.Context(), []pawl.TaskClone{{TaskID: of}}))
				if code := pawl.CodeOf(err); code != pawl.CodeUnavailable && code != pawl.CodeNotFound {
					t.Errorf("%v", err)
				}
				if n := stagedRows(t, p); n > 0 {
					t.Errorf("%d rows are left", n)
				}
			})
		})
	}
}

// A copy with checkpoints has those that were there when it began, or is refused.
func TestACopyBesideAPruneIsRefused(t *testing.T) {
	for name, change := range map[string]func(context.Context, *engine.Engine, string) error{
		"pruned": func(ctx context.Context, e *engine.Engine, of string) error {
			_, err := first(e.PruneCheckpoints(ctx, []pawl.CheckpointPrune{{TaskID: of, Rules: []pawl.PruneRule{{Prefix: "c", Keep: 300}}}}))
			return err
		},
		"replaced": func(ctx context.Context, e *engine.Engine, of string) error {
			again := pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Name: "c1299", Snapshot: json.RawMessage(`1`)}
			_, err := first(e.AppendCheckpoints(ctx, []pawl.CheckpointAppend{{TaskID: of,
				Checkpoints: []pawl.AppendedCheckpoint{{OnConflict: pawl.OnConflictReplace, NewCheckpoint: again}}}}))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
				of := large(t, p, 2_600).ID
				var once sync.Once
				e := p.Another(engine.Options{Statement: func(query string) {
					if strings.Contains(query, "c.snapshot") && strings.Contains(query, "ORDER BY c.seq DESC") {
						once.Do(func() { ok(t, change(context.WithoutCancel(t.Context()), p.Engine, of)) })
					}
				}})
				_, err := first(e.CloneTasks(t.Context(), []pawl.TaskClone{{TaskID: of, Checkpoints: true}}))
				if code := pawl.CodeOf(err); code != pawl.CodeUnavailable {
					t.Errorf("%v", err)
				}
				if n := stagedRows(t, p); n > 0 {
					t.Errorf("%d rows are left", n)
				}
			})
		})
	}
}

// An answer that is large, and a task with large items, are copied in parts too.
func TestATaskOfLargeItemsIsCopied(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		of := heavy(t, p, 20)
		more := make([]pawl.NewItem, 20)
		for i := range more {
			more[i].Input = megabyte(20 + i)
		}
		need[pawl.Task](t)(first(p.Engine.AddItems(t.Context(), []pawl.AddItems{{TaskID: of.ID, Items: more}})))
		made := need[pawl.Task](t)(first(p.Engine.CloneTasks(t.Context(), []pawl.TaskClone{{TaskID: of.ID}})))
		items, _ := contents(t, p, made.ID)
		was, _ := contents(t, p, of.ID)
		for i := range items {
			if !bytes.Equal(items[i].Input, was[i].Input) {
				t.Errorf("item %d differs", i)
			}
		}
		if len(items) != 40 {
			t.Errorf("%d items", len(items))
		}
		tx := beginOwn(t, p)
		if _, err := first(tx.CloneTasks(t.Context(), []pawl.TaskClone{{TaskID: of.ID}})); pawl.CodeOf(err) != pawl.CodeTooLarge {
			t.Errorf("in a transaction: %v", err)
		}
		tx.rollback()
	})
}
