package matrix

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// stored are rows of the database: by table and by key, the values of their columns as texts; "NULL" = none.
type stored map[string]map[string]map[string]string

// read reads all rows of the tables that are wanted.
func (s *subject) read(wanted func(table string) bool) stored {
	s.Helper()
	out := stored{}
	db := s.p.Engine.DB()
	err := db.View(s.ctx, func(ctx context.Context, tx store.Tx) error {
		tables, err := db.Dialect().Fences.Tables(ctx, tx)
		for _, table := range tables {
			if err == nil && wanted(table) {
				out[table], err = readTable(ctx, tx, db, table)
			}
		}
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
	return out
}

func readTable(ctx context.Context, tx store.Tx, db store.DB, table string) (map[string]map[string]string, error) {
	columns, err := db.Dialect().Fences.Columns(ctx, tx, table)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, c := range columns {
		names = append(names, c.Name)
	}
	out := map[string]map[string]string{}
	err = store.EachRow(ctx, tx, func(rows store.Rows) error {
		values, to := make([]any, len(names)), make([]any, len(names))
		for i := range values {
			to[i] = &values[i]
		}
		if err := rows.Scan(to...); err != nil {
			return err
		}
		row, key := map[string]string{}, ""
		for i, v := range values {
			switch b := v.(type) {
			case nil:
				v = "NULL"
			case []byte:
				v = hex.EncodeToString(b)
			case [16]byte:
				v = hex.EncodeToString(b[:])
			}
			if row[names[i]] = fmt.Sprint(v); columns[i].Key > 0 {
				key += row[names[i]] + " "
			}
		}
		out[key] = row
		return nil
	}, "SELECT "+strings.Join(names, ", ")+" FROM pawl."+table)
	return out, err
}

// differs compares rows, and returns for each column that differs how often it does, with an example. A column "" stands
// for whole rows.
func (s stored) differs(after stored) map[string]string {
	out, n := map[string]string{}, map[string]int{}
	note := func(column, example string) {
		n[column]++
		out[column] = fmt.Sprintf("%d times, for example %.300s", n[column], example)
	}
	for table, rows := range s {
		for key, row := range rows {
			is, found := after[table][key]
			if !found {
				note(table, fmt.Sprintf("%v is gone", row))
			}
			for column, v := range row {
				if found && is[column] != v {
					note(table+"."+column, fmt.Sprintf("%s is %s and was %s", key, is[column], v))
				}
			}
		}
		for key, row := range after[table] {
			if _, found := rows[key]; !found {
				note(table, fmt.Sprintf("%v is new", row))
			}
		}
	}
	return out
}

// endAll ends all tasks, decides about all effects, and lets time pass until the tasks rest.
func (s *subject) endAll() {
	s.Helper()
	for _, c := range must(s.svc.ListSchedules(s.user, pawl.Page{})).Items {
		_, err := s.svc.PauseSchedule(s.user, c.Name)
		must(0, err)
	}
	for range 9 {
		_ = s.decide()
	}
	for list := s.alive(); len(list) > 0; list = s.alive() {
		for _, t := range list {
			_, err := s.svc.CancelTasks(s.user, []pawl.TaskCall{{TaskID: t.ID, Reason: "enough"}})
			must(0, err)
		}
	}
	for range 3 {
		s.p.Advance(3 * 24 * time.Hour)
		s.sweep()
		for s.decide() > 0 {
			s.sweep()
		}
	}
}

// ofTasks are the tables whose rows an archive takes.
var ofTasks = []string{"tasks", "task_counters", "items", "item_deps", "parked_items", "finished_items", "deadlines", "item_parts", "blobs",
	"checkpoints", "task_events", "task_results", "provenances", "messages", "message_chunks", "parents", "child_links", "child_waits",
	"awaited_children", "effects"}

// anewAfterRestore are the columns that a task does not bring back from its archive, with the reason.
var anewAfterRestore = map[string]string{
	"blobs.used_at":           "the restore uses them",
	"parked_items.claimed_at": "orders an item alone that is retried at once",
	"parked_items.gate":       "is a number of the database; a sweep finds that of an item that is retried",
	"task_events.digest":      "a repeat of a call is not recognised after a restore",
	"task_events.request":     "a repeat of a call is not recognised after a restore",
	"task_events.queue_id":    "for the counts of queues, which have counted it",
	"task_events.since":       "for the counts of queues, which have counted it",
}

// shortly is the first of the databases, if not the whole matrix is run.
func shortly(all []pawltest.Database) []pawltest.Database {
	if whole {
		return all
	}
	return all[:1]
}

// What was archived comes back as it was, column by column.
func TestFilledArchives(t *testing.T) {
	for _, which := range shortly(pawltest.Databases) {
		t.Run(string(which), func(t *testing.T) {
			defer reported(t)
			s := filled(t, which)
			s.endAll()
			wanted := func(table string) bool { return slices.Contains(ofTasks, table) }
			before := s.read(wanted)
			maps.DeleteFunc(before["task_events"], func(_ string, e map[string]string) bool { // deleted
				return before["tasks"][e["task_id"]+" "] == nil
			})
			for range 10 {
				s.p.Advance(30 * 24 * time.Hour)
				s.sweep()
			}
			if left := s.read(wanted); len(left["tasks"]) > 0 {
				for key, row := range left["tasks"] {
					t.Errorf("left: %s %v %v", taskID(key), row, left["task_counters"][key])
				}
				t.FailNow()
			}
			for table, rows := range s.read(wanted) {
				if len(rows) > 0 && table != "task_events" && table != "effects" { // that a task was deleted, and keys of effects, stay
					t.Errorf("%d rows of %s are left: %v", len(rows), table, rows)
				}
			}
			for key := range before["tasks"] {
				must(s.svc.RestoreArchive(s.user, taskID(key)))
			}
			s.sweep()
			for column, found := range before.differs(s.read(wanted)) {
				if anewAfterRestore[column] == "" {
					t.Errorf("%s: %s", column, found)
				}
			}
			s.sound()
		})
	}
}

func taskID(key string) string {
	var id store.TaskID
	b, err := hex.DecodeString(strings.TrimSpace(key))
	must(b, err)
	id.SetBytes([16]byte(b))
	return string(id)
}
