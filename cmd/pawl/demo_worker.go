package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/worker"
)

// told is one line that a worker of the demo writes to its parent.
type told struct {
	Step    string `json:"step,omitempty"`    // ran, replayed
	Gate    string `json:"gate,omitempty"`    // kill, freeze: it stands at the gate
	Item    string `json:"item,omitempty"`    // where
	Attempt int    `json:"attempt,omitempty"` // by which claim
	Refused string `json:"refused,omitempty"` // a stale write that was refused: the verb
	Taken   string `json:"taken,omitempty"`   // a stale write that was accepted: there must be none
	Thawed  bool   `json:"thawed,omitempty"`  // it is through with its stale writes
}

// demoWorker is one worker process of the demo.
type demoWorker struct {
	svc  *gate
	root string
	gate string // kill or freeze, in the middle of its first item; "" = none
	tell func(told)
	goOn chan struct{}
	once sync.Once
}

func (a *app) demoWorkerCmd() *cobra.Command {
	var d demoWorker
	var o worker.Options
	var typ string
	cmd := a.verb("demo-worker", "A worker of the demo", cobra.NoArgs, with(a, func(ctx context.Context, s pawl.Claimer, _ []string) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		d.goOn = make(chan struct{})
		go d.obey(a, stop)
		var mu sync.Mutex
		d.tell = func(t told) {
			mu.Lock()
			defer mu.Unlock()
			_ = a.encode(t, false) // a parent that is gone hears nothing
		}
		d.svc = &gate{Claimer: s, tell: d.tell}
		o.Concurrency, o.WaitSeconds, o.NoPrefetch, o.StopGrace, o.Logger = 1, 1, true, time.Second, a.log()
		return worker.RunWith(ctx, d.svc, o, worker.Handle(typ, d.do))
	}))
	cmd.Hidden = true
	f := cmd.Flags()
	f.StringVar(&o.ID, "id", "", "its name")
	f.StringVar(&o.TaskID, "task", "", "the task")
	f.IntVar(&o.LeaseSeconds, "lease", 3, "seconds of a lease")
	f.StringVar(&typ, "type", "", "the task's type")
	f.StringVar(&d.root, "input", "", "the tree")
	f.StringVar(&d.gate, "gate", "", "kill or freeze")
	return cmd
}

// obey reads what the parent says: a line lets a thawed worker go on, the end
// of it ends the worker.
func (d *demoWorker) obey(a *app, stop func()) {
	in := bufio.NewScanner(a.stdin)
	in.Scan()
	close(d.goOn)
	for in.Scan() {
		continue
	}
	stop()
}

// do is the handler: a step for each file, and half way through its first item
// the gate.
func (d *demoWorker) do(ctx context.Context, set fileSet) (setFacts, error) {
	half := max(1, len(set.Files)/2)
	return set.sum(func(i int, path string) (fileFacts, error) {
		if i == half {
			if err := d.stand(ctx); err != nil {
				return fileFacts{}, err
			}
		}
		step := "replayed"
		facts, err := pawl.Step(ctx, stepName(i, path), func(context.Context) (fileFacts, error) {
			step = "ran"
			return factsOf(d.root, path)
		})
		if err == nil || step == "ran" {
			d.tell(told{Step: step})
		}
		return facts, err
	})
}

// stepName is the file's path, or its number where that is too long for a name.
func stepName(i int, path string) string {
	if len(path) <= pawl.MaxStepNameLen {
		return path
	}
	return fmt.Sprintf("file %d", i+1)
}

// stand stops at the gate, once in this worker's life.
func (d *demoWorker) stand(ctx context.Context) (err error) {
	if d.gate == "" {
		return nil
	}
	d.once.Do(func() {
		lease, ferr := pawl.ItemFrom(ctx)
		if ferr != nil {
			err = ferr
			return
		}
		switch at := (told{Gate: d.gate, Item: lease.ID, Attempt: lease.Attempt}); d.gate {
		case "kill":
			d.tell(at)
			select {} // the lease is kept until the parent's SIGKILL
		case "freeze":
			d.svc.shut(func() {
				d.tell(at)
				if err = freeze(); err == nil {
					<-d.goOn
				}
			})
			d.stale(ctx, lease.Fence())
			d.tell(told{Thawed: true})
		}
	})
	return err
}

// stale tries every write there is under a lease that is over.
func (d *demoWorker) stale(ctx context.Context, f pawl.Fence) {
	ctx = context.WithoutCancel(ctx)
	percent, why, null := 50, pawl.Failure{Message: "from a frozen worker"}, json.RawMessage("null")
	try(d, "heartbeat", one(d.svc.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: f}})))
	try(d, "progress", one(d.svc.Progress(ctx, []pawl.ProgressCall{{Fence: f, Progress: &percent}})))
	try(d, "checkpoint", one(d.svc.Checkpoint(ctx, []pawl.CheckpointCall{{Fence: f, NewCheckpoint: pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Snapshot: null}}})))
	try(d, "fail", one(d.svc.Fail(ctx, []pawl.FailCall{{Fence: f, Error: why}})))
	try(d, "release", one(d.svc.Release(ctx, []pawl.ReleaseCall{{Fence: f}})))
	until := clock.Now().Add(time.Hour)
	try(d, "suspend", one(d.svc.Suspend(ctx, []pawl.SuspendCall{{Fence: f, Until: &until}})))
	try(d, "complete", one(d.svc.Complete(ctx, []pawl.CompleteCall{{Fence: f, Result: null}})))
}

func try(d *demoWorker, verb string, err error) {
	if err == nil {
		d.tell(told{Taken: verb})
	}
}

// one is the error of a batch of one.
func one[T any](rs []pawl.Result[T], err error) error {
	if err != nil || len(rs) != 1 {
		return errors.Join(err, errors.New("no answer"))
	}
	return rs[0].Err
}

// gate is a door to Pawl that can be shut: a process that freezes itself inside
// a write transaction on SQLite would hold up everybody. It tells of every write
// that the fence refused.
type gate struct {
	pawl.Claimer
	mu   sync.RWMutex // held for reading by every call
	tell func(told)
}

// shut runs fn while no call is under way.
func (g *gate) shut(fn func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	fn()
}

func through[C, V any](ctx context.Context, g *gate, verb string, call func(context.Context, []C) ([]pawl.Result[V], error), calls []C) ([]pawl.Result[V], error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	rs, err := call(ctx, calls)
	for _, r := range rs {
		if errors.Is(r.Err, pawl.ErrLeaseLost) {
			g.tell(told{Refused: verb})
		}
	}
	return rs, err
}

func (g *gate) Claim(ctx context.Context, req pawl.ClaimRequest) ([]pawl.Lease, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.Claimer.Claim(ctx, req)
}

func (g *gate) Heartbeat(ctx context.Context, calls []pawl.HeartbeatCall) ([]pawl.Result[pawl.Beat], error) {
	return through(ctx, g, "heartbeat", g.Claimer.Heartbeat, calls)
}

func (g *gate) Release(ctx context.Context, calls []pawl.ReleaseCall) ([]pawl.Result[pawl.Moved], error) {
	return through(ctx, g, "release", g.Claimer.Release, calls)
}

func (g *gate) Suspend(ctx context.Context, calls []pawl.SuspendCall) ([]pawl.Result[pawl.Moved], error) {
	return through(ctx, g, "suspend", g.Claimer.Suspend, calls)
}

func (g *gate) Complete(ctx context.Context, calls []pawl.CompleteCall) ([]pawl.Result[pawl.Moved], error) {
	return through(ctx, g, "complete", g.Claimer.Complete, calls)
}

func (g *gate) Fail(ctx context.Context, calls []pawl.FailCall) ([]pawl.Result[pawl.Moved], error) {
	return through(ctx, g, "fail", g.Claimer.Fail, calls)
}

func (g *gate) Progress(ctx context.Context, calls []pawl.ProgressCall) ([]pawl.Result[pawl.Moved], error) {
	return through(ctx, g, "progress", g.Claimer.Progress, calls)
}

func (g *gate) Checkpoint(ctx context.Context, calls []pawl.CheckpointCall) ([]pawl.Result[pawl.CheckpointRef], error) {
	return through(ctx, g, "checkpoint", g.Claimer.Checkpoint, calls)
}

func (g *gate) Resume(ctx context.Context, itemID string) (pawl.ResumeState, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.Claimer.Resume(ctx, itemID)
}

func (g *gate) RegisterWorker(ctx context.Context, w pawl.WorkerInfo) error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.Claimer.RegisterWorker(ctx, w)
}
