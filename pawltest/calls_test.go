package pawltest_test

import (
	"errors"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// Calls make what they say, as the caller that they are of, and end the test if they cannot.
func TestCalls(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		task := p.Create(pawl.NewTask{Type: "pay", Items: make([]pawl.NewItem, 2)})
		p.FailWith(p.Claim("pay"), pawl.RetryAfter(0, errors.New("no answer")))
		for _, l := range p.ClaimN(2, pawl.ClaimRequest{WorkerID: "v"}) {
			p.Complete(l, `{"paid":true}`)
		}
		attempts := 0
		for i, it := range p.Items(task.ID) {
			if attempts += it.Attempt; it.Position != i || it.State != pawl.ItemCompleted || p.Item(it.ID).State != it.State {
				t.Errorf("%+v", it)
			}
		}
		if attempts != 3 || p.Task(task.ID).State != pawl.TaskCompleted {
			t.Errorf("%d attempts, %+v", attempts, p.Task(task.ID))
		}
		other := p.As(pawl.Caller{Namespace: "other"})
		theirs := other.Create(pawl.NewTask{Type: "pay"})
		if other.Cancel(theirs.ID).State != pawl.TaskCancelled {
			t.Error("the task is not cancelled")
		}
		if _, err := p.Service.GetTask(t.Context(), theirs.ID); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("a task of another namespace: %v", err)
		}
		if _, err := pawltest.First([]pawl.Result[int]{{}, {}}, nil); err == nil {
			t.Error("two answers to a batch of one")
		}
		ends := func(claim func(c *pawltest.Calls)) (ended bool) {
			failed := &failing{TB: t}
			defer func() { _, ended = recover(), failed.failed }()
			claim(pawltest.NewCalls(failed, p.Service))
			return
		}
		none := func(c *pawltest.Calls) { c.ClaimN(0, pawl.ClaimRequest{WorkerID: "w"}) }
		if none(p.Calls); !ends(func(c *pawltest.Calls) { c.Claim() }) {
			t.Error("nothing to claim did not end the test")
		}
		if p.Create(pawl.NewTask{Type: "pay"}); !ends(none) {
			t.Error("an item that was not expected did not end the test")
		}
	})
}

// failing is a test that may fail.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Fatalf(string, ...any) { f.failed = true; panic("the test has ended") }
