package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
)

// child notes a child of a task, with the key under which it was spawned; "" = it was created.
func (w *concurrentWalk) child(parent, key string, child pawl.Task, err error) error {
	if err = w.noted(nil, child, err); err != nil {
		return err
	}
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	w.record.parents[child.ID] = parent
	if key == "" {
		return nil
	}
	if w.record.children[parent] == nil {
		w.record.children[parent] = map[string]string{}
	}
	if was := w.record.children[parent][key]; was != "" && was != child.ID && !w.record.gone[was] {
		return fmt.Errorf("task %s has two children %q: %s and %s", parent, key, was, child.ID)
	}
	w.record.children[parent][key] = child.ID
	return nil
}

func (w *concurrentWalk) spawn(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	c, found := w.drawClaim(draw, "family")
	if !found {
		return w.raise(ctx, draw, svc)
	}
	return w.spawnOf(ctx, svc, c, fmt.Sprint("k", draw.IntN(3)))
}

func (w *concurrentWalk) spawnOf(ctx context.Context, svc pawl.Service, c walkClaim, key string) error {
	child, err := first(svc.Spawn(ctx, []pawl.SpawnCall{{Fence: c.Fence, Key: key, Task: pawl.NewTask{Type: "child"}}}))
	return w.child(c.task, key, child, err)
}

// await suspends an item until children of its task have ended.
func (w *concurrentWalk) await(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	c, found := w.drawClaim(draw, "family")
	if !found {
		return w.raise(ctx, draw, svc)
	}
	return w.awaitOf(ctx, draw, svc, c)
}

func (w *concurrentWalk) awaitOf(ctx context.Context, draw *rand.Rand, svc pawl.Service, c walkClaim) error {
	w.record.mu.Lock()
	ids := slices.Sorted(maps.Values(w.record.children[c.task]))
	w.record.mu.Unlock()
	if len(ids) == 0 {
		return w.read(ctx, draw, svc)
	}
	wait := pawl.ChildWait{IDs: ids, OnFailure: []string{pawl.OnFailureContinue, pawl.OnFailureFail, pawl.OnFailureCancel}[draw.IntN(3)]}
	if draw.IntN(4) == 0 {
		wait.Need = pawl.NeedAny
	}
	_, err := first(svc.Suspend(ctx, []pawl.SuspendCall{{Fence: c.Fence, Children: &wait}}))
	return err
}

// raise makes a task with children, which waits for them.
func (w *concurrentWalk) raise(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	_, err := w.raised(ctx, draw, svc)
	return err
}

func (w *concurrentWalk) raised(ctx context.Context, draw *rand.Rand, svc pawl.Service) (parent string, err error) {
	task, err := first(svc.CreateTasks(ctx, []pawl.NewTask{{Type: "family", MaxAttempts: 3}}))
	if err = w.noted(nil, task, err); err != nil {
		return "", err
	}
	got, err := svc.Claim(ctx, pawl.ClaimRequest{WorkerID: "w1", TaskID: task.ID, LeaseSeconds: 60})
	if err != nil || len(got) == 0 { // another worker was faster
		return task.ID, err
	}
	c := claimOf(&got[0])
	w.claimed(c)
	for n := range 1 + draw.IntN(3) {
		if err := w.spawnOf(ctx, svc, c, fmt.Sprint("k", n)); err != nil {
			return task.ID, err
		}
	}
	return task.ID, w.awaitOf(ctx, draw, svc, c)
}

// deleteBeside deletes a task without force, at the same time as a child of it is created. A delete
// that is refused has changed nothing.
func (w *concurrentWalk) deleteBeside(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	ahead := pawl.Never
	parent, err := first(svc.CreateTasks(ctx, []pawl.NewTask{{Type: "plain", RunAt: &ahead}}))
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.deleted = true // another worker may claim the child before it is deleted
	w.mu.Unlock()
	var child pawl.Task
	var created, deleted error
	var both sync.WaitGroup
	call := []pawl.TaskCall{{TaskID: parent.ID}}
	both.Go(func() {
		child, created = first(svc.CreateTasks(ctx, []pawl.NewTask{{Type: "child", ParentID: parent.ID}}))
	})
	both.Go(func() { _, deleted = first(w.engines[draw.IntN(2)].DeleteTasks(asOperator(ctx), call)) })
	both.Wait()
	if errors.Is(deleted, pawl.ErrConflict) {
		if now, err := svc.GetTask(ctx, parent.ID); err != nil || now.State.Ended() {
			return fmt.Errorf("a delete was refused: %v; the task %s is %s, %v", deleted, parent.ID, now.State, err)
		}
		if _, deleted = first(svc.DeleteTasks(asOperator(ctx), []pawl.TaskCall{{TaskID: parent.ID, Force: true}})); deleted == nil {
			return nil
		}
	}
	if deleted != nil && !errors.Is(deleted, pawl.ErrNotFound) { // the task may or may not exist now
		w.mu.Lock()
		w.doubtful = append(w.doubtful, parent.ID)
		w.mu.Unlock()
	}
	if created == nil && deleted == nil {
		if _, err := svc.GetTask(ctx, child.ID); err == nil {
			return fmt.Errorf("the task %s was deleted and its child %s is there", parent.ID, child.ID)
		}
	}
	if errors.Is(created, pawl.ErrNotFound) || errors.Is(created, pawl.ErrConflict) {
		created = nil
	}
	return errors.Join(created, deleted)
}

// restoreApart restores parents without their children, and checks that each has them all. Of every
// second family the children come back first, and are archived again while the parent is there.
func (w *concurrentWalk) restoreApart() {
	w.Helper()
	var alone, later []string
	for n, parent := range slices.Sorted(maps.Keys(w.record.children)) {
		if !slices.Contains(w.tasks, parent) {
			continue
		}
		if n%2 == 0 {
			alone = append(alone, parent)
			w.restoreNow(parent)
			continue
		}
		later = append(later, parent)
		for _, child := range w.record.children[parent] {
			w.restoreNow(child)
		}
	}
	if len(alone)+len(later) == 0 {
		return
	}
	w.checkKeysOf(alone, "a parent that was restored alone")
	w.p.Advance(30 * time.Second)
	for _, parent := range later {
		w.restoreNow(parent)
	}
	w.p.Advance(40 * time.Second)
	_, err := w.p.Service.Sweep(w.Context())
	w.accept(err)
	w.checkKeysOf(later, "a parent whose children were archived")
}

// restoreNow restores a task, unless it is there or was deleted.
func (w *concurrentWalk) restoreNow(task string) {
	w.Helper()
	_, err := w.p.Service.RestoreArchive(w.Context(), task)
	if !errors.Is(err, pawl.ErrConflict) && !errors.Is(err, pawl.ErrNotFound) {
		w.accept(err)
	}
}

func (w *concurrentWalk) checkKeysOf(parents []string, of string) {
	w.Helper()
	for _, parent := range parents {
		for key, child := range w.record.children[parent] {
			if slices.Contains(w.tasks, child) && w.keyOf(child) != key {
				w.Errorf("%s, %s, has no child %q, which was %s", of, parent, key, child)
			}
		}
	}
}
