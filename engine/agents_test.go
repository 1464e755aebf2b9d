package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// crowded is a type whose rules make many conflicting calls possible.
const crowded = `{"name":"report","max_attempts":1000,
"approval":{"mode":"manual","not_by_requester":false,"not_by_worker":false},"apply":{"mode":"go"},
	"result_schema":{"type":"object","required":["title"]},
	"parts":[{"key":"title","required":true,"schema":{"type":"string"}},{"key":"pages","repeatable":true,"schema":{"type":"integer"}}]}`

// crowd is many agents that work on one task. Each of them may use every lease.
type crowd struct {
	*testing.T
	p    *pawltest.Pawl
	svcs []pawl.Service
	task string

	mu      sync.Mutex
	known   []pawl.Lease      // every lease of the test
	handed  map[string]int    // by item: submissions and finalizes that were accepted
	parts   map[string]string // by id: the status of every part that was accepted
	refused int               // parts that did not fit
	decided []string          // the actors that approved
	losers  []*pawl.Error     // the errors of approvals that came too late
	sent    int               // rejections for rework
}

// Whichever agent is first, events and rows agree: one live part per key, one result
// handed in per claim, one approver, which all others learn, and one effect.
func TestThirtyTwoAgentsAboutOneTask(t *testing.T) {
	applies := map[string]int{}
	var mu sync.Mutex
	hooks := pawl.Hooks{Apply: func(_ context.Context, a pawl.Application) (pawl.Applied, error) {
		mu.Lock()
		defer mu.Unlock()
		applies[a.Task.ID]++
		return pawl.Applied{Result: fmt.Appendf(nil, `{"items":%d,"time":%d}`, len(a.Items), applies[a.Task.ID])}, nil
	}}
	withType(t, crowded, hooks, func(o typeFixture) {
		svcs := []pawl.Service{o.Engine, o.Another(engine.Options{Hooks: map[string]pawl.Hooks{"report": hooks}})}
		for round := range times(3, 300) {
			c := &crowd{T: o.T, p: o.Pawl, svcs: svcs, handed: map[string]int{}, parts: map[string]string{}}
			c.task = need[pawl.Task](o.T)(
				pawl.Create(o.Context(), o.Engine, pawl.NewTask{Type: "report", Items: make([]pawl.NewItem, 1+round%3)})).ID
			var wg sync.WaitGroup
			for n := range 32 {
				wg.Go(func() { c.quarrel(fmt.Sprint("agent-", n), svcs[n%2], rand.New(rand.NewPCG(uint64(round), uint64(n)))) })
			}
			wg.Wait()
			c.finish()
			c.judge()
			mu.Lock()
			if applies[c.task] != 1 {
				o.Errorf("applied %d times", applies[c.task])
			}
			mu.Unlock()
			if o.Failed() {
				o.Fatalf("in round %d", round)
			}
		}
	})
}

// quarrel makes the calls of one agent: any verb, with any lease that it knows.
func (c *crowd) quarrel(who string, svc pawl.Service, r *rand.Rand) {
	for range 24 {
		l := c.any(r)
		switch n := r.IntN(24); {
		case n < 5 || l.ID == "":
			c.claim(who, svc)
		case n < 11:
			c.part(svc, l, r)
		case n < 14:
			got, err := first(svc.Finalize(context.Background(), []pawl.FinalizeCall{{Fence: l.Fence()}}))
			c.submitAll(l, got.Repeated, err)
		case n < 16:
			got, err := first(svc.Submit(context.Background(), []pawl.SubmitCall{{Fence: l.Fence(), Result: []byte(`{"title":"whole"}`)}}))
			c.submitAll(l, got.Repeated, err)
		case n < 18:
			_, err := first(svc.Heartbeat(context.Background(), []pawl.HeartbeatCall{{Fence: l.Fence()}}))
			c.allow(err)
		case n == 18:
			_, err := first(svc.Release(context.Background(), []pawl.ReleaseCall{{Fence: l.Fence()}}))
			c.allow(err)
		case n == 19 && who == "agent-0":
			c.p.Advance(5 * time.Minute)
			if _, err := svc.Sweep(context.Background()); err != nil {
				c.Errorf("sweep: %v", err)
			}
		case n < 22:
			c.sendBack(who, svc, l)
		default:
			c.approve(who, svc)
		}
	}
}

// any returns one of the newest leases.
func (c *crowd) any(r *rand.Rand) pawl.Lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) == 0 {
		return pawl.Lease{}
	}
	return c.known[len(c.known)-1-r.IntN(min(len(c.known), 6))]
}

// allow accepts the refusals that conflicting calls cause.
func (c *crowd) allow(err error) bool {
	switch pawl.CodeOf(err) {
	case "":
		return err == nil
	case pawl.CodeConflict, pawl.CodeLeaseLost, pawl.CodeInvalid, pawl.CodeNotFound:
	default:
		c.Errorf("%v", err)
	}
	return false
}

func (c *crowd) claim(who string, svc pawl.Service) {
	ls, err := svc.Claim(context.Background(), pawl.ClaimRequest{WorkerID: who, TaskID: c.task})
	if err != nil {
		c.Errorf("claim: %v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = append(c.known, ls...)
}

func (c *crowd) part(svc pawl.Service, l pawl.Lease, r *rand.Rand) {
	call := pawl.PartCall{Fence: l.Fence(), Key: "title", Payload: fmt.Appendf(nil, `"%d"`, r.IntN(3))}
	if seq := r.IntN(4); seq < 3 {
		call.Key, call.Seq, call.Payload = "pages", &seq, fmt.Append(nil, r.IntN(3))
	}
	bad := r.IntN(8) == 0
	if bad {
		call.Payload = []byte(`{}`)
	}
	p, err := first(svc.SubmitParts(context.Background(), []pawl.PartCall{call}))
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.allow(err):
		c.parts[p.ID] = p.Status
	case bad && pawl.CodeOf(err) == pawl.CodeInvalid:
		c.refused++
	}
}

func (c *crowd) submitAll(l pawl.Lease, repeated bool, err error) {
	if c.allow(err) && !repeated {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.handed[l.ID]++
	}
}

func (c *crowd) sendBack(who string, svc pawl.Service, l pawl.Lease) {
	why := pawl.RejectCall{
		TaskID:      c.task,
		AllowRework: true,
		ItemIDs:     []string{l.ID},
		Errors:      []pawl.Complaint{{Code: "no", Message: "not yet"}},
	}
	_, err := first(svc.RejectTasks(as(who), []pawl.RejectCall{why}))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.allow(err) {
		c.sent++
	} else {
		c.late(err)
	}
}

func (c *crowd) approve(who string, svc pawl.Service) {
	_, err := first(svc.ApproveTasks(as(who), []pawl.ApproveCall{{TaskID: c.task}}))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.allow(err) {
		c.decided = append(c.decided, who)
	} else {
		c.late(err)
	}
}

// late keeps the errors of approvals that came too late.
func (c *crowd) late(err error) {
	var e *pawl.Error
	if errors.As(err, &e) && slices.Contains([]string{"approved", "applied", "completed"}, e.State) {
		c.losers = append(c.losers, e)
	}
}

func as(who string) context.Context {
	return pawl.As(context.Background(), pawl.Caller{ActorType: pawl.ActorAgent, ActorID: who})
}

// finish completes what the agents have left. Then all of them approve once more.
func (c *crowd) finish() {
	for range 100 {
		task := need[pawl.Task](c.T)(c.svcs[0].GetTask(context.Background(), c.task))
		if task.State == pawl.TaskCompleted {
			break
		}
		if task.State == pawl.TaskSubmitted {
			c.approve("agent-last", c.svcs[1])
			continue
		}
		c.p.Advance(5 * time.Minute)
		need[pawl.SweepStats](c.T)(c.svcs[0].Sweep(context.Background()))
		ls := need[[]pawl.Lease](c.T)(c.svcs[0].Claim(context.Background(), pawl.ClaimRequest{WorkerID: "last", TaskID: c.task, Limit: 10}))
		for _, l := range ls {
			p := need[pawl.ItemPart](c.T)(
				first(c.svcs[0].SubmitParts(context.Background(), []pawl.PartCall{{Fence: l.Fence(), Key: "title", Payload: []byte(`"last"`)}})))
			c.parts[p.ID] = p.Status
			got, err := first(c.svcs[1].Finalize(context.Background(), []pawl.FinalizeCall{{Fence: l.Fence(), Mode: pawl.FinalizeBestEffort}}))
			c.submitAll(l, got.Repeated, err)
		}
	}
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() { c.approve(fmt.Sprint("agent-", n), c.svcs[n%2]) })
	}
	wg.Wait()
}

// judge compares the answers that the agents got with the events and the rows.
func (c *crowd) judge() {
	task := need[pawl.Task](c.T)(c.svcs[0].GetTask(context.Background(), c.task))
	if task.State != pawl.TaskCompleted || len(c.decided) != 1 {
		c.Errorf("the task is %s, approved by %v", task.State, c.decided)
		return
	}
	if len(c.losers) < 8 {
		c.Errorf("%d came too late", len(c.losers))
	}
	for _, e := range c.losers {
		if e.Holder != "agent/"+c.decided[0] {
			c.Errorf("%q was told: %v, by %q", e.State, e, e.Holder)
		}
	}
	count, rejected := map[string]int{}, 0
	for _, e := range c.record() {
		count[e.Event]++
		if e.Event == "submitted" && e.ItemID != "" {
			c.handed[e.ItemID]--
		}
		if e.Event == "rejected" && e.ItemID == "" {
			rejected++
		}
	}
	for item, n := range c.handed {
		if n != 0 {
			c.Errorf("item %s: %d more were told that they handed in than did", item, n)
		}
	}
	if count["approved"] != 1 || count["applied"] != 1 || rejected != c.sent {
		c.Errorf("approved %d, applied %d, rejected %d for %d", count["approved"], count["applied"], rejected, c.sent)
	}
	if r := need[pawl.TaskResult](c.T)(c.svcs[1].TaskResult(context.Background(), c.task)); string(r.Payload) != fmt.Sprintf(
		`{"items":%d,"time":1}`, task.Items) {
		c.Errorf("the result is %s", r.Payload)
	}
	c.judgeParts(count)
}

func (c *crowd) record() (all []pawl.Event) {
	q := pawl.EventFilter{TaskID: c.task, Asc: true, Page: pawl.Page{Limit: 1000}}
	for {
		l := need[pawl.List[pawl.Event]](c.T)(c.svcs[0].ListEvents(context.Background(), q))
		if all = append(all, l.Items...); l.Next == "" {
			return all
		}
		q.Cursor = l.Next
	}
}

// judgeParts checks that every accepted part is stored and that one part of each key and
// number is live. It also checks that a result consists of the parts that were live when
// it was put together.
func (c *crowd) judgeParts(count map[string]int) {
	rows := map[string]int{}
	items := need[pawl.List[pawl.Item]](c.T)(c.svcs[0].ListItems(context.Background(), pawl.ItemFilter{TaskID: c.task}))
	for _, it := range items.Items {
		live, want, pages := map[string]int{}, map[string]any{}, []json.RawMessage{nil, nil, nil}
		for _, p := range need[pawl.List[pawl.ItemPart]](c.T)(c.svcs[0].ListParts(context.Background(), pawl.PartFilter{ItemID: it.ID,
			All: true, Page: pawl.Page{Limit: 1000}})).Items {
			rows[p.Status]++
			delete(c.parts, p.ID)
			if p.SupersededAt != nil {
				continue
			}
			seq := -1
			if p.Seq != nil {
				seq = *p.Seq
			}
			if name := fmt.Sprint(p.Key, seq); live[name] > 0 {
				c.Errorf("item %s has two live parts %s", it.ID, name)
			} else {
				live[name]++
			}
			if p.Status == pawl.PartValidated && seq < 0 {
				want["title"] = p.Payload
			} else if p.Status == pawl.PartValidated {
				pages[seq] = p.Payload
			}
		}
		if pages = slices.DeleteFunc(pages, func(p json.RawMessage) bool { return p == nil }); len(pages) > 0 {
			want["pages"] = pages
		}
		if it.AssembledResult != nil && !sameJSON(it.AssembledResult, want) {
			c.Errorf("item %s was put together as %s, its parts are %v", it.ID, it.AssembledResult, want)
		}
	}
	for id := range c.parts {
		c.Errorf("the part %s was taken and is not there", id)
	}
	if rows[pawl.PartValidated] != count["part_submitted"] || rows[pawl.PartRejected] != count["part_rejected"] {
		c.Errorf("rows %v, events %v", rows, count)
	}
}

func sameJSON(raw json.RawMessage, v any) bool {
	a, err := pawl.HashOf(raw)
	b, err2 := pawl.HashOf(v)
	return err == nil && err2 == nil && a == b
}
