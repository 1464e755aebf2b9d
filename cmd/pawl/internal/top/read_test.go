package top

import (
	"context"
	"slices"
	"strings"
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

// titled has leases of two tasks, one of which has a title.
type titled struct{ source }

func (titled) ListItems(context.Context, pawl.ItemFilter) (pawl.List[pawl.Item], error) {
	return pawl.List[pawl.Item]{Items: []pawl.Item{{ID: "itm_1", TaskID: "tsk_1", Type: "ocr"}, {ID: "itm_2", TaskID: "tsk_2", Type: "ocr"},
		{ID: "itm_3", TaskID: "tsk_1", Type: "ocr"}}}, nil
}

func (titled) ListTasks(_ context.Context, f pawl.TaskFilter) (pawl.List[pawl.Task], error) {
	if !slices.Equal(f.IDs, []string{"tsk_1", "tsk_2"}) {
		return pawl.List[pawl.Task]{}, pawl.Invalid("/id", "%q", f.IDs)
	}
	return pawl.List[pawl.Task]{Items: []pawl.Task{{ID: "tsk_1", Title: "the report"}, {ID: "tsk_2"}}}, nil
}

// Who holds what begins with the title of the task; the id comes last.
func TestLeasesHaveTitles(t *testing.T) {
	f := &frame{}
	if err := (&reader{source: titled{}}).leased(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	lines := f.leaseLines()
	for i, want := range [][2]string{{"TITLE ", "ITEM"}, {"the report  ocr ", "itm_1"}, {"-           ocr ", "itm_2"},
		{"the report  ocr ", "itm_3"}} {
		if got := lines[i].text; !strings.HasPrefix(got, want[0]) || !strings.HasSuffix(got, want[1]) {
			t.Errorf("line %d is %q, want %q", i, got, want)
		}
	}
}
