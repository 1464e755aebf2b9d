package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/checkpoints"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// A read of what a checkpoint refers to, and an append on condition, look at no other checkpoints
// of the task.
func TestReferencesAreFoundByTheirNames(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "thread", RunAt: &pawl.Never}))
		row := func(name, metadata string) pawl.AppendedCheckpoint {
			return pawl.AppendedCheckpoint{NewCheckpoint: pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Name: name,
				Snapshot: json.RawMessage(`1`), Metadata: json.RawMessage(metadata)}, OnConflict: pawl.NameReplace}
		}
		for n := range 3 {
			var rows []pawl.AppendedCheckpoint
			for k := range 700 {
				rows = append(rows, row(fmt.Sprintf("w/%d/%d/", n, k), `{}`))
			}
			need[pawl.CheckpointsAppended](t)(first(p.Engine.AppendCheckpoints(t.Context(),
				[]pawl.CheckpointAppend{{TaskID: task.ID, Checkpoints: rows}})))
		}
		need[pawl.CheckpointsAppended](t)(first(p.Engine.AppendCheckpoints(t.Context(), []pawl.CheckpointAppend{{TaskID: task.ID,
			Checkpoints: []pawl.AppendedCheckpoint{row("c/1/", `{"refs":["w/1/7/","w/1/60*"]}`)}}})))
		if p.Database == pawltest.Postgres {
			p.OK(p.Exec("ANALYZE"))
		}
		p.OK(p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) error {
			r := &recorder{Tx: tx}
			list, err := checkpoints.List(ctx, r, "default", pawl.CheckpointFilter{TaskID: task.ID, Names: []string{"c/1/"}, Own: true,
				Refs: true, Page: pawl.Page{Limit: 1}})
			if err != nil {
				return err
			}
			if len(list.Items) != 1 || len(list.Items[0].Refs) != 12 {
				t.Errorf("%d checkpoints", len(list.Items))
			}
			walks := regexp.MustCompile(`SEARCH c USING INDEX checkpoints_in_order \(task_id=\?\)`)
			for n, query := range r.queries {
				if !strings.Contains(query, "MAX(y.seq)") {
					continue
				}
				plan, err := explain(ctx, tx, p.Database == pawltest.SQLite, query, r.args[n])
				if err != nil {
					return err
				}
				if most := mostRead(plan); most > 200 || walks.MatchString(strings.Join(plan, "\n")) {
					t.Errorf("%s\nreads %v rows:\n%s", query, most, strings.Join(plan, "\n"))
				}
			}
			return nil
		}))
	})
}
