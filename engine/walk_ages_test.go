package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/store"
)

// checkpoint saves a checkpoint of a claim's item.
func (w *concurrentWalk) checkpoint(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	c, found := w.drawClaim(draw, "")
	if !found {
		return w.claim(ctx, draw, svc)
	}
	n := pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Snapshot: []byte(`1`)}
	ref, err := first(svc.Checkpoint(ctx, []pawl.CheckpointCall{{Fence: c.Fence, NewCheckpoint: n}}))
	if err == nil {
		w.record.checkpoint(c.task, ref.Sequence)
	}
	return err
}

func (w *concurrentWalk) checkpointTask(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	id := w.drawTask(draw)
	n := pawl.NewCheckpoint{Type: pawl.ManualCheckpoint, Snapshot: []byte(`1`)}
	ref, err := first(svc.CheckpointTasks(ctx, []pawl.TaskCheckpoint{{TaskID: id, NewCheckpoint: n}}))
	if err == nil {
		w.record.checkpoint(id, ref.Sequence)
	}
	return err
}

func (w *concurrentWalk) appendCheckpoints(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	return w.appendCheckpointTo(ctx, svc, w.drawTask(draw))
}

// appendCheckpointTo appends a checkpoint, which leaves no event.
func (w *concurrentWalk) appendCheckpointTo(ctx context.Context, svc pawl.Service, task string) error {
	n := pawl.AppendedCheckpoint{NewCheckpoint: pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Snapshot: []byte(`2`)}}
	got, err := first(svc.AppendCheckpoints(ctx, []pawl.CheckpointAppend{{TaskID: task, Checkpoints: []pawl.AppendedCheckpoint{n}}}))
	if err == nil {
		w.record.checkpoint(task, got.Checkpoints[0].Sequence)
	}
	return err
}

// wearOut makes a task that fails, with a message of its own.
func (w *concurrentWalk) wearOut(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	_, err := w.wornOut(ctx, draw, svc)
	return err
}

func (w *concurrentWalk) wornOut(ctx context.Context, draw *rand.Rand, svc pawl.Service) (id string, err error) {
	task, err := first(svc.CreateTasks(ctx, []pawl.NewTask{{Type: "brief", MaxAttempts: 1}}))
	if err = w.noted(nil, task, err); err != nil {
		return "", err
	}
	if err = w.openMessageOf(ctx, draw, svc, task.ID); err != nil {
		return "", err
	}
	got, err := svc.Claim(ctx, pawl.ClaimRequest{WorkerID: "w3", TaskID: task.ID})
	for n := range got {
		w.claimed(claimOf(&got[n]))
		no := false
		_, err = first(svc.Fail(ctx, []pawl.FailCall{{Fence: got[n].Fence(), Error: pawl.Failure{Message: "worn out"}, Retryable: &no}}))
	}
	return task.ID, err
}

// checkAges checks that a failed task is kept for its time from its newest checkpoint.
func (w *concurrentWalk) checkAges(draw *rand.Rand) {
	w.Helper()
	if w.theme.name != "ages" || w.Failed() {
		return
	}
	var failed []string
	for range 2 {
		id, err := w.wornOut(w.Context(), draw, w.p.Service)
		w.accept(err)
		failed = append(failed, id)
	}
	w.p.Advance(40 * time.Second)
	for n, id := range failed {
		if n == 0 {
			w.accept(w.appendCheckpointTo(w.Context(), w.p.Service, id))
		} else {
			w.accept(w.appendTo(w.Context(), w.p.Service, w.said[len(w.said)-1])) // of the last task
		}
	}
	w.p.Advance(40 * time.Second)
	_, err := w.p.Service.Sweep(w.Context())
	w.accept(err)
	for _, id := range failed {
		if _, err := w.p.Service.GetTask(w.Context(), id); err != nil {
			w.Errorf("40 s after its newest checkpoint or chunk, the task %s: %v", id, err)
		}
	}
}

// age lets time pass, and sweeps while failed tasks get checkpoints and chunks.
func (w *concurrentWalk) age(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	w.mu.Lock()
	tasks, said := w.tasks, w.said
	w.mu.Unlock()
	var fits []string
	for _, id := range tasks {
		if w.typeOf(id) == "brief" {
			fits = append(fits, id)
		}
	}
	w.p.Advance(time.Duration(20+draw.IntN(45)) * time.Second)
	var both sync.WaitGroup
	errs := make([]error, 2)
	seed := draw.Uint64()
	both.Go(func() {
		draw := rand.New(rand.NewPCG(seed, 0))
		for range 6 {
			var err error
			if n := draw.IntN(len(fits) + 1); n < len(fits) {
				err = w.appendCheckpointTo(ctx, svc, fits[n])
			} else if len(said) > 0 {
				err = w.appendTo(ctx, svc, said[draw.IntN(len(said))])
			}
			w.mu.Lock()
			if err != nil && !w.foreseen("append", err) {
				errs[0] = err
			}
			w.mu.Unlock()
		}
	})
	both.Go(func() { _, errs[1] = w.engines[draw.IntN(2)].Sweep(ctx) })
	both.Wait()
	return errors.Join(errs...)
}

func (w *concurrentWalk) typeOf(task string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.types[task]
}

// fork makes a fork of a task, which may be archived.
func (w *concurrentWalk) fork(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	id, at := w.drawTask(draw), int64(0)
	w.record.mu.Lock()
	if numbers := w.record.checkpoints[id]; len(numbers) > 0 {
		at = numbers[draw.IntN(len(numbers))]
	}
	w.record.mu.Unlock()
	task, err := first(svc.ForkTasks(ctx, []pawl.TaskFork{{TaskID: id, Checkpoint: at}}))
	return w.noted(nil, task, err)
}

// replace creates a task that replaces the payload of the one before, which may be in the log already.
func (w *concurrentWalk) replace(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	n := pawl.NewTask{Type: []string{"plain", "brief"}[draw.IntN(2)]}
	key, ahead := fmt.Sprint(w.round, "/", draw.IntN(2)), w.p.Now().Add(10*time.Second)
	if draw.IntN(2) == 0 {
		n.Debounce = &pawl.Debounce{Key: key, Seconds: 5}
	} else {
		n.Unique = &pawl.Unique{By: pawl.UniqueByKey, Key: key, OnConflict: pawl.OnConflictReplace}
		if draw.IntN(2) == 0 {
			n.RunAt = &ahead
		}
	}
	if err := w.replaceBy(ctx, draw, svc, n, key); err != nil || draw.IntN(2) == 0 {
		return err
	}
	if _, err := svc.Sweep(ctx); err != nil {
		return err
	}
	return w.replaceBy(ctx, draw, svc, n, key)
}

func (w *concurrentWalk) replaceBy(ctx context.Context, draw *rand.Rand, svc pawl.Service, n pawl.NewTask, key string) error {
	n.Payload = fmt.Append(nil, draw.Uint32())
	w.record.mu.Lock()
	w.record.payloads[key] = append(w.record.payloads[key], string(n.Payload))
	w.record.mu.Unlock()
	task, err := first(svc.CreateTasks(ctx, []pawl.NewTask{n}))
	if err == nil {
		w.record.mu.Lock()
		w.record.unique[task.ID] = key
		w.record.mu.Unlock()
	}
	return w.noted(nil, task, err)
}

func (w *concurrentWalk) sendSignal(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	call := pawl.SignalCall{Name: w.signal(), Key: walkSignals[draw.IntN(len(walkSignals))]}
	_, err := first(svc.SendSignals(ctx, []pawl.SignalCall{call}))
	if err == nil {
		w.record.mu.Lock()
		defer w.record.mu.Unlock()
		w.record.signals[walkSignal{call.Name, call.Key}] = true
	}
	return err
}

// walkSignal is the name and the key of a signal.
type walkSignal struct{ Name, Key string }

// makeLasting makes what belongs to no task and refers to a blob: a schedule that is paused, and a signal.
func (w *concurrentWalk) makeLasting() {
	w.Helper()
	ctx, svc := w.Context(), w.p.Service
	refer := func(n int) []byte {
		b, err := svc.PutBlob(ctx, pawl.BlobUpload{Content: noise(uint64(n), 1000)})
		w.accept(err)
		w.blobs[n] = b.Address
		return fmt.Appendf(nil, `{"file":{"$blob":%q}}`, b.Address)
	}
	task := pawl.NewTask{Type: "plain", Payload: refer(0)}
	_, err := svc.CreateSchedule(ctx, pawl.NewSchedule{Name: "walk", EverySeconds: 86400, Task: task})
	w.accept(err)
	_, err = svc.PauseSchedule(ctx, "walk")
	w.accept(err)
	w.sendLasting = func() {
		_, err := first(svc.SendSignals(ctx, []pawl.SignalCall{{Name: "lasting", Payload: refer(1)}}))
		w.accept(err)
	}
	w.sendLasting()
}

// hoursPass moves the time on. The processes know the numbers of keys for some minutes, which pass too.
func (w *concurrentWalk) hoursPass(d time.Duration) {
	w.p.Advance(d)
	for _, e := range append(w.engines[:], w.p.Engine) {
		e.ForgetGates()
	}
}

// monthsPass lets a day pass, in which no blob may be removed that something refers to, and then the
// longest retention. Several passes then remove what is left of deleted tasks at once.
func (w *concurrentWalk) monthsPass() {
	w.Helper()
	w.hoursPass(pawl.DefaultRetainBlobs + time.Hour)
	_, err := w.p.Service.Sweep(w.Context())
	w.accept(err)
	for n, address := range w.blobs {
		_, r, err := w.p.Service.OpenBlob(w.Context(), address)
		if err != nil {
			w.Errorf("the blob of %s cannot be read: %v", []string{"a schedule", "a signal"}[n], err)
			continue
		}
		w.accept(r.Close())
	}
	w.hoursPass(pawl.DefaultRetainFailed + time.Hour)
	w.together(func(e *engine.Engine) error { // the step of a pass that removes them
		return e.DB().Do(w.Context(), func(ctx context.Context, tx store.Tx) error {
			now, err := tx.Now(ctx)
			if err == nil {
				_, err = store.RemoveTombstones(ctx, tx, now-pawl.DefaultRetainFailed.Microseconds(), 100)
			}
			return err
		})
	})
	w.together(func(e *engine.Engine) error {
		_, err := e.Sweep(w.Context())
		return err
	})
	w.checkRules("after months")
	w.checkLog()
	w.sendLasting()
}

// together runs a step in all engines at once.
func (w *concurrentWalk) together(step func(e *engine.Engine) error) {
	w.Helper()
	var all sync.WaitGroup
	start := make(chan struct{})
	for _, e := range []*engine.Engine{w.engines[0], w.engines[1], w.p.Engine} {
		all.Go(func() {
			<-start
			w.accept(step(e))
		})
	}
	close(start)
	all.Wait()
}
