package engine_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// titled counts the tasks with a title.
func titled(t *testing.T, svc pawl.Service, title string) (n int) {
	t.Helper()
	for _, task := range need[pawl.List[pawl.Task]](t)(svc.ListTasks(t.Context(),
		pawl.TaskFilter{Page: pawl.Page{Limit: pawl.MaxPage}})).Items {
		if task.Title == title {
			n++
		}
	}
	return n
}

// createOnce creates a task under a key. The answer is the task's id. It calls at after
// the task was created and before the answer is stored.
func createOnce(ctx context.Context, e *engine.Engine, key string, at func()) (answer string, replayed bool, err error) {
	a, replayed, err := e.Idempotent(ctx, pawl.KeyBegin{Scope: "test", Key: key, RequestHash: "h"},
		func(ctx context.Context, e pawl.Service) (*pawl.Answer, error) {
			t, err := pawl.Create(ctx, e, pawl.NewTask{Type: "a", Title: key})
			if at != nil {
				at()
			}
			return &pawl.Answer{Code: 201, Type: "text/plain", Body: []byte(t.ID)}, err
		})
	return string(a.Body), replayed, err
}

// Two engines on one database get the same calls under the same keys at once. Each call
// is carried out once, and all answers to it are the same.
func TestOneKeyAtTwoServers(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		engines := []*engine.Engine{p.Engine, p.Another(engine.Options{})}
		for round := range times(10, 500) {
			key := fmt.Sprint("k", round)
			var mu sync.Mutex
			answers := map[string]int{}
			var all sync.WaitGroup
			for n := range 8 {
				all.Go(func() {
					answer, _, err := createOnce(t.Context(), engines[n%2], key, nil)
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err == nil:
						answers[answer]++
					case !errors.Is(err, pawl.ErrKeyInFlight):
						t.Errorf("%s: %v", key, err)
					}
				})
			}
			all.Wait()
			if n := titled(t, p.Engine, key); n != 1 || len(answers) != 1 {
				t.Fatalf("%s: %d tasks, answers %v", key, n, answers)
			}
		}
	})
}

// What a refused call wrote is undone with it, and its key is free.
func TestARefusedCallLeavesNothing(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		no := errors.New("no")
		key := pawl.KeyBegin{Scope: "test", Key: "k", RequestHash: "h"}
		for _, want := range []error{no, nil} {
			a, replayed, err := p.Engine.Idempotent(t.Context(), key, func(ctx context.Context, e pawl.Service) (*pawl.Answer, error) {
				_, err := pawl.Create(ctx, e, pawl.NewTask{Type: "a", Title: "undone"})
				return nil, errors.Join(want, err)
			})
			if !errors.Is(err, want) || a.Code != 0 || replayed {
				t.Errorf("answer %+v, %v, %v", a, replayed, err)
			}
		}
		func() {
			defer func() {
				if v := recover(); v != "oh" {
					t.Errorf("panicked with %v", v)
				}
			}()
			_, _, _ = p.Engine.Idempotent(t.Context(), key, func(context.Context, pawl.Service) (*pawl.Answer, error) { panic("oh") })
		}()
		if n := titled(t, p.Engine, "undone"); n != 0 {
			t.Errorf("%d tasks of refused calls", n)
		}
		if ls := need[[]pawl.Lease](t)(p.Engine.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w"})); len(ls) != 0 {
			t.Errorf("claimed %v", ls)
		}
		if _, replayed, err := createOnce(t.Context(), p.Engine, "k", nil); replayed || err != nil {
			t.Errorf("the key is not free: %v, %v", replayed, err)
		}
	})
}

// With or without a key, a refused submission leaves the item as it was and stores the
// refusal on it. A rejected part stays as evidence, once. The key is free.
func TestWhatIsKeptOfARefusalStays(t *testing.T) {
	const parts = `{"name":"report","result_schema":{"type":"object","required":["title"]},"parts":[{"key":"head",` +
		`"schema":{"type":"string"}}],"approval":{"mode":"manual"}}`
	withType(t, parts, pawl.Hooks{}, func(o typeFixture) {
		ctx, e := o.Context(), o.Engine
		under := func(key string, run func(ctx context.Context, e pawl.Service) error) {
			o.Helper()
			for range 2 {
				_, replayed, err := e.Idempotent(ctx, pawl.KeyBegin{Scope: "test", Key: key, RequestHash: "h"},
					func(ctx context.Context, e pawl.Service) (*pawl.Answer, error) {
						_, made := pawl.Create(ctx, e, pawl.NewTask{Type: "a", Title: "undone"})
						return nil, cmp.Or(made, run(ctx, e))
					})
				if !errors.Is(err, pawl.ErrInvalid) || replayed {
					o.Errorf("%s: %v, %v", key, replayed, err)
				}
			}
		}
		_, ls := o.task(1)
		fence := ls[0].Fence()
		under("submit", func(ctx context.Context, e pawl.Service) error {
			_, err := first(e.Submit(ctx, []pawl.SubmitCall{{Fence: fence, Result: []byte(`{}`)}}))
			return err
		})
		if it := o.item(fence.ItemID, pawl.ItemLeased); it.Error == nil || it.Error.Code != "refused" {
			o.Errorf("the item's error is %+v", it.Error)
		}
		under("part", func(ctx context.Context, e pawl.Service) error {
			_, err := first(e.SubmitParts(ctx, []pawl.PartCall{{Fence: fence, Key: "head", Payload: []byte(`7`)}}))
			return err
		})
		if l := need[pawl.List[pawl.ItemPart]](o.T)(e.ListParts(ctx, pawl.PartFilter{ItemID: fence.ItemID, All: true})); len(l.Items) != 1 ||
			l.Items[0].Status != pawl.PartRejected {
			o.Errorf("the parts are %+v", l.Items)
		}
		if n := titled(o.T, e, "undone"); n != 0 {
			o.Errorf("%d tasks of refused calls", n)
		}
		if _, replayed, err := createOnce(ctx, e, "submit", nil); replayed || err != nil {
			o.Errorf("the key is not free: %v, %v", replayed, err)
		}
		// A worker whose lease ended meanwhile gets the reason of its refusal, and writes
		// nothing.
		_, ls = o.task(1)
		fence = ls[0].Fence()
		_, _, err := e.Idempotent(ctx, pawl.KeyBegin{Scope: "test", Key: "both", RequestHash: "h"},
			func(ctx context.Context, e pawl.Service) (*pawl.Answer, error) {
				_, err := first(e.Submit(ctx, []pawl.SubmitCall{{Fence: fence, Result: []byte(`{}`)}}))
				o.Advance(pawl.DefaultLeaseSeconds * time.Second)
				return nil, err
			})
		if it := o.item(fence.ItemID, pawl.ItemLeased); !errors.Is(err, pawl.ErrInvalid) || it.Error != nil {
			o.Errorf("%v; the item's error is %+v", err, it.Error)
		}
	})
}

// In a call that is one transaction, the refusal of one part undoes only that part.
func TestPartsOfAWholeCall(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		task := need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a", Payload: []byte(`1`), Dedupe: pawl.Dedupe{All: true}}))
		a, _, err := p.Engine.Idempotent(ctx, pawl.KeyBegin{Key: "k", RequestHash: "h"},
			func(ctx context.Context, e pawl.Service) (*pawl.Answer, error) {
				again := need[pawl.Task](t)(pawl.Create(ctx, e, pawl.NewTask{Type: "a", Payload: []byte(`1`), Dedupe: pawl.Dedupe{All: true}}))
				cancelled := need[[]pawl.Result[pawl.Task]](t)(
					e.CancelTasks(ctx, []pawl.TaskCall{{TaskID: "tsk_none"}, {TaskID: task.ID, ItemIDs: []string{"itm_none"}}}))
				if !again.Deduplicated || cancelled[0].Err == nil || cancelled[1].Err == nil {
					t.Errorf("%+v, %+v", again, cancelled)
				}
				if _, err := e.DeleteTasks(ctx, []pawl.TaskCall{{TaskID: task.ID}}); !errors.Is(err, pawl.ErrInvalid) {
					t.Errorf("delete: %v", err)
				}
				if _, _, err := e.(*engine.Engine).Idempotent(ctx, pawl.KeyBegin{Key: "other", RequestHash: "h"}, nil); !errors.Is(err,
					pawl.ErrInvalid) {
					t.Errorf("a whole call in another: %v", err)
				}
				l := need[[]pawl.Lease](t)(e.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", WaitSeconds: 1}))[0]
				_, err := pawl.Complete(ctx, e, l.Fence(), []byte(`"done"`))
				return &pawl.Answer{Code: 200}, err
			})
		if err != nil || a.Code != 200 {
			t.Fatalf("%+v, %v", a, err)
		}
		if got := need[pawl.Task](t)(p.Engine.GetTask(ctx, task.ID)); got.State != pawl.TaskCompleted {
			t.Errorf("the task is %s", got.State)
		}
	})
}

// A call in several transactions stores its answer again if a connection breaks, also
// when the answer was stored and the call did not learn of it.
func TestTheAnswerOfALongCallIsStoredAgain(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		e := p.Another(engine.Options{})
		lose := e.Lose()
		for _, lost := range [][2]int32{{1, 0}, {0, 1}, {1, 1}} {
			key := pawl.KeyBegin{Scope: "test", Key: fmt.Sprint(lost), RequestHash: "h"}
			for n := range 2 {
				a, replayed, err := e.IdempotentSteps(t.Context(), key, func(context.Context, pawl.Service) (*pawl.Answer, error) {
					lose(lost[0], lost[1])
					return &pawl.Answer{Code: 204}, nil
				})
				if err != nil || a.Code != 204 || replayed != (n == 1) {
					t.Errorf("%v: %+v, replayed %v, %v", lost, a, replayed, err)
				}
			}
		}
	})
}

// While a call with a key holds an item, other claims pass it. If the call is refused, the item is the first again.
func TestWhatARefusedCallClaimedComesFirst(t *testing.T) {
	p := pawltest.OpenReal(t, pawltest.Postgres)
	ctx, no := t.Context(), errors.New("no")
	for range 4 {
		need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a"}))
	}
	leases(t, p.Engine, anyOfA, 1) // this process knows the queue
	var held pawl.Lease
	_, _, err := p.Engine.Idempotent(ctx, pawl.KeyBegin{Scope: "test", Key: "k", RequestHash: "h"},
		func(ctx context.Context, e pawl.Service) (*pawl.Answer, error) {
			held = leases(t, e, anyOfA, 1)[0]
			leases(t, p.Engine, anyOfA, 1)
			return nil, no
		})
	if !errors.Is(err, no) {
		t.Fatalf("the call ended with %v", err)
	}
	if l := leases(t, p.Engine, anyOfA, 1)[0]; l.ID != held.ID {
		t.Errorf("item %s was claimed before %s", l.ID, held.ID)
	}
}
