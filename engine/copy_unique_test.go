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

// A clone that is unique by its input is compared with what was created.
func TestACloneIsUniqueAsACreateIs(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		c := pawltest.NewCalls(t, p.Service)
		unique := &pawl.Unique{By: pawl.UniqueByInput, OnConflict: pawl.OnConflictReturn}
		for what, n := range map[string]pawl.NewTask{
			"a payload":      {Payload: []byte(`{"b":1, "a":[]}`)},
			"nothing":        {},
			"an item":        {Payload: []byte(`1`), Items: []pawl.NewItem{{Input: []byte(`2`)}}},
			"items":          {Payload: []byte(`1`), Items: []pawl.NewItem{{Input: []byte(`2`), Key: "k"}, {After: []string{"k"}}}},
			"other attempts": {Items: []pawl.NewItem{{MaxAttempts: 2}, {MaxAttempts: 5}}},
		} {
			n.Type, n.Unique = "t", unique
			older := c.Create(n)
			got, err := pawltest.First(p.Engine.CloneTasks(t.Context(), []pawl.TaskClone{{TaskID: older.ID, Unique: unique}}))
			if err != nil || got.ID != older.ID {
				t.Errorf("%s: the clone is %s, of %s: %v", what, got.ID, older.ID, err)
			}
			if _, err := pawltest.First(p.Engine.CancelTasks(t.Context(), []pawl.TaskCall{{TaskID: older.ID}})); err != nil {
				t.Error(err)
			}
		}
	})
}

// A clone has the items of the older task, also if its key is that of a payload which would be planned.
func TestAUniqueCloneIsNotPlannedAgain(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		c := pawltest.NewCalls(t, p.Service)
		older := c.Create(pawl.NewTask{Type: "t", Payload: []byte(`{"a":1}`)})
		if _, err := p.Service.PutTypes(t.Context(), []pawl.Type{{Name: "t", Plan: pawl.Plan{Mode: pawl.PlanItem}}}); err != nil {
			t.Fatal(err)
		}
		unique := &pawl.Unique{By: pawl.UniqueByInput, OnConflict: pawl.OnConflictReturn}
		got, err := pawltest.First(p.Engine.CloneTasks(t.Context(), []pawl.TaskClone{{TaskID: older.ID, Unique: unique}}))
		if err != nil {
			t.Fatal(err)
		}
		items, err := p.Service.ListItems(t.Context(), pawl.ItemFilter{TaskID: got.ID})
		if err != nil || len(items.Items) != 1 || items.Items[0].Kind != pawl.KindWork {
			t.Errorf("%+v, %v", items.Items, err)
		}
	})
}
