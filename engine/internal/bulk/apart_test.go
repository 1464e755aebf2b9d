package bulk

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A part that fails beside one that succeeds later is an error: its tasks are not done.
func TestAPartOfABulkCallFails(t *testing.T) {
	for _, writers := range []int{1, bulkWriters} {
		synctest.Test(t, func(t *testing.T) {
			failed, begun := errors.New("failed"), atomic.Int64{}
			tasks := make([]task, 10*bulkPart)
			tasks[0].ID = "failing"
			err := inParts(t.Context(), tasks, writers, func(part []task) error {
				begun.Add(1)
				if part[0].ID == "failing" {
					return failed
				}
				time.Sleep(time.Second)
				return nil
			})
			if err != failed || begun.Load() > int64(writers) {
				t.Errorf("%v; %d parts of 10 were begun by %d writers", err, begun.Load(), writers)
			}
		})
	}
}
