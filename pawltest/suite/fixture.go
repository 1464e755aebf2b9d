package suite

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawl-work/pawl"
)

// fixture is a service over an empty database, with helper methods. The methods make calls
// that a test expects to succeed, and end the test if they fail.
type fixture struct {
	*testing.T
	svc       pawl.Service
	clock     Clock
	ctx       context.Context
	skipAudit bool // no audit: the test removes some of the events
}

// in returns a copy of the fixture whose calls are in another namespace.
func (w *fixture) in(namespace string) *fixture {
	other := *w
	other.ctx = pawl.As(w.ctx, pawl.Caller{Namespace: namespace})
	return &other
}

// as returns a copy of the fixture with another caller in the default namespace.
func (w *fixture) as(actorType, actorID string) *fixture {
	other := *w
	other.ctx = pawl.As(w.ctx, pawl.Caller{ActorType: actorType, ActorID: actorID})
	return &other
}

func (w *fixture) now() time.Time { return w.clock.Now() }

func (w *fixture) advance(d time.Duration) { w.clock.Advance(d) }

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func ptr[T any](v T) *T { return &v }

func (w *fixture) create(t pawl.NewTask) pawl.Task {
	w.Helper()
	task, err := pawl.Create(w.ctx, w.svc, t)
	w.ok(err, "create")
	return task
}

// oneItem creates a task of one item of type "a".
func (w *fixture) oneItem() pawl.Task {
	w.Helper()
	return w.create(pawl.NewTask{Type: "a", Payload: raw(`{"n":1}`)})
}

// manyItems creates a task of n items of type "a".
func (w *fixture) manyItems(n int) pawl.Task {
	w.Helper()
	t := pawl.NewTask{Type: "a", Payload: raw(`{"many":true}`)}
	for i := range n {
		input, _ := json.Marshal(map[string]int{"i": i})
		t.Items = append(t.Items, pawl.NewItem{Input: input})
	}
	return w.create(t)
}

func (w *fixture) task(id string) pawl.Task {
	w.Helper()
	task, err := w.svc.GetTask(w.ctx, id)
	w.ok(err, "get task")
	return task
}

func (w *fixture) item(id string) pawl.Item {
	w.Helper()
	item, err := w.svc.GetItem(w.ctx, id)
	w.ok(err, "get item")
	return item
}

// items returns a task's items, by position.
func (w *fixture) items(taskID string) []pawl.Item {
	w.Helper()
	list, err := w.svc.ListItems(w.ctx, pawl.ItemFilter{TaskID: taskID, Page: pawl.Page{Limit: 1000}})
	w.ok(err, "list items")
	slices.SortFunc(list.Items, func(a, b pawl.Item) int { return a.Position - b.Position })
	return list.Items
}

// onlyItem returns a task's only item.
func (w *fixture) onlyItem(taskID string) pawl.Item {
	w.Helper()
	all := w.items(taskID)
	if len(all) != 1 {
		w.Fatalf("task %s has %d items, want 1", taskID, len(all))
	}
	return all[0]
}

func (w *fixture) claims(req pawl.ClaimRequest) []pawl.Lease {
	w.Helper()
	leases, err := w.svc.Claim(w.ctx, req)
	w.ok(err, "claim")
	return leases
}

// claim claims one item; it fails the test if there is none.
func (w *fixture) claim(worker string) pawl.Lease {
	w.Helper()
	leases := w.claims(pawl.ClaimRequest{WorkerID: worker})
	if len(leases) != 1 {
		w.Fatalf("claim by %s took %d items, want 1", worker, len(leases))
	}
	return leases[0]
}

// claimItem claims a certain item.
func (w *fixture) claimItem(worker, itemID string) pawl.Lease {
	w.Helper()
	leases := w.claims(pawl.ClaimRequest{WorkerID: worker, ItemID: itemID})
	if len(leases) != 1 || leases[0].ID != itemID {
		w.Fatalf("claim of %s by %s took %v", itemID, worker, leases)
	}
	return leases[0]
}

// noneClaimable checks that no item is claimable.
func (w *fixture) noneClaimable() {
	w.Helper()
	if leases := w.claims(pawl.ClaimRequest{WorkerID: "nobody"}); len(leases) != 0 {
		w.Fatalf("there is something to claim: %v", leases)
	}
}

func (w *fixture) heartbeat(l pawl.Lease) pawl.Beat {
	w.Helper()
	b, err := pawl.Heartbeat(w.ctx, w.svc, l.Fence())
	w.ok(err, "heartbeat")
	return b
}

func (w *fixture) complete(l pawl.Lease, result string) pawl.Moved {
	w.Helper()
	m, err := pawl.Complete(w.ctx, w.svc, l.Fence(), raw(result))
	w.ok(err, "complete")
	return m
}

// failNow fails an attempt; if one is left, the item runs again at once.
func (w *fixture) failNow(l pawl.Lease, message string) pawl.Moved {
	w.Helper()
	m, err := pawl.Fail(w.ctx, w.svc, l.Fence(), pawl.RetryAfter(0, errors.New(message)))
	w.ok(err, "fail")
	return m
}

// failPermanently fails an attempt permanently.
func (w *fixture) failPermanently(l pawl.Lease, message string) pawl.Moved {
	w.Helper()
	m, err := pawl.Fail(w.ctx, w.svc, l.Fence(), pawl.Permanent(errors.New(message)))
	w.ok(err, "fail")
	return m
}

func (w *fixture) release(l pawl.Lease) pawl.Moved {
	w.Helper()
	m, err := pawl.Release(w.ctx, w.svc, l.Fence())
	w.ok(err, "release")
	return m
}

func (w *fixture) checkpoint(l pawl.Lease, typ, snapshot string) pawl.CheckpointRef {
	w.Helper()
	ref, err := pawl.SaveCheckpoint(w.ctx, w.svc, l.Fence(), pawl.NewCheckpoint{Type: typ, Snapshot: raw(snapshot)})
	w.ok(err, "checkpoint")
	return ref
}

func (w *fixture) sweep() pawl.SweepStats {
	w.Helper()
	stats, err := w.svc.Sweep(w.ctx)
	w.ok(err, "sweep")
	if stats.Errors != 0 {
		w.Fatalf("the sweep met %d errors", stats.Errors)
	}
	return stats
}

// expire lets a lease expire and sweeps.
func (w *fixture) expire(l pawl.Lease) pawl.SweepStats {
	w.Helper()
	w.advance(time.Duration(l.LeaseSeconds) * time.Second)
	return w.sweep()
}

// allEvents returns all events of a filter, oldest first.
func (w *fixture) allEvents(f pawl.EventFilter) []pawl.Event {
	w.Helper()
	f.Asc = true
	f.Limit = 1000
	var all []pawl.Event
	for {
		page, err := w.svc.ListEvents(w.ctx, f)
		w.ok(err, "list events")
		all = append(all, page.Items...)
		if page.Next == "" {
			return all
		}
		f.Cursor = page.Next
	}
}

// cancel cancels a task, or some items of it.
func (w *fixture) cancel(taskID string, itemIDs ...string) pawl.Task {
	w.Helper()
	task, err := first(w.svc.CancelTasks(w.ctx, []pawl.TaskCall{{TaskID: taskID, ItemIDs: itemIDs}}))
	w.ok(err, "cancel")
	return task
}

func (w *fixture) retry(taskID string, itemIDs ...string) pawl.Task {
	w.Helper()
	task, err := first(w.svc.RetryTasks(w.ctx, []pawl.TaskCall{{TaskID: taskID, ItemIDs: itemIDs}}))
	w.ok(err, "retry")
	return task
}

func (w *fixture) bury(taskID string, itemIDs ...string) pawl.Task {
	w.Helper()
	task, err := first(w.svc.BuryTasks(w.ctx, []pawl.TaskCall{{TaskID: taskID, ItemIDs: itemIDs}}))
	w.ok(err, "bury")
	return task
}

// first returns the answer to a batch of one.
func first[T any](rs []pawl.Result[T], err error) (T, error) {
	var zero T
	if err != nil {
		return zero, err
	}
	if len(rs) != 1 {
		return zero, errors.New("a batch of one was not answered once")
	}
	return rs[0].Value, rs[0].Err
}

func (w *fixture) ok(err error, doing string) {
	w.Helper()
	if err != nil {
		w.Fatalf("%s: %v", doing, err)
	}
}

// refused checks that an error has this code.
func (w *fixture) refused(err error, code pawl.Code) *pawl.Error {
	w.Helper()
	var e *pawl.Error
	if !errors.As(err, &e) || e.Code != code {
		w.Fatalf("error is %v, want %s", err, code)
	}
	return e
}

// invalid checks that the field at a JSON Pointer, or a field in it, was refused as invalid.
func (w *fixture) invalid(err error, pointer string) {
	w.Helper()
	e := w.refused(err, pawl.CodeInvalid)
	for _, f := range e.Fields {
		if (f.Pointer == pointer || strings.HasPrefix(f.Pointer, pointer+"/")) && f.Message != "" {
			return
		}
	}
	w.Fatalf("%v names no field %s", err, pointer)
}

// conflict checks that an error is a conflict about a state, with the verbs that the state
// allows.
func (w *fixture) conflict(err error, state string, allowed ...string) {
	w.Helper()
	e := w.refused(err, pawl.CodeConflict)
	if e.State != state {
		w.Fatalf("%v: state is %q, want %q", err, e.State, state)
	}
	if e.Allowed == nil {
		w.Fatalf("%v: allowed was left out", err)
	}
	if !slices.Equal(e.Allowed, allowed) {
		w.Fatalf("%v: allowed are %q, want %q", err, e.Allowed, allowed)
	}
}

// leaseLost checks that an error is lease_lost with all its members.
func (w *fixture) leaseLost(err error, reason, state, holder string, attempt int) {
	w.Helper()
	e := w.refused(err, pawl.CodeLeaseLost)
	got := [4]any{e.Reason, e.State, e.Holder, e.Attempt}
	want := [4]any{reason, state, holder, attempt}
	if got != want {
		w.Fatalf("lease_lost carries (reason, state, holder, attempt) = %q, want %q", got, want)
	}
	if !errors.Is(err, pawl.ErrLeaseLost) {
		w.Fatalf("%v does not match ErrLeaseLost", err)
	}
}

// same compares two values: times by instant, raw JSON by its bytes.
func (w *fixture) same(got, want any, what string) {
	w.Helper()
	if reflect.DeepEqual(want, got) { // of thousands of rows, a diff takes a second
		return
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		w.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func (w *fixture) atLeast(got, want int64, what string) {
	w.Helper()
	if got < want {
		w.Fatalf("%s: %d, want %d or more", what, got, want)
	}
}

// timeIs checks that a time is set and is this one.
func (w *fixture) timeIs(got *time.Time, want time.Time, what string) {
	w.Helper()
	if got == nil || !got.Equal(want) {
		w.Fatalf("%s is %v, want %v", what, got, want)
	}
}
