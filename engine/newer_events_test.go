package engine_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// A newer program leaves an event that this program knows, with a move that it does not know. A
// filter by the event's name finds it, and it is shown by its names.
func TestAFilterFindsTheEventsOfANewerProgram(t *testing.T) {
	t.Parallel()
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenWith(t, which, engine.Options{})
			task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "t"}))
			p.Tampered()
			code := len(store.MoveCodes) + 1
			free := map[pawltest.Database]string{ // a migration of the newer program allows its code
				pawltest.SQLite:   "PRAGMA ignore_check_constraints = ON",
				pawltest.Postgres: "ALTER TABLE pawl.task_events DROP CONSTRAINT task_events_move",
			}
			for _, q := range []string{
				free[which],
				fmt.Sprintf("INSERT INTO pawl.moves (code, class, event, from_state, to_state) "+
					"VALUES (%d, 'only', 'updated', 'queued', 'paused')", code),
				fmt.Sprintf("INSERT INTO pawl.task_events (namespace, task_id, move, actor, created_at) "+
					"VALUES ('default', '%s', %d, 0, 1)", task.ID, code),
			} {
				if err := p.Exec(q); err != nil {
					t.Fatal(err)
				}
			}
			t.Cleanup(func() {
				_, err := p.Service.DeleteTasks(context.Background(), []pawl.TaskCall{{TaskID: task.ID, Force: true}})
				if err != nil {
					t.Error(err)
				}
			})
			for _, f := range []pawl.EventFilter{{Event: "updated"}, {Event: "updated", TaskID: task.ID}} {
				list, err := p.Service.ListEvents(t.Context(), f)
				if err != nil || len(list.Items) != 1 || list.Items[0].Event != "updated" || list.Items[0].ToState != "paused" {
					t.Errorf("%+v: %+v, %v", f, list.Items, err)
				}
			}
			list, err := p.Service.ListEvents(t.Context(), pawl.EventFilter{Event: "proposed"})
			if err != nil || len(list.Items) != 1 {
				t.Errorf("another name: %+v, %v", list.Items, err)
			}
		})
	}
}
