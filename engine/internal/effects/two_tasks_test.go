package effects_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

func TestMain(m *testing.M) { pawltest.Main(m) }

// shared is two tasks under lease that want an effect of one key.
type shared struct {
	*pawltest.Pawl
	*pawltest.Calls
	t        testing.TB
	one, two pawl.Lease
	call     pawl.OpenEffectCall // what both say
	judge    context.Context
}

func eachShared(t *testing.T, call pawl.OpenEffectCall, fn func(s *shared)) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			o := engine.Options{TransparencyLog: engine.LogOptions{Key: filepath.Join(t.TempDir(), "key")}}
			p := pawltest.OpenWith(t, which, o)
			s := &shared{Pawl: p, Calls: pawltest.NewCalls(t, p.Service), t: t, call: call}
			s.call.Name, s.call.Key, s.call.RequestHash = "pay", "order-7", "h"
			s.judge = pawl.As(t.Context(), pawl.Caller{ActorType: pawl.ActorUser, ActorID: "eve"})
			s.one, s.two = s.started(), s.started()
			fn(s)
		})
	}
}

func (s *shared) started() pawl.Lease {
	s.t.Helper()
	task := s.Create(pawl.NewTask{Type: "e"})
	return s.ClaimN(1, pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID})[0]
}

// open opens the effect for a lease, which may change what it says.
func (s *shared) open(l pawl.Lease, change ...func(c *pawl.OpenEffectCall)) (pawl.OpenedEffect, error) {
	call := s.call
	call.ItemID, call.WorkerID, call.Attempt = l.ID, l.WorkerID, l.Attempt
	for _, fn := range change {
		fn(&call)
	}
	return s.Engine.OpenEffect(s.t.Context(), call)
}

func (s *shared) mustOpen(l pawl.Lease, change ...func(c *pawl.OpenEffectCall)) pawl.OpenedEffect {
	s.t.Helper()
	return pawltest.Must[pawl.OpenedEffect](s.t)(s.open(l, change...))
}

func (s *shared) unknown(l pawl.Lease, id string) {
	s.t.Helper()
	_, err := s.Engine.EffectUnknown(s.t.Context(), id, pawl.EffectUnknownCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt})
	s.OK(err)
}

func (s *shared) done(l pawl.Lease, id string, sending int, answer json.RawMessage) {
	s.t.Helper()
	_, err := s.Engine.EffectDone(s.t.Context(), id, pawl.EffectDoneCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt,
		Sending: sending, Answer: answer})
	s.OK(err)
}

func (s *shared) waitFor(l pawl.Lease, id string) {
	s.t.Helper()
	_, err := pawltest.First(s.Engine.Suspend(s.t.Context(), []pawl.SuspendCall{{Fence: l.Fence(), Signal: pawl.EffectSignal, Key: id}}))
	s.OK(err)
}

func (s *shared) sweep() {
	s.t.Helper()
	_, err := s.Engine.Sweep(s.t.Context())
	s.OK(err)
}

func (s *shared) remove(taskID string) {
	s.t.Helper()
	_, err := pawltest.First(s.Engine.DeleteTasks(s.judge, []pawl.TaskCall{{TaskID: taskID, Force: true}}))
	s.OK(err)
}

// retire lets retention archive tasks that have ended.
func (s *shared) retire() {
	s.t.Helper()
	for range 3 {
		s.Advance(31 * 24 * time.Hour)
		s.sweep()
	}
}

func (s *shared) blob(text string) (string, json.RawMessage) {
	s.t.Helper()
	b := pawltest.Must[pawl.Blob](s.t)(s.Engine.PutBlob(s.t.Context(), pawl.BlobUpload{Content: strings.NewReader(text)}))
	return b.Address, json.RawMessage(`{"` + pawl.BlobMember + `":"` + b.Address + `"}`)
}

// again claims the item that waited, which must be queued.
func (s *shared) again(l pawl.Lease) pawl.Lease {
	s.t.Helper()
	if it := s.Item(l.ID); it.State != pawl.ItemQueued {
		s.t.Fatalf("the item that waits for the effect is %s: %+v", it.State, it.BlockedBy)
	}
	return s.ClaimN(1, pawl.ClaimRequest{WorkerID: "w", TaskID: l.TaskID})[0]
}

// Items of other tasks that wait for an effect are told when its task goes. The key of an effect that was never sent is free.
func TestWhoWaitsForAnEffectIsToldThatItsTaskIsGone(t *testing.T) {
	for _, how := range []string{"waiting, deleted", "waiting, archived", "unknown, deleted", "told before it waits"} {
		t.Run(how, func(t *testing.T) {
			waiting := how != "unknown, deleted"
			eachShared(t, pawl.OpenEffectCall{Approve: waiting}, func(s *shared) {
				opened := s.mustOpen(s.one)
				if !waiting {
					s.unknown(s.one, opened.ID)
				}
				if _, err := s.open(s.two); waiting == (err != nil) {
					t.Fatalf("the second task: %v", err)
				}
				if how != "told before it waits" {
					s.waitFor(s.two, opened.ID)
				}
				if how == "waiting, archived" {
					s.waitFor(s.one, opened.ID)
					s.Cancel(s.one.TaskID)
					s.retire()
				} else {
					s.remove(s.one.TaskID)
				}
				if how == "told before it waits" {
					s.waitFor(s.two, opened.ID)
				}
				s.sweep()
				got, err := s.open(s.again(s.two))
				if waiting && (err != nil || got.State != pawl.EffectWaiting || got.ID == opened.ID) {
					t.Errorf("an effect that was never sent has its key: %+v %v", got, err)
				}
				var e *pawl.Error
				if !waiting && (!errors.As(err, &e) || e.Code != pawl.CodeConflict || e.TaskID != s.one.TaskID) {
					t.Errorf("opened again: %+v %v", got, err)
				}
			})
		})
	}
}

// Who waits for an unknown effect is told when another task has sent it again, as repeatable.
func TestWhoWaitsForAnEffectIsToldThatItWasRepeated(t *testing.T) {
	eachShared(t, pawl.OpenEffectCall{}, func(s *shared) {
		opened := s.mustOpen(s.one)
		s.unknown(s.one, opened.ID)
		s.waitFor(s.one, opened.ID)
		repeated := s.mustOpen(s.two, func(c *pawl.OpenEffectCall) { c.Repeatable = true })
		s.done(s.two, opened.ID, repeated.Sending, json.RawMessage("1"))
		if got := s.mustOpen(s.again(s.one)); got.State != pawl.EffectDone || string(got.Answer) != "1" {
			t.Errorf("opened again: %+v", got)
		}
	})
}

// The blobs of a report stay with the effect, whose task may be another than that of the report: it was another's when the
// report came, or later.
func TestBlobsOfAReportStayWithTheEffect(t *testing.T) {
	for _, when := range []string{"after", "before"} {
		t.Run(when, func(t *testing.T) {
			eachShared(t, pawl.OpenEffectCall{}, func(s *shared) {
				repeat := func(c *pawl.OpenEffectCall) { c.Repeatable = when == "after" }
				opened := s.mustOpen(s.one, repeat)
				address, answer := s.blob("the answer of the outside")
				if when == "after" {
					s.unknown(s.one, opened.ID)
				} else {
					_, err := s.Engine.EffectFailed(s.t.Context(), opened.ID, pawl.EffectFailedCall{ItemID: s.one.ID,
						WorkerID: s.one.WorkerID, Attempt: s.one.Attempt, Error: pawl.Failure{Code: "refused", Message: "no"}})
					s.OK(err)
					s.Advance(time.Second)
					s.done(s.one, opened.ID, 1, answer)
					s.resolveDoubt(opened.ID)
				}
				s.mustOpen(s.two, repeat)
				if when == "after" {
					s.done(s.one, opened.ID, 1, answer)
				}
				s.remove(s.one.TaskID)
				s.retire()
				if _, _, err := s.Engine.OpenBlob(s.t.Context(), address); err != nil {
					f := pawltest.Must[pawl.EffectRecord](t)(s.Engine.GetEffect(s.t.Context(), opened.ID))
					t.Errorf("the effect is %s, with %s and %+v: %v", f.State, f.Answer, f.LateReport, err)
				}
			})
		})
	}
}

// resolveDoubt lets a person decide that an effect did not happen whose sender says both.
func (s *shared) resolveDoubt(id string) {
	s.t.Helper()
	if _, err := s.open(s.two); !errors.Is(err, pawl.ErrEffectUnknown) {
		s.t.Fatalf("two statements: %v", err)
	}
	_, err := s.Engine.ResolveEffect(s.judge, id, pawl.ResolveEffectCall{Outcome: pawl.DidNotHappen})
	s.OK(err)
}

// A receipt has the events of all tasks that the effect was one of, or is refused.
func TestAReceiptHasTheEventsOfAllTasks(t *testing.T) {
	eachShared(t, pawl.OpenEffectCall{Approve: true}, func(s *shared) {
		opened := s.mustOpen(s.one)
		s.mustOpen(s.two)
		_, err := s.Engine.ApproveEffect(s.judge, opened.ID, pawl.EffectDecision{})
		s.OK(err)
		sent := s.mustOpen(s.two)
		s.done(s.two, opened.ID, sent.Sending, json.RawMessage("1"))
		s.sweep()
		s.OK(s.Engine.Log(s.t.Context()))
		_, err = s.Engine.SignLog(s.t.Context())
		s.OK(err)
		r := pawltest.Must[pawl.EffectReceipt](t)(s.Engine.EffectReceipt(s.t.Context(), opened.ID))
		if by := r.Effect.ApprovedBy; r.Effect.Events != 4 || by == nil || by.ID != "eve" || r.Effect.TaskID != s.two.TaskID {
			t.Errorf("the receipt has %d events, approved by %+v, of task %s", r.Effect.Events, by, r.Effect.TaskID)
		}
		s.remove(s.one.TaskID)
		if r, err := s.Engine.EffectReceipt(s.t.Context(), opened.ID); pawl.CodeOf(err) != pawl.CodeConflict {
			t.Errorf("without the events of the first task: %+v %v", r.Effect, err)
		}
	})
}
