package engine_test

import (
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// A clone that is made in parts is not taken for one of another task whose first items are the same.
func TestALargeCloneIsNotUniqueByInput(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		c := pawltest.NewCalls(t, p.Service)
		task := c.Create(pawl.NewTask{Type: "large", Items: make([]pawl.NewItem, 2100)})
		clone := func(u pawl.Unique) (pawl.Task, error) {
			return pawltest.First(p.Engine.CloneTasks(t.Context(), []pawl.TaskClone{{TaskID: task.ID, Unique: &u}}))
		}
		if got, err := clone(pawl.Unique{By: pawl.UniqueByInput, OnConflict: pawl.OnConflictReturn}); pawl.CodeOf(err) != pawl.CodeTooLarge {
			t.Errorf("by input: %s %v", got.ID, err)
		}
		if _, err := clone(pawl.Unique{By: pawl.UniqueByKey, Key: "k"}); err != nil {
			t.Errorf("by key: %v", err)
		}
	})
}
