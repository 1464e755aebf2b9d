package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/childproc"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/worker"
)

// report is one line that a worker process writes to its parent.
type report struct {
	Step     string `json:"step,omitempty"`    // ran, replayed
	Pause    string `json:"gate,omitempty"`    // kill, freeze: it stands at the gate
	Item     string `json:"item,omitempty"`    // where
	Attempt  int    `json:"attempt,omitempty"` // by which claim
	Refused  string `json:"refused,omitempty"` // a stale write that was refused: the verb
	Accepted string `json:"taken,omitempty"`   // a stale write that was accepted: there must be none
	Thawed   bool   `json:"thawed,omitempty"`  // it is through with its stale writes
}

// workerProcess is one worker process of the demo.
type workerProcess struct {
	svc    *blockingClaimer
	root   string
	pause  string // kill or freeze, in the middle of its first item; "" = none
	report func(report)
	thawed chan struct{}
	once   sync.Once
}

// WorkerOptions configure a worker process of the demo.
type WorkerOptions struct {
	ID, TaskID, Type string
	LeaseSeconds     int
	Input            string // the tree of files
	Pause            string // kill or freeze: stop in the middle of the first item to be killed, or to freeze; "" = neither
	Stdin            io.Reader
	Stdout           io.Writer
	Log              *slog.Logger
}

// Work runs a worker process: it reports to the parent on Stdout and ends with Stdin.
func Work(ctx context.Context, c pawl.Claimer, o WorkerOptions) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	d := workerProcess{root: o.Input, pause: o.Pause, thawed: make(chan struct{})}
	go d.readStdin(o.Stdin, stop)
	var mu sync.Mutex
	d.report = func(t report) {
		mu.Lock()
		defer mu.Unlock()
		_ = encode(o.Stdout, t) // the parent may have ended
	}
	d.svc = &blockingClaimer{Claimer: c, report: d.report}
	return worker.RunWith(
		ctx,
		d.svc,
		worker.Options{
			ID:           o.ID,
			TaskID:       o.TaskID,
			LeaseSeconds: o.LeaseSeconds,
			Concurrency:  1,
			WaitSeconds:  1,
			NoPrefetch:   true,
			StopGrace:    time.Second,
			Logger:       o.Log,
		},
		worker.Handle(o.Type, d.handle),
	)
}

// readStdin waits for a line of the parent, which resumes a frozen worker. The end of stdin
// stops the worker.
func (d *workerProcess) readStdin(stdin io.Reader, stop func()) {
	in := bufio.NewScanner(stdin)
	in.Scan()
	close(d.thawed)
	for in.Scan() {
		continue
	}
	stop()
}

// handle is the handler: a step for each file. It pauses half-way through the process's
// first item.
func (d *workerProcess) handle(ctx context.Context, set fileSet) (setFacts, error) {
	half := max(1, len(set.Files)/2)
	return set.sum(func(i int, path string) (fileFacts, error) {
		if i == half {
			if err := d.pauseOnce(ctx); err != nil {
				return fileFacts{}, err
			}
		}
		step := "replayed"
		facts, err := pawl.Step(ctx, stepName(i, path), func(context.Context) (fileFacts, error) {
			step = "ran"
			return factsOf(d.root, path)
		})
		if err == nil || step == "ran" {
			d.report(report{Step: step})
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

// pauseOnce waits to be killed or freezes, once in the life of the process.
func (d *workerProcess) pauseOnce(ctx context.Context) (err error) {
	if d.pause == "" {
		return nil
	}
	d.once.Do(func() {
		lease, ferr := pawl.ItemFrom(ctx)
		if ferr != nil {
			err = ferr
			return
		}
		switch at := (report{Pause: d.pause, Item: lease.ID, Attempt: lease.Attempt}); d.pause {
		case "kill":
			d.report(at)
			select {} // the lease is kept until the parent's SIGKILL
		case "freeze":
			d.svc.block(func() {
				d.report(at)
				if err = childproc.Freeze(); err == nil {
					<-d.thawed
				}
			})
			d.tryStaleWrites(ctx, lease.Fence())
			d.report(report{Thawed: true})
		}
	})
	return err
}

// tryStaleWrites tries every write under a lost lease.
func (d *workerProcess) tryStaleWrites(ctx context.Context, f pawl.Fence) {
	ctx = context.WithoutCancel(ctx)
	percent, why, null := 50, pawl.Failure{Message: "from a frozen worker"}, json.RawMessage("null")
	reportAccepted(d, "heartbeat", onlyError(d.svc.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: f}})))
	reportAccepted(d, "progress", onlyError(d.svc.Progress(ctx, []pawl.ProgressCall{{Fence: f, Progress: &percent}})))
	reportAccepted(
		d,
		"checkpoint",
		onlyError(
			d.svc.Checkpoint(ctx, []pawl.CheckpointCall{{Fence: f, NewCheckpoint: pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Snapshot: null}}}),
		),
	)
	reportAccepted(d, "fail", onlyError(d.svc.Fail(ctx, []pawl.FailCall{{Fence: f, Error: why}})))
	reportAccepted(d, "release", onlyError(d.svc.Release(ctx, []pawl.ReleaseCall{{Fence: f}})))
	until := clock.Now().Add(time.Hour)
	reportAccepted(d, "suspend", onlyError(d.svc.Suspend(ctx, []pawl.SuspendCall{{Fence: f, Until: &until}})))
	reportAccepted(d, "complete", onlyError(d.svc.Complete(ctx, []pawl.CompleteCall{{Fence: f, Result: null}})))
}

func reportAccepted(d *workerProcess, verb string, err error) {
	if err == nil {
		d.report(report{Accepted: verb})
	}
}

// onlyError is the error of a batch of one.
func onlyError[T any](rs []pawl.Result[T], err error) error {
	if err != nil || len(rs) != 1 {
		return errors.Join(err, errors.New("no answer"))
	}
	return rs[0].Err
}

// blockingClaimer is a Claimer whose calls can be blocked: a process that freezes
// inside a write transaction on SQLite would block all others. It reports every write
// that the fence refused.
type blockingClaimer struct {
	pawl.Claimer
	mu     sync.RWMutex // held for reading by every call
	report func(report)
}

// block runs fn while no call is in flight.
func (g *blockingClaimer) block(fn func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	fn()
}

func forward[C, V any](
	ctx context.Context,
	g *blockingClaimer,
	verb string,
	call func(context.Context, []C) ([]pawl.Result[V], error),
	calls []C,
) ([]pawl.Result[V], error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	rs, err := call(ctx, calls)
	for _, r := range rs {
		if errors.Is(r.Err, pawl.ErrLeaseLost) {
			g.report(report{Refused: verb})
		}
	}
	return rs, err
}

func (g *blockingClaimer) Claim(ctx context.Context, req pawl.ClaimRequest) ([]pawl.Lease, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.Claimer.Claim(ctx, req)
}

func (g *blockingClaimer) Heartbeat(ctx context.Context, calls []pawl.HeartbeatCall) ([]pawl.Result[pawl.Beat], error) {
	return forward(ctx, g, "heartbeat", g.Claimer.Heartbeat, calls)
}

func (g *blockingClaimer) Release(ctx context.Context, calls []pawl.ReleaseCall) ([]pawl.Result[pawl.Moved], error) {
	return forward(ctx, g, "release", g.Claimer.Release, calls)
}

func (g *blockingClaimer) Suspend(ctx context.Context, calls []pawl.SuspendCall) ([]pawl.Result[pawl.Moved], error) {
	return forward(ctx, g, "suspend", g.Claimer.Suspend, calls)
}

func (g *blockingClaimer) Complete(ctx context.Context, calls []pawl.CompleteCall) ([]pawl.Result[pawl.Moved], error) {
	return forward(ctx, g, "complete", g.Claimer.Complete, calls)
}

func (g *blockingClaimer) Fail(ctx context.Context, calls []pawl.FailCall) ([]pawl.Result[pawl.Moved], error) {
	return forward(ctx, g, "fail", g.Claimer.Fail, calls)
}

func (g *blockingClaimer) Progress(ctx context.Context, calls []pawl.ProgressCall) ([]pawl.Result[pawl.Moved], error) {
	return forward(ctx, g, "progress", g.Claimer.Progress, calls)
}

func (g *blockingClaimer) Checkpoint(ctx context.Context, calls []pawl.CheckpointCall) ([]pawl.Result[pawl.CheckpointRef], error) {
	return forward(ctx, g, "checkpoint", g.Claimer.Checkpoint, calls)
}

func (g *blockingClaimer) Resume(ctx context.Context, itemID string) (pawl.ResumeState, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.Claimer.Resume(ctx, itemID)
}

func (g *blockingClaimer) ResumePage(ctx context.Context, itemID, cursor string) (pawl.ResumeState, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.Claimer.ResumePage(ctx, itemID, cursor)
}

func (g *blockingClaimer) RegisterWorker(ctx context.Context, w pawl.WorkerInfo) error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.Claimer.RegisterWorker(ctx, w)
}
