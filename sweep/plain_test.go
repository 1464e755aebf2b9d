package sweep_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// What retention reads of a plain task is what it reads of any other.
func TestPlainTasksAreReadAsOthers(t *testing.T) {
	each(t, func(h *fixture) {
		ids := h.solos(6, 1)
		h.complete(h.claim(2)...)
		for _, id := range ids[2:] {
			_, err := h.Service.CancelTasks(h.Context(), []pawl.TaskCall{{TaskID: id, Reason: "\"<no>\""}})
			h.OK(err)
		}
		h.OK(h.DB.View(h.Context(), func(ctx context.Context, tx store.Tx) error {
			want := map[string]*bytes.Buffer{}
			for _, id := range ids {
				want[id] = &bytes.Buffer{}
			}
			err := store.ReadTasks(ctx, tx, ids, func(id string, row []byte) error {
				_, err := want[id].Write(row)
				return err
			})
			h.OK(err)
			var room store.PlainRoom
			size := 0
			for _, some := range [][]string{ids, ids[4:]} { // before the others, with more and with fewer
				_, err = room.Read(ctx, tx, some, func(int) error { return nil })
				h.OK(err)
			}
			got, err := room.Read(ctx, tx, ids, func(bytes int) error { size += bytes; return nil })
			h.OK(err)
			events, err := store.EventsToRemove(ctx, tx, ids)
			h.OK(err)
			for _, id := range ids {
				h.same(string(got[id].Lines), want[id].String(), "the lines of "+id)
				var numbers []int64
				for _, e := range got[id].Events {
					numbers = append(numbers, e.ID)
				}
				slices.Sort(events[id])
				h.same(numbers, events[id], "the events of "+id)
				h.same(got[id].Namespace, "default", "the namespace of "+id)
			}
			if size < 1000*len(ids) {
				t.Errorf("only %d bytes are told", size)
			}
			return nil
		}))
	})
}

// A task that gets an event after it was read keeps it in its archive. One whose deletion begins gets no archive.
func TestAPlainTaskThatChangesMeanwhile(t *testing.T) {
	for _, event := range []string{"stale", "deleted"} {
		t.Run(event, func(t *testing.T) {
			each(t, func(h *fixture) {
				ids := h.solos(5, 1)
				h.complete(h.claim(5)...)
				h.Advance(31 * day)
				db := h.DB
				h.DB = &before{db, func() {
					h.OK(db.Do(h.Context(), func(ctx context.Context, tx store.Tx) error {
						now, err := tx.Now(ctx)
						h.OK(err)
						return store.Record(ctx, tx, now, []store.Event{{Namespace: "default", TaskID: ids[2], Event: event,
							Actor: store.Actor{Type: pawl.ActorSystem}}})
					}))
				}}
				h.OK(h.Retire(h.Context(), ids...))
				h.DB = db
				h.same(h.count("SELECT COUNT(*) FROM pawl.tasks"), 0, "tasks left")
				h.same(h.count("SELECT COUNT(*) FROM pawl.segments"), 0, "segments of a reading that another has passed")
				err := h.Restore(h.Context(), "default", ids[2])
				if event == "deleted" {
					h.same(pawl.CodeOf(err), pawl.CodeNotFound, "a restore of the deleted task")
					return
				}
				h.OK(err)
				h.same(h.count("SELECT COUNT(*) FROM pawl.task_events WHERE task_id = $1", store.TaskID(ids[2])), 4, "its events")
			})
		})
	}
}

// PostgreSQL: a key of a task, or of its item, that is begun while the task is removed waits for the removal and finds no
// task.
func TestAKeyWaitsForTheRemoval(t *testing.T) {
	each(t, func(h *fixture) {
		if h.Database != pawltest.Postgres {
			return // SQLite has one writer at a time
		}
		ids := h.solos(4, 1)
		h.complete(h.claim(4)...)
		h.Advance(31 * day)
		for i, k := range []pawl.KeyBegin{{TaskID: ids[0]}, {ItemID: strings.Replace(ids[2], "tsk_", "itm_", 1)}} {
			k.Scope, k.Key, k.RequestHash = "s", "k", "h"
			ended := make(chan error, 1)
			slow := &slowDB{DB: h.DB, before: func() {
				go func() {
					rs, err := h.Service.BeginKeys(h.Context(), []pawl.KeyBegin{k})
					if err == nil {
						err = rs[0].Err
					}
					ended <- err
				}()
				for len(ended) == 0 && h.count("SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND "+
					"application_name = current_setting('application_name')") == 0 {
					time.Sleep(time.Millisecond)
				}
			}}
			h.OK(h.server(slow).Retire(h.Context(), ids[2*i:2*i+2]...))
			h.same(pawl.CodeOf(<-ended), pawl.CodeNotFound, "a key that is begun while its task goes")
		}
	})
}
