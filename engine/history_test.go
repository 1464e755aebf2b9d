package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// asked and told are one call about one item and its answer, in the form that porcupine
// needs. The call took effect when the database's clock was between before and after.
type asked struct {
	verb          string
	item          string
	fence         pawl.Fence
	before, after time.Time
}

type told struct {
	ok       bool
	repeated bool // an earlier call of the same worker and attempt was carried out
	attempt  int
	until    time.Time // claim, heartbeat: the lease's new end
	at       time.Time // claim, heartbeat, expire: the time, by the database's clock
	code     pawl.Code
	reason   string
	state    string
	holder   string
}

// life is the state by which the history of an item must be explained.
type life struct {
	state   pawl.ItemState
	holder  string
	attempt int
	until   time.Time
	left    string
	done    string // the calls that ended leases, in their order
}

// call names what ended a lease, for a call that repeats it.
func (in asked) call() string {
	return fmt.Sprintf("%s %s#%d;", in.verb, in.fence.WorkerID, in.fence.Attempt)
}

// lives says that calls about one item behave as if each took effect at one moment
// between its beginning and its end. An expiry is a step that is possible only after the
// lease's end.
var lives = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byItem := map[string][]porcupine.Operation{}
		for _, op := range history {
			id := op.Input.(asked).item
			byItem[id] = append(byItem[id], op)
		}
		var out [][]porcupine.Operation
		for _, ops := range byItem {
			out = append(out, ops)
		}
		return out
	},
	Init: func() any { return life{state: pawl.ItemQueued} },
	Step: func(state, input, output any) (bool, any) {
		return state.(life).step(input.(asked), output.(told))
	},
	DescribeOperation: func(input, output any) string {
		in, out := input.(asked), output.(told)
		return fmt.Sprintf("%s %s#%d → %+v", in.verb, in.fence.WorkerID, in.fence.Attempt, out)
	},
}

func (l life) step(in asked, out told) (bool, life) {
	if !out.ok {
		return l.explains(in, out), l
	}
	if out.repeated {
		return strings.Contains(l.done, in.call()), l
	}
	mine := l.state.Leased() && l.holder == in.fence.WorkerID && l.attempt == in.fence.Attempt
	switch in.verb {
	case "claim":
		if l.state != pawl.ItemQueued || out.attempt != l.attempt+1 {
			return false, l
		}
		return true, life{state: pawl.ItemLeased, holder: in.fence.WorkerID, attempt: out.attempt, until: out.until, done: l.done}
	case "heartbeat":
		if !mine || !out.at.Before(l.until) {
			return false, l
		}
		l.state, l.until = pawl.ItemInProgress, out.until
		return true, l
	case "expire":
		if !mine || out.at.Before(l.until) {
			return false, l
		}
		return true, life{state: pawl.ItemQueued, holder: l.holder, attempt: l.attempt, left: "expired", done: l.done}
	}
	if !mine || !in.before.Before(l.until) {
		return false, l
	}
	to := map[string]pawl.ItemState{"complete": pawl.ItemCompleted, "fail": pawl.ItemQueued, "release": pawl.ItemQueued}[in.verb]
	return true, life{state: to, holder: l.holder, attempt: l.attempt, left: in.verb, done: l.done + in.call()}
}

// explains reports whether a refusal is right at this moment.
func (l life) explains(in asked, out told) bool {
	if out.state != string(l.state) {
		return false
	}
	mine := l.holder == in.fence.WorkerID && l.attempt == in.fence.Attempt
	over := l.state.Leased() && !in.after.Before(l.until)
	switch {
	case out.code == pawl.CodeConflict:
		return mine && !l.state.Leased()
	case out.reason == pawl.ReasonTaken:
		return !mine && out.holder == l.holder && out.attempt == l.attempt
	case out.reason == pawl.ReasonExpired:
		return mine && (over || l.left == "expired")
	case out.reason == pawl.ReasonReleased:
		return mine && l.left == "release"
	}
	return false
}

// historian records what workers do.
type historian struct {
	t     *testing.T
	p     *pawltest.Pawl
	start time.Time
	svcs  [2]pawl.Service
	last  int64 // the newest expiry that was recorded
	mu    sync.Mutex
	ops   []porcupine.Operation
}

// note runs a call and records its answer, once for each item that it took.
func (h *historian) note(client int, in asked, call func() map[string]told) {
	in.before = h.p.Now()
	begin := time.Since(h.start)
	outs := call()
	end := time.Since(h.start)
	in.after = h.p.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	for item, out := range outs {
		in.item = item
		h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Call: begin.Nanoseconds(), Output: out, Return: end.Nanoseconds()})
	}
}

// svc returns the engine of a worker. There are two engines, so that not all calls run in
// one process.
func (h *historian) svc(client int) pawl.Service { return h.svcs[client%2] }

// refusal returns what an error says about an item.
func (h *historian) refusal(verb string, err error) told {
	var e *pawl.Error
	if !errors.As(err, &e) || (e.Code != pawl.CodeConflict && e.Code != pawl.CodeLeaseLost) {
		h.t.Errorf("%s: %v", verb, err)
		return told{}
	}
	return told{code: e.Code, reason: e.Reason, state: e.State, holder: e.Holder, attempt: e.Attempt}
}

func (h *historian) claim(client int) []pawl.Lease {
	var got []pawl.Lease
	worker := fmt.Sprint("w", client)
	h.note(client, asked{verb: "claim", fence: pawl.Fence{WorkerID: worker}}, func() map[string]told {
		ls, err := h.svc(client).Claim(h.t.Context(), pawl.ClaimRequest{WorkerID: worker, LeaseSeconds: 2, Limit: 2})
		if err != nil {
			h.t.Errorf("claim: %v", err)
		}
		got = ls
		out := map[string]told{}
		for _, l := range ls {
			out[l.ID] = told{ok: true, attempt: l.Attempt, until: l.LeaseExpiresAt, at: l.ServerTime}
		}
		return out
	})
	return got
}

func (h *historian) work(client int, verb string, f pawl.Fence) {
	ctx, svc := h.t.Context(), h.svc(client)
	h.note(client, asked{verb: verb, fence: f}, func() map[string]told {
		out, err := told{ok: true}, error(nil)
		var moved pawl.Moved
		switch verb {
		case "heartbeat":
			var b pawl.Beat
			b, err = pawl.Heartbeat(ctx, svc, f)
			out.at, out.until = b.ServerTime, b.LeaseExpiresAt
		case "complete":
			moved, err = pawl.Complete(ctx, svc, f, nil)
		case "fail":
			moved, err = pawl.Fail(ctx, svc, f, pawl.RetryAfter(0, errors.New("no")))
		case "release":
			moved, err = pawl.Release(ctx, svc, f)
		}
		if out.repeated = moved.Repeated; err != nil {
			out = h.refusal(verb, err)
		}
		return map[string]told{f.ItemID: out}
	})
}

// sweep records what a sweep expired, as read from the event log.
func (h *historian) sweep() {
	begin := time.Since(h.start).Nanoseconds()
	if _, err := h.p.Service.Sweep(h.t.Context()); err != nil {
		h.t.Errorf("sweep: %v", err)
	}
	end := time.Since(h.start).Nanoseconds()
	list, err := h.p.Service.ListEvents(h.t.Context(), pawl.EventFilter{Event: "lease_expired", Page: pawl.Page{Limit: pawl.MaxPage}})
	if err != nil {
		h.t.Errorf("list events: %v", err)
	}
	slices.Reverse(list.Items)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range list.Items {
		id, _ := strconv.ParseInt(strings.TrimPrefix(e.ID, "evt_"), 10, 64)
		if id <= h.last {
			continue
		}
		h.last = id
		var holder struct {
			WorkerID string `json:"worker_id"`
		}
		readJSON(h.t, e.Data, &holder)
		in := asked{verb: "expire", item: e.ItemID, fence: pawl.Fence{ItemID: e.ItemID, WorkerID: holder.WorkerID, Attempt: e.Attempt}}
		h.ops = append(h.ops, porcupine.Operation{ClientId: 99, Input: in, Call: begin, Output: told{ok: true, at: e.CreatedAt}, Return: end})
	}
}

func TestConcurrentHistoriesAreLinearizable(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := &historian{t: t, p: p, start: time.Now(), svcs: [2]pawl.Service{p.Engine, p.Another(engine.Options{})}}
		for round := range times(2, 40) {
			seed := uint64(time.Now().UnixNano())
			h.ops = nil
			h.record(seed)
			if result := porcupine.CheckOperationsTimeout(lives, h.ops, 5*time.Minute); result != porcupine.Ok {
				t.Fatalf("round %d, seed %d: a history of %d calls is %s:\n%s", round, seed, len(h.ops), result, h.offence())
			}
			t.Logf("round %d: %s", round, h.sum())
		}
	})
}

// offence returns the history of the first item that cannot be explained.
func (h *historian) offence() string {
	for _, ops := range lives.Partition(h.ops) {
		if porcupine.CheckOperationsTimeout(lives, ops, 60*time.Second) == porcupine.Ok {
			continue
		}
		slices.SortFunc(ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
		out := ops[0].Input.(asked).item + "\n"
		for _, op := range ops {
			in, o := op.Input.(asked), op.Output.(told)
			out += fmt.Sprintf("%9d–%9d µs: %s by %s#%d, clock %s–%s: ", op.Call/1000, op.Return/1000, in.verb, in.fence.WorkerID,
				in.fence.Attempt,
				in.before.Sub(pawltest.Start), in.after.Sub(pawltest.Start))
			if !o.ok {
				out += fmt.Sprintf("%s %s, state %s, holder %s#%d\n", o.code, o.reason, o.state, o.holder, o.attempt)
				continue
			}
			out += fmt.Sprintf("done, attempt %d, at %s until %s\n", o.attempt, o.at.Sub(pawltest.Start), o.until.Sub(pawltest.Start))
		}
		return out
	}
	return "each item's by itself can be explained"
}

// sum counts what the history contains.
func (h *historian) sum() string {
	n := map[string]int{}
	for _, op := range h.ops {
		what := op.Input.(asked).verb
		if out := op.Output.(told); !out.ok {
			what = "refused: " + string(out.code) + " " + out.reason
		}
		n[what]++
	}
	return fmt.Sprint(len(h.ops), " calls: ", n)
}

// record runs sixteen workers on a few items while time passes and leases expire.
func (h *historian) record(seed uint64) {
	items := make([]pawl.NewItem, 60)
	for n := range items {
		items[n].Input = []byte(`1`)
	}
	task := need[pawl.Task](h.t)(pawl.Create(h.t.Context(), h.p.Service, pawl.NewTask{Type: "a", MaxAttempts: 1000, Items: items}))
	stop := make(chan struct{})
	var background, workers sync.WaitGroup
	always := func(pause time.Duration, fn func()) {
		background.Go(func() {
			for tick := time.NewTicker(pause); ; fn() {
				select {
				case <-stop:
					tick.Stop()
					return
				case <-tick.C:
				}
			}
		})
	}
	always(2*time.Millisecond, func() { h.p.Advance(100 * time.Millisecond) })
	always(20*time.Millisecond, h.sweep)
	for client := range 16 {
		workers.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(client)))
			var held []pawl.Fence
			for range 40 {
				if len(held) == 0 || rnd.IntN(4) == 0 {
					for _, l := range h.claim(client) {
						held = append(held, l.Fence())
					}
					held = held[max(0, len(held)-4):] // including expired ones
					continue
				}
				verb := []string{"heartbeat", "heartbeat", "heartbeat", "heartbeat", "complete", "fail", "release"}[rnd.IntN(7)]
				h.work(client, verb, held[rnd.IntN(len(held))])
			}
		})
	}
	workers.Wait()
	close(stop)
	background.Wait()
	_ = need[pawl.Task](h.t)(pawl.Cancel(h.t.Context(), h.p.Service, task.ID, ""))
}
