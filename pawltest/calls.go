package pawltest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/pawl-work/pawl"
)

// Calls makes calls of a service that a test expects to succeed. One that fails ends the test. A Pawl
// has the methods too.
type Calls struct {
	t   testing.TB
	svc pawl.Service
	ctx context.Context
}

// NewCalls returns the calls of a test to any service, such as the client of a server.
func NewCalls(t testing.TB, svc pawl.Service) *Calls { return &Calls{t, svc, t.Context()} }

// As returns the calls of another caller, or in another namespace.
func (c *Calls) As(who pawl.Caller) *Calls {
	out := *c
	out.ctx = pawl.As(c.ctx, who)
	return &out
}

// OK ends the test if there is an error.
func (c *Calls) OK(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// Create creates a task.
func (c *Calls) Create(n pawl.NewTask) pawl.Task {
	c.t.Helper()
	return Must[pawl.Task](c.t)(pawl.Create(c.ctx, c.svc, n))
}

// Claim claims one item, of these types if there are any, for the worker "w".
func (c *Calls) Claim(types ...string) pawl.Lease {
	c.t.Helper()
	return c.ClaimN(1, pawl.ClaimRequest{WorkerID: "w", Types: types})[0]
}

// ClaimN claims n items, of the kind that the request describes; 0 = the test ends if there is one.
func (c *Calls) ClaimN(n int, req pawl.ClaimRequest) (all []pawl.Lease) {
	c.t.Helper()
	if n == 0 {
		if some := Must[[]pawl.Lease](c.t)(c.svc.Claim(c.ctx, req)); len(some) > 0 {
			c.t.Fatalf("there were %d items to claim, want none", len(some))
		}
	}
	for len(all) < n {
		req.Limit = min(n-len(all), pawl.MaxClaim)
		some := Must[[]pawl.Lease](c.t)(c.svc.Claim(c.ctx, req))
		if len(some) == 0 {
			c.t.Fatalf("there were %d items to claim, want %d", len(all), n)
		}
		all = append(all, some...)
	}
	return all
}

// Complete completes an item with a JSON text; "" = no result.
func (c *Calls) Complete(l pawl.Lease, result string) pawl.Moved {
	c.t.Helper()
	var value json.RawMessage
	if result != "" {
		value = json.RawMessage(result)
	}
	return Must[pawl.Moved](c.t)(pawl.Complete(c.ctx, c.svc, l.Fence(), value))
}

// FailWith fails an attempt; see pawl.Fail.
func (c *Calls) FailWith(l pawl.Lease, err error) pawl.Moved {
	c.t.Helper()
	return Must[pawl.Moved](c.t)(pawl.Fail(c.ctx, c.svc, l.Fence(), err))
}

// Cancel cancels a task.
func (c *Calls) Cancel(taskID string) pawl.Task {
	c.t.Helper()
	return Must[pawl.Task](c.t)(pawl.Cancel(c.ctx, c.svc, taskID, ""))
}

// Task returns a task as it is now.
func (c *Calls) Task(id string) pawl.Task {
	c.t.Helper()
	return Must[pawl.Task](c.t)(c.svc.GetTask(c.ctx, id))
}

// Item returns an item as it is now.
func (c *Calls) Item(id string) pawl.Item {
	c.t.Helper()
	return Must[pawl.Item](c.t)(c.svc.GetItem(c.ctx, id))
}

// Items returns the items of a task, by position.
func (c *Calls) Items(taskID string) []pawl.Item {
	c.t.Helper()
	list := Must[pawl.List[pawl.Item]](c.t)(c.svc.ListItems(c.ctx, pawl.ItemFilter{TaskID: taskID, Page: pawl.Page{Limit: pawl.MaxPage}}))
	slices.SortFunc(list.Items, func(a, b pawl.Item) int { return a.Position - b.Position })
	return list.Items
}

// Must ends the test if a call fails, and returns its answer otherwise:
//
//	task := pawltest.Must[pawl.Task](t)(svc.GetTask(ctx, id))
func Must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// First returns the answer to a batch of one call.
func First[T any](rs []pawl.Result[T], err error) (one T, _ error) {
	switch {
	case err != nil:
		return one, err
	case len(rs) != 1:
		return one, errors.New("a batch of one was not answered once")
	}
	return rs[0].Value, rs[0].Err
}
