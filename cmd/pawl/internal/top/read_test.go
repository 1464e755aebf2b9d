package top

import (
	"context"
	"testing"

	"github.com/pawl-work/pawl"
)

// failing has a group of failed items and one of failed tasks.
type failing struct{ source }

func (failing) ListFailures(context.Context, pawl.FailureFilter) (pawl.List[pawl.FailureGroup], error) {
	return pawl.List[pawl.FailureGroup]{Items: []pawl.FailureGroup{
		{Type: "fetch", Count: 9, ItemID: "itm_1", TaskID: "tsk_1"}, {Type: "report", Count: 3, TaskID: "tsk_2"}}}, nil
}

func (failing) Why(_ context.Context, id string) (pawl.Why, error) {
	return pawl.Why{Reason: pawl.WhyFailed, Command: "pawl task retry " + id}, nil
}

// Tasks that failed without an item are among what is stuck.
func TestFailedTasksAreStuck(t *testing.T) {
	r := &reader{source: failing{}, command: func(line string) string { return line }}
	lines, err := r.failedTasks(t.Context())
	if err != nil || len(lines) != 1 || lines[0].Type != "report" || lines[0].Count != 3 || lines[0].Command != "pawl task retry tsk_2" {
		t.Errorf("%+v, %v", lines, err)
	}
}
