package matrix

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// copied says what copies take of the columns of a table. Each column is in one of these. A clone has no checkpoints and no
// effects.
type copied struct {
	by      string // the column that tells the rows of a task apart
	carried string
	dropped string // NULL, 0 or empty in the copy
	anew    string
}

var copies = map[string]copied{
	"tasks": {
		carried: "namespace type solo title priority metadata requested_by_type requested_by_id max_attempts item_type " +
			"item_priority parts_required payload input start_to_close schedule_to_start queue_id",
		dropped: "input_hash dedupes thread trace_parent run_at reasons deadline parent_id schedule",
		anew:    "id type_version created_at forked_from forked_at",
	},
	"items": {by: "position",
		carried: "namespace queue_id type kind position key priority max_attempts after parts_required input",
		dropped: "run_at reasons deadline",
		anew:    "id task_id created_at",
	},
	"checkpoints": {by: "seq",
		carried: "namespace seq type name args_hash snapshot metadata blob created_at",
		dropped: "attempt message_id said", // what was said is in the snapshot
		anew:    "id task_id item_id",
	},
	"effects": {by: "name",
		carried: "namespace name request_hash repeatable worker_id answer answer_hash",
		dropped: "attempt key_id sent_until sendings approval decided_by budget amount reservation outcome comment error late contradicts " +
			"late_report gone opened_at",
		anew: "id key task_id item_id state sender senders copied source ended_at created_at",
	},
}

// rowsOf returns the rows of a task by the column that tells them apart.
func (s stored) rowsOf(table, task string) map[string]map[string]string {
	if table == "tasks" {
		return map[string]map[string]string{"": s[table][task+" "]}
	}
	out := map[string]map[string]string{}
	for _, row := range s[table] {
		if row["task_id"] == task && row["kind"] != "plan" && row["kind"] != "apply" {
			out[row[copies[table].by]] = row
		}
	}
	return out
}

// checkCopy compares the rows of a copy with those of its original.
func (s stored) checkCopy(t *testing.T, what, of, is string) {
	for table, c := range copies {
		was := s.rowsOf(table, of)
		for key, row := range s.rowsOf(table, is) {
			for column, v := range row {
				switch {
				case slices.Contains(strings.Fields(c.anew), column):
				case what == "fork" && column == "reasons" && was[key] != nil && v == was[key][column]: // it is in the same round
				case slices.Contains(strings.Fields(c.dropped), column):
					if v != "NULL" && v != "0" && v != "" {
						t.Errorf("a %s has in %s.%s %s", what, table, column, v)
					}
				case !slices.Contains(strings.Fields(c.carried), column):
					t.Errorf("does a %s take %s.%s?", what, table, column)
				case was[key] == nil:
					t.Errorf("a %s has a row of %s that its original has not: %v", what, table, row)
				case was[key][column] != v && !(column == "snapshot" && was[key]["said"] != "NULL"):
					t.Errorf("a %s has in %s.%s %s, its original %s", what, table, column, v, was[key][column])
				}
			}
		}
	}
}

func rawID(id string) string {
	b, _ := store.TaskID(id).Bytes()
	return hex.EncodeToString(b[:])
}

// Forks and clones of the tasks of a filled database have of each column what they are to have, and no row of another table.
func TestFilledCopies(t *testing.T) {
	for _, which := range shortly(pawltest.Databases) {
		t.Run(string(which), func(t *testing.T) {
			defer reported(t)
			s := filled(t, which)
			everything := func(string) bool { return true }
			before := s.read(everything)
			newest := map[string]int64{}
			for _, c := range before["checkpoints"] {
				seq, _ := strconv.ParseInt(c["seq"], 10, 64)
				newest[c["task_id"]] = max(newest[c["task_id"]], seq)
			}
			type pair struct{ what, of, is string }
			var made []pair
			refused := 0
			add := func(what, of string, rs []pawl.Result[pawl.Task]) {
				if rs[0].Err != nil {
					refused++
					return
				}
				made = append(made, pair{what, of, rawID(rs[0].Value.ID)})
			}
			for key := range before["tasks"] {
				id := taskID(key)
				add("clone", rawID(id), must(s.svc.CloneTasks(s.user, []pawl.TaskClone{{TaskID: id}})))
				add("fork", rawID(id), must(s.svc.ForkTasks(s.user, []pawl.TaskFork{{TaskID: id, Checkpoint: newest[rawID(id)]}})))
			}
			after := s.read(everything)
			for _, p := range made {
				after.checkCopy(t, p.what, p.of, p.is)
			}
			origin := map[string]pair{}
			for _, p := range made {
				origin[p.is] = p
			}
			rounds := map[string]bool{} // of rework, in which the items of a task are
			for _, rows := range before {
				for _, row := range rows {
					rounds[row["task_id"]+" "+row["rework"]] = true
				}
			}
			for table, rows := range after {
				for key, row := range rows {
					from, copied := origin[row["task_id"]]
					if before[table][key] != nil || !copied {
						continue
					}
					if !slices.Contains(ofCopies, table) {
						t.Errorf("a copy has a row of %s: %v", table, row)
					}
					for column, v := range row {
						inItsRound := column == "rework" && from.what == "fork" && rounds[from.of+" "+v]
						if strings.Contains(" ready scheduled waiting ", table) && slices.Contains(ofAttempts, column) && v != "NULL" && v != "0" &&
							!inItsRound {
							t.Errorf("an item of a copy has in %s.%s %s", table, column, v)
						}
					}
				}
			}
			if len(made) < 200 || refused > 9 {
				t.Errorf("%d copies were made, and %d refused", len(made), refused)
			}
			s.sound()
		})
	}
}

// ofCopies are the tables in which a copy has rows, besides those of copies.
var ofCopies = []string{"items", "checkpoints", "effects", "messages", "ready", "scheduled", "waiting", "task_counters", "task_events",
	"blob_refs"}

// ofAttempts are the columns of items that come from their attempts, of which those of a copy have had none. A fork is in the
// round of rework of its original.
var ofAttempts = []string{"attempt", "failures", "rework", "spared", "left_by", "worker", "started_at", "claimed_at", "error", "signal",
	"broken"}
