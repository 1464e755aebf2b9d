package engine_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// An item that a verb returns on request equals what the next read returns.
func TestVerbsAnswerWithTheItem(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		e, ctx := p.Engine, pawl.WithItem(t.Context())
		need[[]pawl.Result[pawl.TypeRef]](t)(e.PutTypes(ctx, []pawl.Type{
			{
				Name:       "judged",
				Acceptance: true,
				Approval:   pawl.Approval{Mode: pawl.ApprovalManual},
				Parts:      []pawl.PartRule{{Key: "a", Repeatable: true}, {Key: "b"}},
			},
			{Name: "free", Acceptance: true},
			{Name: "built", Acceptance: true, Parts: []pawl.PartRule{{Key: "a"}}, Apply: pawl.Apply{Mode: pawl.ApplyItem}},
			{Name: "waits", Acceptance: true, Approval: pawl.Approval{Mode: pawl.ApprovalAuto, When: []byte(`{"type":"string"}`)}},
		}))
		shown := func(what string, claimable bool, m pawl.Moved, err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if m.Item == nil {
				t.Errorf("%s: no item", what)
				return
			}
			got, want := asText(t, m.Item), asText(t, need[pawl.Item](t)(e.GetItem(t.Context(), m.ID)))
			if got != want {
				t.Errorf("%s:\nanswered %s\nread     %s", what, got, want)
			}
			if claimable != (m.Item.State == pawl.ItemQueued) || m.State != m.Item.State {
				t.Errorf("%s: %s, %s", what, m.State, m.Item.State)
			}
		}
		for _, worker := range []bool{true, false} {
			if worker {
				if err := e.RegisterWorker(ctx, pawl.WorkerInfo{WorkerID: "other", Types: []string{"judged", "free", "built", "waits",
					"a"}}); err != nil {
					t.Fatal(err)
				}
			} else {
				p.Advance(time.Hour)
			}
			returnedItems(t, ctx, e, shown)
		}
	})
}

func asText(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func returnedItems(t *testing.T, ctx context.Context, e *engine.Engine, shown func(string, bool, pawl.Moved, error)) {
	hold := func(typ string, items ...pawl.NewItem) pawl.Lease {
		t.Helper()
		task := need[pawl.Task](t)(
			pawl.Create(ctx, e, pawl.NewTask{Type: typ, Payload: []byte(`{"<é\u0001": [1.50, "\\"]}`), Priority: 3, Items: items}))
		return leases(t, e, pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID, Limit: 1, LeaseSeconds: 77}, 1)[0]
	}
	again := func(l pawl.Lease) pawl.Lease {
		t.Helper()
		return leases(t, e, pawl.ClaimRequest{WorkerID: "v", ItemID: l.ID, Limit: 1}, 1)[0]
	}
	of := func(do func() (pawl.Moved, error)) (pawl.Moved, error) { return do() }
	fail := func(l pawl.Lease, after int64, retryable bool) (pawl.Moved, error) {
		return first(e.Fail(ctx,
			[]pawl.FailCall{{Fence: l.Fence(), Error: pawl.Failure{Code: "x", Message: "<no>"}, RetryAfterMS: &after, Retryable: &retryable}}))
	}
	report := func(l pawl.Lease, progress *int, stage *string) (pawl.Moved, error) {
		return first(e.Progress(ctx, []pawl.ProgressCall{{Fence: l.Fence(), Progress: progress, Stage: stage}}))
	}
	n, stage, none := 40, "half", ""

	l := hold("a", pawl.NewItem{Input: []byte("1"), Key: "k"}, pawl.NewItem{Input: []byte("2"), Key: "m", After: []string{"k"}})
	m, err := report(l, nil, nil)
	shown("first sign of life", false, m, err)
	m, err = report(l, &n, &stage)
	shown("progress", false, m, err)
	m, err = report(l, nil, &none)
	shown("stage cleared", false, m, err)
	m, err = fail(l, 0, true)
	shown("fail at once", true, m, err)
	l = again(l)
	m, err = report(l, &n, nil)
	shown("progress after a failure", false, m, err)
	m, err = pawl.Complete(ctx, e, l.Fence(), []byte(`{"a": 1.0}`))
	shown("complete", false, m, err)
	m, err = pawl.Complete(ctx, e, leases(t, e, pawl.ClaimRequest{WorkerID: "w", TaskID: l.TaskID, Limit: 1}, 1)[0].Fence(), nil)
	shown("complete of what waited", false, m, err)

	l = hold("a")
	m, err = of(func() (pawl.Moved, error) { return pawl.Release(ctx, e, l.Fence()) })
	shown("release", true, m, err)
	l = again(l)
	m, err = first(e.RevokeLeases(ctx, []pawl.RevokeCall{{ItemID: l.ID}}))
	shown("revoke", true, m, err)
	l = again(l)
	m, err = pawl.Suspend(ctx, e, l.Fence(), l.ServerTime.Add(time.Hour))
	shown("suspend until", false, m, err)

	l = hold("a")
	m, err = first(e.Suspend(ctx, []pawl.SuspendCall{{Fence: l.Fence(), Signal: "s", Key: "k" + l.ID}}))
	shown("suspend for a signal", false, m, err)
	l = hold("a")
	need[pawl.Signalled](t)(pawl.Signal(ctx, e, "s", l.ID, nil))
	m, err = first(e.Suspend(ctx, []pawl.SuspendCall{{Fence: l.Fence(), Signal: "s", Key: l.ID}}))
	shown("suspend for a signal that was sent", true, m, err)

	l = hold("a")
	need[pawl.Moved](t)(report(l, &n, &stage))
	m, err = fail(l, 60_000, true)
	shown("fail with back-off", false, m, err)
	l = hold("a")
	need[pawl.Moved](t)(report(l, &n, &stage))
	m, err = fail(l, 0, false)
	shown("fail for good", false, m, err)

	l = hold("judged")
	for i := range 2 {
		need[pawl.ItemPart](t)(first(e.SubmitParts(ctx, []pawl.PartCall{{Fence: l.Fence(), Key: "a", Seq: &i, Payload: []byte("1")}})))
	}
	need[pawl.ItemPart](t)(first(e.SubmitParts(ctx, []pawl.PartCall{{Fence: l.Fence(), Key: "b", Payload: []byte("2"), Draft: true}})))
	m, err = report(l, nil, &stage)
	shown("progress with parts", false, m, err)
	m, err = first(e.Finalize(ctx, []pawl.FinalizeCall{{Fence: l.Fence(), Mode: pawl.FinalizeBestEffort}}))
	shown("finalize", false, m, err)
	read := func(what string, want pawl.ItemState, m pawl.Moved, err error) {
		t.Helper()
		if m.Item == nil || m.Item.State != want || m.State != pawl.ItemSubmitted {
			t.Errorf("%s: %s, item %+v, %v", what, m.State, m.Item, err)
			return
		}
		m.State = m.Item.State
		shown(what, false, m, err)
	}
	l = hold("free")
	m, err = first(e.Submit(ctx, []pawl.SubmitCall{{Fence: l.Fence(), Result: []byte(`7`)}}))
	read("submit that the rule accepts", pawl.ItemCompleted, m, err)
	l = hold("built")
	need[pawl.ItemPart](t)(first(e.SubmitParts(ctx, []pawl.PartCall{{Fence: l.Fence(), Key: "a", Payload: []byte("1")}})))
	m, err = first(e.Finalize(ctx, []pawl.FinalizeCall{{Fence: l.Fence(), Mode: pawl.FinalizeBestEffort}}))
	read("finalize that the rule accepts, applied by a worker", pawl.ItemAccepted, m, err)
	l = hold("waits")
	m, err = first(e.Submit(ctx, []pawl.SubmitCall{{Fence: l.Fence(), Result: []byte(`7`)}}))
	read("submit that the rule does not accept", pawl.ItemSubmitted, m, err)
	l = hold("judged", pawl.NewItem{Input: []byte("1")}, pawl.NewItem{Input: []byte("2")})
	m, err = first(e.Submit(ctx, []pawl.SubmitCall{{Fence: l.Fence(), Result: []byte(`7`)}}))
	shown("submit of one of many", false, m, err)
}

// The items of a batch have values of their own, also when the batch settles a task of many.
func TestABatchAnswersWithItsOwnItems(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "last", MaxAttempts: 1,
			Items: []pawl.NewItem{{Input: []byte(`1`)}, {Input: []byte(`2`)}}}))
		for range 3 {
			need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a"}))
		}
		got := append(leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}}, 3),
			leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"last"}}, 2)...)
		calls := make([]pawl.FailCall, len(got))
		for i, l := range got {
			after := int64(1000 * (i + 1))
			calls[i] = pawl.FailCall{Fence: l.Fence(), Error: pawl.Failure{Message: "no"}, RetryAfterMS: &after}
		}
		out := need[[]pawl.Result[pawl.Moved]](t)(p.Engine.Fail(pawl.WithItem(t.Context()), calls))
		for i, r := range out {
			if r.Err != nil || r.Value.Item == nil {
				t.Fatalf("%d: %+v", i, r)
			}
			got, want := asText(t, r.Value.Item), asText(t, need[pawl.Item](t)(p.Engine.GetItem(t.Context(), calls[i].ItemID)))
			if got != want {
				t.Errorf("%d:\nanswered %s\nread     %s", i, got, want)
			}
		}
	})
}
