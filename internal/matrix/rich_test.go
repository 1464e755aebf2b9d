package matrix

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/tracing"
)

// ending is the last thing that happens to the items of a task.
type ending struct {
	name     string
	judged   bool // of tasks that are judged alone, and others have none of it
	unjudged bool
	do       func(s *subject, ls []pawl.Lease)
}

func each(do func(s *subject, l pawl.Lease)) func(*subject, []pawl.Lease) {
	return func(s *subject, ls []pawl.Lease) {
		for _, l := range ls {
			do(s, l)
		}
	}
}

// endings leave an item in each place.
var endings = []ending{
	{name: "leased", do: func(*subject, []pawl.Lease) {}},
	{name: "in progress", do: each(func(s *subject, l pawl.Lease) {
		s.progress(l)
		s.effect(l, "open", nil)
		m := s.speak(l)
		all(s.svc.StopMessages(s.user, []pawl.StopCall{{MessageID: m.MessageID, Reason: "enough"}}))
	})},
	{name: "scheduled", do: each(func(s *subject, l pawl.Lease) { s.failAfter(l, 3_600_000) })},
	{name: "waiting", do: each(func(s *subject, l pawl.Lease) {
		until := s.p.Now().Add(time.Hour)
		all(s.svc.Suspend(s.ctx, []pawl.SuspendCall{{Fence: l.Fence(), Until: &until, Signal: "go", Key: l.ID}}))
	})},
	{name: "ready", do: each(func(s *subject, l pawl.Lease) { all(s.svc.Release(s.ctx, []pawl.ReleaseCall{{Fence: l.Fence()}})) })},
	{name: "failed", do: each(func(s *subject, l pawl.Lease) { s.progress(l); s.fail(l, false) })},
	{name: "buried", do: func(s *subject, ls []pawl.Lease) {
		for _, l := range ls {
			s.progress(l)
			s.fail(l, false)
		}
		all(s.svc.BuryTasks(s.user, []pawl.TaskCall{{TaskID: ls[0].TaskID, Reason: "enough"}}))
	}},
	{name: "cancelled", do: func(s *subject, ls []pawl.Lease) {
		all(s.svc.CancelTasks(s.user, []pawl.TaskCall{{TaskID: ls[0].TaskID, Reason: "enough"}}))
	}},
	{name: "completed", unjudged: true, do: each(func(s *subject, l pawl.Lease) { s.progress(l); s.complete(l) })},
	{name: "submitted", judged: true, do: each((*subject).submitParts)},
	{name: "accepted", judged: true, do: func(s *subject, ls []pawl.Lease) { s.approved(ls) }},
	{name: "applied", judged: true, do: func(s *subject, ls []pawl.Lease) {
		s.approved(ls)
		apply := s.claim(pawl.ClaimRequest{TaskID: ls[0].TaskID, Types: []string{ls[0].Type + pawl.ApplySuffix}}, 1)[0]
		must(pawl.Complete(s.ctx, s.svc, apply.Fence(), raw(`{"result":{"applied":true},"diff":{"summary":"done"}}`)))
	}},
	{name: "not applied", judged: true, do: func(s *subject, ls []pawl.Lease) {
		s.approved(ls)
		s.fail(s.claim(pawl.ClaimRequest{TaskID: ls[0].TaskID, Types: []string{ls[0].Type + pawl.ApplySuffix}}, 1)[0], false)
	}},
	{name: "rejected", judged: true, do: func(s *subject, ls []pawl.Lease) {
		for _, l := range ls {
			s.submitParts(l)
		}
		s.reject(ls, false)
	}},
}

func (s *subject) progress(l pawl.Lease) {
	n, stage := 40, "middle"
	all(s.svc.Progress(s.ctx, []pawl.ProgressCall{{Fence: l.Fence(), Stage: &stage, Progress: &n}}))
}

func (s *subject) failAfter(l pawl.Lease, ms int64) {
	all(s.svc.Fail(s.ctx, []pawl.FailCall{{Fence: l.Fence(), RetryAfterMS: &ms, Provenance: s.provenance(),
		Error: pawl.Failure{Code: "no", Message: "no", Detail: raw(`{"why":[1]}`)}}}))
}

func (s *subject) provenance() *pawl.Provenance {
	return &pawl.Provenance{AgentID: "agent", AgentName: "name", AgentVersion: "v1", Model: "m", RequestFingerprint: "print",
		Extra: raw(`{"extra":1}`)}
}

// submitParts hands in parts, some of them again, wrongly or with a key, and what they make together.
func (s *subject) submitParts(l pawl.Lease) {
	s.progress(l)
	one := 1
	part := pawl.PartCall{Fence: l.Fence(), Key: "title", Seq: &one, Payload: raw(`"t"`), Evidence: raw(`{"e":1}`), Notes: "of a part"}
	all(s.svc.SubmitParts(s.ctx, []pawl.PartCall{part}))
	part.Payload = raw(`1`)
	if rs := must(s.svc.SubmitParts(s.ctx, []pawl.PartCall{part})); pawl.CodeOf(rs[0].Err) != pawl.CodeInvalid {
		s.Errorf("a part that violates its schema: %v", rs[0].Err)
	}
	s.once("part of "+l.ID+fmt.Sprint(l.Attempt), func(ctx context.Context, svc pawl.Service) {
		part.Payload = raw(`"again"`)
		all(svc.SubmitParts(ctx, []pawl.PartCall{part}))
	})
	all(s.svc.Finalize(s.ctx, []pawl.FinalizeCall{{Fence: l.Fence(), Mode: pawl.FinalizeBestEffort, Evidence: raw(`{"e":2}`), Notes: "of all",
		Provenance: s.provenance()}}))
}

// once makes a call with an idempotency key, twice.
func (s *subject) once(key string, call func(ctx context.Context, svc pawl.Service)) {
	for range 2 {
		_, _, err := s.p.Engine.Idempotent(s.ctx, pawl.KeyBegin{Scope: "scope", Key: key, RequestHash: "h", TaskID: s.task.ID},
			func(ctx context.Context, svc pawl.Service) (*pawl.Answer, error) {
				call(ctx, svc)
				return &pawl.Answer{Code: 201, Type: "application/json", Location: "/there", Body: []byte("1")}, nil
			})
		must(0, err)
	}
}

func (s *subject) reject(ls []pawl.Lease, again bool) {
	s.sweep()
	why := []pawl.Complaint{{Code: "bad", Message: "bad"}}
	all(s.svc.RejectTasks(s.judge, []pawl.RejectCall{{TaskID: ls[0].TaskID, Errors: why, AllowRework: again, Comment: "no",
		Provenance: s.provenance()}}))
}

func (s *subject) approved(ls []pawl.Lease) {
	for _, l := range ls {
		s.submitParts(l)
	}
	s.sweep()
	all(s.svc.ApproveTasks(s.judge, []pawl.ApproveCall{{TaskID: ls[0].TaskID, Comment: "good", Provenance: s.provenance()}}))
}

// worn makes tasks whose items have been through as much as an item can, and then through an ending: their rows have a
// value in each column.
func (s *subject) worn() {
	s.Helper()
	trace := tracing.Remote(s.user, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=b")
	at, deadline := s.p.Now().Add(time.Minute), s.p.Now().Add(9*24*time.Hour)
	type one struct {
		task   pawl.Task
		n      int
		judged bool
		do     func(*subject, []pawl.Lease)
	}
	var tasks []one
	for _, typ := range []string{"worn", "worn judged"} {
		judged := typ != "worn"
		if judged {
			all(s.svc.PutTypes(s.user, []pawl.Type{{Name: typ, Acceptance: true, Apply: pawl.Apply{Mode: pawl.ApplyItem},
				Approval: pawl.Approval{Mode: pawl.ApprovalManual, ExpiresSeconds: 86400, OnExpiry: pawl.ExpiryEscalate,
					EscalateTo: []string{"user/*"}},
				OnItemFailure: pawl.FailureIgnore,
				Parts:         []pawl.PartRule{{Key: "title", Repeatable: true, Required: true, Schema: raw(`{"type":"string"}`)}}}}))
		}
		limits := `{"rate":{"limit":1000,"seconds":1},"per_key":{"pointer":"/tenant","concurrency":100}}`
		must(s.svc.SetQueue(s.user, typ, pawl.QueuePatch(limits)))
		for _, e := range endings {
			for n := range 3 {
				if e.judged && !judged || e.unjudged && judged {
					continue
				}
				t := pawl.NewTask{Type: typ, Title: e.name, Payload: raw(`{"tenant":"x"}`), Priority: 7, MaxAttempts: 20, RunAt: &at,
					RequestedBy: &pawl.Requester{Type: "user", ID: "bob"}, Metadata: raw(`{"a":1}`), Thread: "thread", Deadline: &deadline,
					StartToCloseSeconds: 86400, ScheduleToStartSeconds: 864000, Provenance: s.provenance(),
					Messages: []pawl.NewMessage{{Role: "user", Content: raw(`"hello"`), Metadata: raw(`{"m":1}`)}}}
				for k := range n {
					priority := 5
					t.Items = append(t.Items, pawl.NewItem{Key: fmt.Sprint("k", k), Input: raw(`{"tenant":"x"}`), Priority: &priority, RunAt: &at})
				}
				if n == 2 && !judged {
					t.Items = append(t.Items, pawl.NewItem{Key: "after", After: []string{"k0", "k1"}, Input: raw("2")})
				}
				tasks = append(tasks, one{must(pawl.Create(trace, s.svc, t)), max(n, 1), judged, e.do})
			}
		}
	}
	s.p.Advance(2 * time.Minute)
	s.sweep()
	for _, t := range tasks { // a claim ahead that expires is spared
		s.claimFor(t.task, t.n, func(r *pawl.ClaimRequest) { r.Prefetch, r.LeaseSeconds = true, 1 })
	}
	s.p.Advance(2 * time.Second)
	s.sweep()
	keyed := pawl.As(s.ctx, pawl.Caller{Key: "key_00000000000000000000000001"})
	for _, t := range tasks {
		s.task = t.task
		ls := s.claimFor(t.task, t.n, nil)
		if t.judged {
			each((*subject).submitParts)(s, ls)
			s.reject(ls, true)
			ls = s.claimFor(t.task, t.n, nil)
		}
		for _, l := range ls {
			s.failAfter(l, 0)
		}
		plain := s.ctx
		s.ctx = keyed
		ls = s.claimFor(t.task, t.n, func(r *pawl.ClaimRequest) { r.Prefetch = true })
		t.do(s, ls)
		s.ctx = plain
	}
}

func (s *subject) claimFor(t pawl.Task, n int, change func(*pawl.ClaimRequest)) []pawl.Lease {
	s.Helper()
	r := pawl.ClaimRequest{TaskID: t.ID, Types: []string{t.Type}, WorkerID: "w", Limit: n, LeaseSeconds: 3600, Provenance: s.provenance()}
	if change != nil {
		change(&r)
	}
	ls := must(s.svc.Claim(s.ctx, r))
	if len(ls) != n {
		why, err := s.p.Engine.Why(s.user, t.ID)
		must(0, errors.Join(err, fmt.Errorf("claimed %d of %d items of %s: %+v", len(ls), n, t.Title, why)))
	}
	return ls
}
