package pawl_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-work/pawl"
)

// asked is a TaskReader that is asked again and again.
type asked struct {
	pawl.TaskReader
	reads   int
	answers []pawl.TaskState // one a read, the last for all later ones; "" = unavailable
}

func (a *asked) GetTask(_ context.Context, id string) (pawl.Task, error) {
	state := a.answers[min(a.reads, len(a.answers)-1)]
	if a.reads++; state == "" {
		return pawl.Task{}, &pawl.Error{Code: pawl.CodeUnavailable}
	}
	return pawl.Task{ID: id, State: state}, nil
}

// A reader that tells of no changes is read at growing intervals, also while it is
// unavailable.
func TestAwaitAsksAgain(t *testing.T) {
	for _, end := range []pawl.TaskState{pawl.TaskCompleted, pawl.TaskFailed, pawl.TaskDeadLettered} {
		a := &asked{answers: []pawl.TaskState{pawl.TaskQueued, "", pawl.TaskSubmitted, end}}
		if got, err := pawl.Await(t.Context(), a, "tsk_1"); err != nil || got.State != end || a.reads != 4 {
			t.Errorf("%s after %d reads, %v", got.State, a.reads, err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		a := &asked{answers: []pawl.TaskState{pawl.TaskQueued}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		got, err := pawl.Await(ctx, a, "tsk_1")
		if !errors.Is(err, context.DeadlineExceeded) || got.State != pawl.TaskQueued {
			t.Errorf("%s, %v", got.State, err)
		}
		if a.reads < 60 || a.reads > 70 {
			t.Errorf("%d reads in a minute", a.reads)
		}
	})
}
