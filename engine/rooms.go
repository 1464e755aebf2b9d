package engine

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/schedules"
	"github.com/pawl-work/pawl/sweep"
)

// rooms are the features that have a package of their own. Their methods are those of an Engine.
type rooms struct{ *timetables }

type timetables = schedules.Schedules // the name of the field

func newRooms(k *kernel.Kernel) rooms { return rooms{schedules.New(k)} }

// over returns the rooms over another Kernel.
func (r rooms) over(k *kernel.Kernel) rooms { return rooms{schedules.Over(r.timetables, k)} }

// declared are the declarations of the rooms.
func declared() []kernel.Room { return []kernel.Room{schedules.Declared()} }

// ofRooms joins what each room declares of one kind.
func ofRooms[T any](of func(r kernel.Room) []T) (out []T) {
	for _, r := range declared() {
		out = append(out, of(r)...)
	}
	return out
}

// roomSteps are the steps of the rooms in a whole pass.
func roomSteps() (out []sweep.Step) {
	for _, s := range ofRooms(func(r kernel.Room) []kernel.Step { return r.Steps }) {
		out = append(out, sweep.Step(s))
	}
	return out
}

// wire gives the kernel what rooms need of each other.
func (e *Engine) wire() {
	e.k.Work = func(k *kernel.Kernel, of kernel.Origin) kernel.Tasks {
		made := e.over(k)
		made.origin = of
		return work{made}
	}
	e.k.Refer = func(ctx context.Context, w *kernel.Write, op, text string) error {
		now, err := w.Now(ctx)
		if err != nil {
			return err
		}
		return useIn(ctx, w.Tx, now, op, blobsInText(text))
	}
}

// work is the room of work, as other rooms see it.
type work struct{ *Engine }

// Draft implements kernel.Tasks.
func (w work) Draft(ctx context.Context, t *pawl.NewTask, stored bool) (kernel.Draft, error) {
	d, err := w.draft(ctx, t, "", &drafting{stored: stored})
	return &d, err
}

// Insert implements kernel.Tasks.
func (w work) Insert(ctx context.Context, in *kernel.Write, drafts []kernel.Draft) error {
	list := make([]draft, len(drafts))
	for i, d := range drafts {
		list[i] = *d.(*draft)
	}
	now, err := in.Now(ctx)
	if err == nil {
		_, err = w.insertInTx(ctx, in.Tx, list)
	}
	in.After(func() { w.created(list, now) })
	return err
}

// TaskID implements kernel.Draft.
func (d *draft) TaskID() string { return d.task.ID }

// Typed implements kernel.Draft.
func (d *draft) Typed() bool { return d.task.TypeVersion > 0 }

// Plain implements kernel.Draft.
func (d *draft) Plain() bool {
	return d.hold == nil && !d.task.Dedupes && !d.needsOwnTx() && !d.hasMessages() && len(d.blobs()) == 0
}
