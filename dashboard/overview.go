package dashboard

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// maxStuck is how many types of stuck work the overview explains.
const maxStuck = 12

// stuckWork is the work of one type in one state that does not go on, with the explanation of
// its oldest item.
type stuckWork struct {
	Type  string
	State string
	Count int64
	pawl.Why
}

// NoWorker reports whether no worker takes the type.
func (s stuckWork) NoWorker() bool { return s.Reason == pawl.BlockedByNoWorker }

// answers keeps answers of questions that read much, by name, for twenty times as long as one
// took to find.
type answers[T any] struct {
	mu   sync.Mutex
	kept map[string]answer[T]
}

type answer[T any] struct {
	list []T
	till time.Time
}

// maxAnswers bounds the names of answers.
const maxAnswers = 1000

func (a *answers[T]) get(name string, find func() ([]T, error)) ([]T, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	began := clock.Now()
	if k, ok := a.kept[name]; ok && began.Before(k.till) {
		return k.list, nil
	}
	out, err := find()
	if err != nil {
		return nil, err
	}
	if a.kept == nil || len(a.kept) >= maxAnswers {
		a.kept = map[string]answer[T]{}
	}
	now := clock.Now()
	a.kept[name] = answer[T]{out, now.Add(20 * now.Sub(began))}
	return out, nil
}

// forget has the next question answered anew.
func (a *answers[T]) forget(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.kept, name)
}

// stuck explains what does not go on: of each type the oldest item that is queued, and the
// oldest that waits. What has no worker comes first, then what most items wait for.
func (d *server) stuck(ctx context.Context, types []typeCounts) ([]stuckWork, error) {
	return d.waits.get(pawl.CallerOf(ctx).Namespace, func() ([]stuckWork, error) { return d.explain(ctx, largest(types)) })
}

// largest returns the work that may be stuck, by type and state, with the most items first.
func largest(types []typeCounts) (out []stuckWork) {
	for _, t := range types {
		for _, state := range []pawl.ItemState{pawl.ItemQueued, pawl.ItemWaiting} {
			if n := t.Counts[string(state)]; n > 0 {
				out = append(out, stuckWork{Type: t.Type, State: string(state), Count: n})
			}
		}
		if n := t.Counts[string(pawl.StatusExpired)]; n > 0 {
			out = append(out, stuckWork{Type: t.Type, State: string(pawl.StatusExpired), Count: n})
		}
	}
	slices.SortStableFunc(out, func(a, b stuckWork) int { return cmp.Compare(b.Count, a.Count) })
	return out[:min(len(out), maxStuck)]
}

// explainers is how many items are explained at once.
const explainers = 4

// explain adds the reasons, and leaves out what goes on by itself.
func (d *server) explain(ctx context.Context, work []stuckWork) ([]stuckWork, error) {
	all, each := errgroup.WithContext(ctx)
	all.SetLimit(explainers)
	for i := range work {
		all.Go(func() error { return d.explainOldest(each, &work[i]) })
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	out := slices.DeleteFunc(work, func(s stuckWork) bool { return s.ItemID == "" || s.GoesOn() })
	slices.SortStableFunc(out, func(a, b stuckWork) int {
		if a.NoWorker() != b.NoWorker() {
			return map[bool]int{true: -1, false: 1}[a.NoWorker()]
		}
		return 0
	})
	return out, nil
}

// explainOldest adds the reason of the oldest item, or nothing if the item went on meanwhile.
func (d *server) explainOldest(ctx context.Context, s *stuckWork) error {
	f := pawl.ItemFilter{Types: []string{s.Type}, States: []pawl.ItemState{pawl.ItemState(s.State)}, Fields: []string{"id"},
		Page: pawl.Page{Limit: 1}}
	if s.State == string(pawl.StatusExpired) {
		f.States, f.Statuses = nil, []pawl.Status{pawl.StatusExpired}
	}
	l, err := d.svc.ListItems(ctx, f)
	if err != nil || len(l.Items) == 0 {
		return err
	}
	s.Why, err = d.svc.Why(ctx, l.Items[0].ID)
	if pawl.CodeOf(err) == pawl.CodeNotFound {
		return nil
	}
	return err
}
